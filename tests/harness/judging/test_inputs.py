"""A system brings its own transition rules; a run stores them, and is checked by them without the system's plugin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness import plugins
from harness.engine import Recorder, VirtualClock
from harness.judging.inputs import inputs_of, inputs_of_run, record_inputs
from harness.judging.runs import judge_run
from harness.model import NEMESIS, BadInput, Observation, Op, Verdict
from harness.planning.plan import Plan
from results.store import RunDirectory, new_run

MADE_UP = """
from harness.extension import AllowedStep, SystemKind, TransitionRules

STEPS = (
    AllowedStep("Idle", "Standby", "same"),
    AllowedStep("Standby", "Leader", "next"),
    AllowedStep("Leader", "Idle", "higher"),
)
SYSTEM = SystemKind(
    name="made-up",
    summary="a protocol of its own",
    node=None,
    observe=None,
    ports=lambda _layout: (),
    checks=("quorum",),
    rules=lambda _version, _switches: TransitionRules("the made-up protocol", STEPS, ("Idle",)),
)
"""
PLAN = Plan(name="made-up", system="made_up_system:SYSTEM", nodes=2, seed=1, story=[])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    """A run of the made-up system, whose module is gone by now."""
    module = tmp_path / "made_up_system.py"
    module.write_text(MADE_UP)
    monkeypatch.syspath_prepend(tmp_path)
    run = new_run(tmp_path / "runs", "made-up", datetime.now(UTC))
    run.plan.write_text(PLAN.as_json())
    record_inputs(run, PLAN)
    module.unlink()
    del sys.modules["made_up_system"]
    plugins.system.cache_clear()
    sys.path_importer_cache.clear()
    for status in ("running", "recorded"):
        run.enter(status, datetime.now(UTC))
    yield run
    plugins.system.cache_clear()


def transition(node: int, previous: str | None, state: str, epoch: int) -> Observation:
    return Observation(10 * epoch, node, "log", "transition", state, previous, epoch)


def observed(run: RunDirectory, *seen: Observation) -> None:
    with Recorder(run.path, VirtualClock()) as recorder:
        for _ in range(2):
            recorder.record(Op("info", "heal", NEMESIS))
        for each in (*(Observation(0, node, "process", "started") for node in (1, 2)), *seen):
            recorder.observe(each)


LEGAL = (transition(1, None, "Idle", 1), transition(1, "Idle", "Standby", 1), transition(1, "Standby", "Leader", 2))


@pytest.mark.spark
def test_a_run_is_checked_by_the_rules_of_its_system_without_the_plugin(run: RunDirectory, spark: SparkSession) -> None:
    observed(run, *LEGAL, transition(2, None, "Standby", 1), transition(2, "Standby", "Leader", 3))
    verdict = judge_run(run, spark)
    assert verdict.checks == ("nemesis", "servers", "quorum")
    assert [(found.name, found.node, found.message) for found in verdict.findings] == [
        ("illegal-transition", 2, f"{TABLE}: node 2 went from its start (epoch ?) to Standby (epoch 1)"),
        ("illegal-transition", 2, f"{TABLE}: node 2 went from Standby (epoch 1) to Leader (epoch 3)"),
    ]
    assert "made_up_system" in run.report.read_text()


TABLE = "every transition is in the table of the made-up protocol"


@pytest.mark.spark
def test_a_run_that_follows_the_rules_of_its_system_is_valid(run: RunDirectory, spark: SparkSession) -> None:
    observed(run, *LEGAL, transition(1, "Leader", "Idle", 4))
    assert judge_run(run, spark).verdict is Verdict.VALID


def test_inputs_are_stored_and_read_back(tmp_path: Path) -> None:
    plan = Plan(name="mixed", system="kafka:3.9.1", node_systems={1: "kafka:4.3.1"}, nodes=3, seed=1, story=[])
    run = new_run(tmp_path, "mixed", datetime.now(UTC))
    before = inputs_of_run(run, plan)
    record_inputs(run, plan)
    assert inputs_of_run(run, plan) == before == inputs_of(plan)
    assert [each["nodes"] for each in json.loads(run.system.read_text())["rules"]] == [[1], [2, 3]]


def test_a_system_that_is_neither_installed_nor_stored_is_refused(run: RunDirectory) -> None:
    run.system.unlink()
    with pytest.raises(BadInput, match="expected an installed module, there is no made_up_system"):
        inputs_of_run(run, PLAN)


def test_damaged_inputs_are_refused_by_name(run: RunDirectory) -> None:
    run.system.write_text('{"label": "made-up"}')
    with pytest.raises(BadInput, match=r"system\.json: expected a label, checks, idle and rules of nodes"):
        inputs_of_run(run, PLAN)
