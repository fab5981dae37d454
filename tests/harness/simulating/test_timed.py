"""Timed runs: their schedules, what they record, and that Kafka's driver carries them out as Python does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness import plugins
from harness.model import NEMESIS, BadInput
from harness.model.conditions import LEADER_KNOWN
from harness.model.faults.disks import lose_unsynced
from harness.model.faults.membership import add_voter
from harness.model.nemesis_ops import HEAL
from harness.model.story import (
    ALL,
    CHANGE_VERSION,
    DOWN,
    LEADER,
    PAUSED,
    Step,
    cut,
    heal,
    kill,
    pause,
    sleep,
    start,
    stop,
    wait_until,
)
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.running.run import plan_of
from harness.simulating.request import SimulationRequest
from harness.simulating.screening import reason_to_store
from harness.simulating.searching import screen, screen_all
from harness.simulating.simulated import simulate
from harness.simulating.timed import require_timed, schedule_of, timed_request, timed_run
from nodes.simulation.kafka.cluster import IN_FILES
from nodes.simulation.schedule import CALLS, Timed

SEEDS = range(1, 9)
LEADER_REMOVED_ITSELF = 329
"""A run of Kafka 4.3.1 that is EX-11."""
FAULTS: dict[str, tuple[Sequence[Step], set[tuple[str, str]]]] = {
    "kill": ([kill(LEADER), sleep(3), start(DOWN)], {("stopped", "killed")}),
    "stop": ([stop(LEADER), sleep(3), start(DOWN)], {("stopped", "stopped")}),
    "pause": ([pause(LEADER), sleep(6)], set()),
    "cut": ([cut(LEADER), sleep(6)], set()),
    "power": ([lose_unsynced(ALL), sleep(0.5), start(DOWN)], {("stopped", "killed")}),
}


def timed_plan(*story: Step, **values: Any) -> Plan:
    given = {"system": "reference", "workload": "register", "rate": 5.0, "hosts": "simulation", "timed": True, **values}
    return Plan(name="test", seed=3, story=[StoryStep.of(step) for step in story], **given)


def of_nemesis(history: Sequence[Any]) -> list[str]:
    return [op.f for op in history if op.process == NEMESIS][1::2]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_leader_ends_its_epoch_and_another_one_commits(fault: str) -> None:
    steps, stopped = FAULTS[fault]
    outcome = simulate(timed_plan(sleep(3), *steps, heal()))
    assert reason_to_store(outcome) is None
    assert {(each.kind, each.detail) for each in outcome.observations if each.kind == "stopped"} == stopped
    epochs = {each.epoch for each in outcome.observations if each.kind == "transition" and each.state == "Leader"}
    assert len(epochs) > 1
    assert of_nemesis(outcome.history)[-2:] == ["heal", "await"]
    oks = Counter(op.f for op in outcome.history if op.type == "ok")
    assert oks["read"]
    assert oks["write"]


def test_each_operation_begins_and_ends_once() -> None:
    outcome = simulate(timed_plan(sleep(1), cut(LEADER), sleep(4), heal(), rate=20.0))
    begun = [op.process for op in outcome.history if op.type == "invoke"]
    ended = [op.process for op in outcome.history if op.process != NEMESIS and op.type != "invoke"]
    assert len(begun) > 60
    assert sorted(begun) == sorted(set(ended)) == sorted(ended)
    assert sum((outcome.tally.ok, outcome.tally.fail, outcome.tally.info)) == len(ended)


def test_a_quorum_that_does_not_recover_is_seen() -> None:
    switch = {"reference.mutant": "vote-kept-in-next-epoch"}
    outcome = simulate(timed_plan(sleep(2), kill(LEADER), sleep(1), start(DOWN), sleep(1), heal(), switch=switch))
    assert reason_to_store(outcome) == "no-recovery: none has committed"
    assert outcome.virtual_ms > 20_000


def test_a_planted_bug_is_found() -> None:
    request = SimulationRequest(switches={"reference.mutant": "vote-forgotten-on-restart"}, timed=True)
    reasons = (each.reason for seed in range(1, 100) for each in screen_all(request, [seed], ()))
    assert next(filter(None, reasons)) == "vote-once"


@pytest.mark.parametrize(
    ("mutant", "expected"),
    [
        ("removed-voter-ends-leader", "server-exited"),
        ("voters-below-former-end-ignored", "voters-of-log"),
        (None, None),
    ],
)
def test_voters_change_and_their_bugs_are_found(mutant: str | None, expected: str | None) -> None:
    """In run 139 a leader removes itself while one of the others is cut off: Check Quorum begins anew."""
    planted = {} if mutant is None else {"reference.mutant": mutant}
    request = SimulationRequest(switches={"reference.voter_changes": "kip-853", **planted}, timed=True)
    reasons = (each.reason for seed in (139, *range(1, 60)) for each in screen_all(request, [seed], ()))
    assert next(filter(None, reasons), None) == expected


def test_schedule_has_the_steps_at_their_times() -> None:
    steps = [sleep(0.5), pause("n2"), lose_unsynced("n1"), sleep(0.25), heal()]
    schedule = schedule_of(steps, nodes=3, seed=1, rate=8.0)
    assert schedule.end_ms == 750
    assert [each for each in schedule.commands if each.name not in CALLS] == [
        Timed(0, "start", ALL),
        Timed(500, "pause", "n2"),
        Timed(500, "kill", "n1"),
        Timed(500, "lose_unsynced", "n1"),
        Timed(750, "intercept", "", ()),
        Timed(750, "resume", PAUSED),
        Timed(750, "start", DOWN),
        Timed(750, "restore", "", None),
    ]
    assert len([each for each in schedule.commands if each.name in CALLS]) == 6


@pytest.mark.parametrize("step", [wait_until(LEADER_KNOWN), cut("followers"), add_voter("observer")])
def test_step_without_a_fixed_time_is_refused(step: Step) -> None:
    with pytest.raises(BadInput, match=rf"^story: 1: {step.f}: a timed run has no such step, or not on these nodes$"):
        schedule_of([sleep(1), step], nodes=3, seed=1, rate=1.0)


def test_timed_run_starts_all_nodes() -> None:
    with pytest.raises(BadInput, match=r"^--timed: expected nodes that start with the run, found not_started = \[2\]$"):
        require_timed(timed_plan(not_started=[2]))


@pytest.mark.parametrize(
    ("switches", "reasons"),
    [
        ({}, {None}),
        ({"reference.voter_changes": "kip-853"}, {None}),
        ({"reference.mutant": "rejected-vote-counted"}, {None, "election-safety", "leader-completeness"}),
        ({"reference.read_mode": "local"}, {None, "stale-read"}),
    ],
    ids=["as it is", "voters change", "broken invariant", "stale reads"],
)
def test_timed_run_of_the_reference_is_screened_as_its_plan(switches: dict[str, str], reasons: set[str | None]) -> None:
    request = SimulationRequest(switches=switches, timed=True)
    screened = [replace(each, seconds=0.0) for each in screen_all(request, range(1, 40), ())]
    assert screened == [screen(plan_of(timed_request(request, each.seed), {})) for each in screened]
    assert {each.reason for each in screened} == reasons


@pytest.mark.kafka
@pytest.mark.parametrize("system", ["kafka:3.9.1", "kafka:4.3.1"])
def test_the_driver_carries_a_schedule_out_as_python_does(system: str) -> None:
    request = SimulationRequest(system=system, timed=True)
    kind, version = plugins.system(system)
    runs = [timed_run(request, seed) for seed in SEEDS]
    assert {run.voters is None for run in runs} == {True, False}  # static voters, and voters that change
    assert kind.play is not None
    played = kind.play(version, [run.scheduled() for run in runs])
    for seed, result in zip(SEEDS, played, strict=True):
        outcome = simulate(plan_of(timed_request(request, seed), {}))
        assert (outcome.digest, outcome.virtual_ms) == (result.digest, result.now_ms)
        messages = {each.invariant: each.message for each in reversed(outcome.violations)}
        assert messages == dict(result.broken)
        assert sum(op.type == "invoke" for op in outcome.history) <= result.calls
    assert sum(result.answers for result in played) > 20
    assert len({result.digest for result in played}) == len(SEEDS)


@pytest.mark.kafka
def test_some_nodes_of_a_run_have_the_release_beside_the_other() -> None:
    request = SimulationRequest(system="kafka:4.3.1", beside="kafka:3.9.1", timed=True)
    requests = [timed_request(request, seed) for seed in SEEDS]
    for each in requests:
        assert 0 < len(each.node_systems) < (each.nodes or 0)
        assert set(each.node_systems.values()) == {"kafka:3.9.1"}
        assert {f"n{node}" for node in each.node_systems} < plan_of(each, {}).versions.keys()
    assert len({tuple(each.node_systems) for each in requests}) > 2
    alone = [simulate(plan_of(each, {})).digest for each in requests]
    assert [each.digest for each in screen_all(request, SEEDS, ())] == alone
    assert alone[0] != screen_all(SimulationRequest(system="kafka:4.3.1", timed=True), SEEDS[:1], ())[0].digest


def changes_of(story: Sequence[Step]) -> list[Step]:
    return [step for step in story if step.f == CHANGE_VERSION]


@pytest.mark.kafka
def test_nodes_change_to_another_release_at_drawn_times() -> None:
    plain = SimulationRequest(system="kafka:3.9.1", timed=True, switch=IN_FILES)
    request = plain.model_copy(update={"upgrade_to": "kafka:4.3.1"})
    runs = [timed_run(request, seed) for seed in SEEDS]
    for seed, run in zip(SEEDS, runs, strict=True):
        upgraded = [step.value["who"] for step in changes_of(run.story)]
        assert 0 < len(set(upgraded)) == len(upgraded) <= run.nodes
        assert run.story[-1].f == HEAL
        steps = iter(run.story)
        assert all(step in steps for step in timed_run(plain, seed).story)  # the others, in their order
    assert any(len(changes_of(run.story)) == run.nodes for run in runs)
    alone = [simulate(plan_of(timed_request(request, seed), {})) for seed in SEEDS]
    assert [each.digest for each in screen_all(request, SEEDS, ())] == [each.digest for each in alone]
    assert [each.digest for each in screen_all(plain, SEEDS, ())] != [each.digest for each in alone]
    recorded = [op.value["label"] for each in alone for op in each.history if op.f == CHANGE_VERSION]
    assert {label.partition(" ")[2] for label in recorded} == {"runs 4.3.1", "runs its first release"}


def test_quorums_are_drawn_that_all_releases_can_have() -> None:
    older = SimulationRequest(system="kafka:3.8.1", timed=True)
    beside = SimulationRequest(system="kafka:4.3.1", beside="kafka:3.8.1", timed=True)
    upgrade = SimulationRequest(system="kafka:3.8.1", upgrade_to="kafka:4.3.1", timed=True)
    assert {timed_run(request, seed).voters for request in (older, beside, upgrade) for seed in SEEDS} == {None}


@pytest.mark.kafka
def test_screening_many_timed_runs_names_the_reasons_of_single_ones() -> None:
    request = SimulationRequest(system="kafka:4.3.1", timed=True)
    seeds = [*SEEDS, LEADER_REMOVED_ITSELF]
    screened = screen_all(request, seeds, ())
    alone = [reason_to_store(simulate(plan_of(timed_request(request, seed), {}))) for seed in seeds]
    assert [each.reason for each in screened] == alone
    assert alone[-1] == "no-recovery: no node can be elected"
