"""A stored run can be checked where nothing that it ran on is installed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from harness.model.transition_rules import any_of
from harness.planning.plan import Plan
from harness.systems.cluster import label_of, rules_of

OLD, NEW = KIP_595_RULES, KIP_996_RULES
UPGRADE = {"f": "change_version", "value": {"who": "n1", "system": "kafka:4.3.1"}}


def stored(**values: Any) -> Plan:
    """A plan as a run's directory stores it."""
    return Plan.model_validate_json(Plan(name="stored", nodes=2, seed=1, **{"story": [], **values}).as_json())


@pytest.mark.parametrize(
    ("plan", "name", "rules"),
    [
        ({"system": "kafka:3.6.2"}, "kafka:3.6.2", {1: OLD, 2: OLD}),
        ({"system": "kafka:4.99.0"}, "kafka:4.99.0", {1: NEW, 2: NEW}),
        ({"system": "reference"}, "reference", {1: NEW, 2: NEW}),
        ({"switches": {"reference.pre_vote": "false"}}, "reference (pre_vote=false)", {1: OLD, 2: OLD}),
        (
            {"system": "kafka:3.9.1", "node_systems": {1: "kafka:4.3.1"}},
            "n1 kafka:4.3.1, n2 kafka:3.9.1",
            {1: NEW, 2: OLD},
        ),
        (
            {"node_switches": {2: {"reference.pre_vote": "false"}}},
            "n1 reference, n2 reference (pre_vote=false)",
            {1: NEW, 2: OLD},
        ),
        (
            {"system": "kafka:3.9.1", "node_switches": {2: {"a.timeout.ms": "1"}}},
            "n1 kafka:3.9.1, n2 kafka:3.9.1 (a.timeout.ms=1)",
            {1: OLD, 2: OLD},
        ),
        ({"system": "kafka:3.9.1", "node_systems": {2: "reference"}}, "n1 kafka:3.9.1, n2 reference", {1: OLD, 2: NEW}),
        (
            {"system": "kafka:3.9.1", "node_systems": {2: "kafka:4.0.0"}, "story": [UPGRADE]},
            "n1 kafka:3.9.1, n2 kafka:4.0.0",
            {1: any_of([OLD, NEW]), 2: NEW},
        ),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_label_and_rules_need_no_artifacts(plan, name, rules, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (label_of(stored(**plan)), rules_of(stored(**plan))) == (name, rules)
