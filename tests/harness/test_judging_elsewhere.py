"""A stored run is judged where nothing that it ran on is installed."""

from __future__ import annotations

import pytest

from harness.plan import Plan
from harness.systems import name_and_table


@pytest.mark.parametrize(
    ("system", "switches", "told"),
    [
        ("kafka:3.6.2", {}, ("kafka:3.6.2", "kip-595")),
        ("kafka:4.99.0", {}, ("kafka:4.99.0", "kip-996")),
        ("reference", {}, ("reference", "kip-996")),
        ("reference", {"reference.pre_vote": "false"}, ("reference (pre_vote=false)", "kip-595")),
    ],
)
def test_name_and_table_are_known_without_artifacts(system, switches, told, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert name_and_table(Plan(name="stored", system=system, switches=switches, seed=1, story=[])) == told
