"""The quorum's rules and numbers on observations short enough to verify by eye, and against their plain twins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from checkers.twins import quorum as twins
from harness.model import Observation, Op, Verdict
from harness.model.quorum_states import TABLES
from harness.model.records.finding import verdict_of
from tests.support.checks.run_types import FindInRun, JudgeRun
from tests.support.checks.small_histories import MS, deed, history

pytestmark = pytest.mark.spark


def transition(ms: int, node: int, previous: str | None, state: str, epoch: int, **more: Any) -> Observation:
    return Observation(ms * MS, node, "log", "transition", state, previous, epoch, **more)


def durable(ms: int, node: int, epoch: int, **more: Any) -> Observation:
    return Observation(ms * MS, node, "quorum-state", "durable", epoch=epoch, **more)


def claim(ms: int, node: int, epoch: int, high_watermark: int | None = None) -> Observation:
    return Observation(ms * MS, node, "describe-quorum", "claim", epoch=epoch, high_watermark=high_watermark)


def process(ms: int, node: int, kind: Any) -> Observation:
    return Observation(ms * MS, node, "process", kind)


ELECTION = [
    process(0, 1, "started"),
    transition(1, 1, None, "Unattached", 0),
    transition(2, 1, "Unattached", "Prospective", 0),
    transition(2, 1, "Prospective", "Candidate", 1, voted=1),
    transition(2, 1, "Candidate", "Leader", 1),
    transition(3, 2, None, "Unattached", 0),
    transition(4, 2, "Unattached", "Follower", 1, leader=1),
    claim(5, 1, 1, 10),
]

LEGAL = {
    "a leader is elected": ELECTION,
    "a leader restarts as resigned": [
        *ELECTION, process(6, 1, "stopped"), process(7, 1, "started"), transition(8, 1, None, "Resigned", 1),
        transition(9, 1, "Resigned", "Unattached", 2),
    ],
    "lines of the log were missed": [*ELECTION, transition(9, 2, "Prospective", "Candidate", 7, voted=2)],
    "a file is read while the log runs ahead": [*ELECTION, durable(9, 2, 0), durable(10, 2, 1, leader=1)],
    "a leader's file leaves its own vote out": [*ELECTION, durable(9, 1, 1, voted=1), durable(10, 1, 1, leader=1)],
    "a later leader has a higher mark": [*ELECTION, claim(6, 2, 2, 11), claim(7, 1, 1, 10)],
}  # fmt: skip

BROKEN = {
    "two leaders": ([claim(6, 2, 1)], ("two-leaders-in-one-epoch", 2, 6)),
    "two leaders by a follower's word": ([durable(6, 3, 1, leader=3)], ("two-leaders-in-one-epoch", 3, 6)),
    "a log's epoch goes back after a restart": (
        [process(8, 2, "started"), transition(9, 2, None, "Unattached", 0)], ("epoch-went-back", 2, 9),
    ),
    "a file's epoch goes back": ([durable(8, 2, 1), durable(9, 2, 0)], ("epoch-went-back", 2, 9)),
    "a vote changes in the file": ([durable(8, 2, 1, voted=1), durable(9, 2, 1, voted=3)], ("vote-changed", 2, 9)),
    "a vote is gone from the file": ([durable(8, 2, 1, voted=1), durable(9, 2, 1)], ("vote-forgotten", 2, 9)),
    "a vote changes between file and log": ([durable(9, 1, 1, voted=3)], ("vote-changed", 1, 9)),
    "a follower becomes a candidate": (
        [transition(9, 2, "Follower", "Candidate", 2)], ("candidate-without-prospective", 2, 9),
    ),
    "a follower becomes the leader": ([transition(9, 2, "Follower", "Leader", 2)], ("illegal-transition", 2, 9)),
    "a candidate keeps its epoch": (
        [transition(8, 2, "Follower", "Prospective", 1), transition(9, 2, "Prospective", "Candidate", 1)],
        ("illegal-transition", 2, 9),
    ),
    "a candidate skips an epoch": (
        [transition(8, 2, "Follower", "Prospective", 1), transition(9, 2, "Prospective", "Candidate", 3)],
        ("illegal-transition", 2, 9),
    ),
    "a process begins as leader": (
        [process(8, 1, "started"), transition(9, 1, None, "Leader", 1)], ("illegal-transition", 1, 9),
    ),
    "a leader's mark goes back": ([claim(9, 1, 1, 9)], ("high-watermark-went-back", 1, 9)),
    "a later leader's mark is lower": ([claim(9, 2, 2, 9)], ("high-watermark-went-back", 2, 9)),
}  # fmt: skip


@pytest.mark.parametrize("observations", LEGAL.values(), ids=LEGAL.keys())
def test_quorum_is_right_when(observations: list[Observation], find_in_run: FindInRun) -> None:
    assert find_in_run("quorum", history(*deed("heal")), observations) == []


@pytest.mark.parametrize(("planted", "found"), BROKEN.values(), ids=BROKEN.keys())
def test_quorum_is_wrong_when(planted: list[Observation], found: tuple, find_in_run: FindInRun) -> None:
    findings = find_in_run("quorum", history(*deed("heal")), [*ELECTION, *planted])
    assert [(broken.name, broken.node, (broken.time_ns or 0) // MS) for broken in findings] == [found]
    assert verdict_of(findings) is Verdict.INVALID


def test_a_follower_may_become_a_candidate_before_kip_996(judge_run: JudgeRun) -> None:
    steps = [transition(1, 1, None, "Unattached", 0), transition(2, 1, "Unattached", "Candidate", 1)]
    assert judge_run(["quorum"], history(*deed("heal")), steps, table="kip-595").findings == ()


def test_each_node_of_a_mixed_quorum_is_judged_by_its_own_table(judge_run: JudgeRun) -> None:
    steps = [
        step
        for node in (1, 2)
        for step in (
            transition(1, node, None, "Unattached", 0),
            transition(2, node, "Unattached", "Candidate", 1),
            durable(3, node, 1, voted=node),
            durable(4, node, 1),
        )
    ]
    judgement = judge_run(["quorum"], history(*deed("heal")), steps, tables={1: "kip-996", 2: "kip-595"})
    found = sorted((broken.name, broken.node) for broken in judgement.findings)
    assert found == [("candidate-without-prospective", 1), ("vote-forgotten", 1)]


@pytest.mark.parametrize(
    ("node", "broken"), [(2, []), (3, ["epoch-went-back", "vote-forgotten"])], ids=["its disk", "another's"]
)
def test_a_node_may_begin_anew_only_where_its_disk_was_lost(
    node: int, broken: list[str], find_in_run: FindInRun
) -> None:
    seen = [*ELECTION, durable(6, 2, 1, voted=1), durable(9, 2, 0), durable(10, 2, 1)]
    ops = history(*at(8, *deed("lose_disk", {"nodes": [node]})))
    assert sorted(each.name for each in find_in_run("quorum", ops, seen)) == broken


def test_a_run_without_observations_is_unknown(judge_run: JudgeRun) -> None:
    judgement = judge_run(["quorum"], history(*deed("heal")))
    assert [(broken.name, broken.severity) for broken in judgement.findings] == [("no-observations", "unknown")]
    assert judgement.quantities == ()


def numbers(judge_run: JudgeRun, ops: Sequence[Op], observations: Sequence[Observation]) -> dict[str, float]:
    return {quantity.name: quantity.value for quantity in judge_run(["quorum"], ops, observations).quantities}


def at(ms: int, *ops: Op) -> list[Op]:
    return [Op(op.type, op.f, op.process, op.key, op.value, op.node, time_ns=ms * MS) for op in ops]


def test_a_disruption_is_measured_from_the_mark_on(judge_run: JudgeRun) -> None:
    ops = history(*at(100, *deed("mark", "story")), *at(200, *deed("cut")), *at(500, *deed("heal")))
    observations = [
        *ELECTION,
        claim(150, 1, 1, 20),
        transition(300, 2, "Follower", "Prospective", 1),
        transition(310, 2, "Prospective", "Candidate", 2),
        transition(320, 2, "Candidate", "Leader", 2),
        transition(400, 1, "Leader", "Resigned", 1),
        claim(550, 2, 2, 30),
        process(700, 2, "stopped"),
        durable(1100, 3, 4),
    ]
    assert numbers(judge_run, ops, observations) == pytest.approx(
        {
            "epochs_burned": 3,
            "leader_changes": 1,
            "leader_deposed": 1,
            "epochs_burned_until_heal": 1,
            "leader_changes_until_heal": 1,
            "epochs_per_minute": 180,
            "leader_changes_per_minute": 60,
            "two_leaders_ms": 80,
            "no_leader_ms": 400,
            "commit_gap_ms": 550,
            "recovered": 1,
            "recover_ms": 50,
        }
    )


def test_a_leader_that_stays_is_not_deposed(judge_run: JudgeRun) -> None:
    ops = history(*at(10, *deed("mark", "story")), *at(20, *deed("cut")), *at(30, *deed("heal")))
    found = numbers(judge_run, ops, [*ELECTION, claim(40, 1, 1, 11)])
    assert (found["leader_deposed"], found["leader_changes"], found["epochs_burned"]) == (0, 0, 0)


def test_a_quorum_that_never_commits_again_has_not_recovered(judge_run: JudgeRun) -> None:
    found = numbers(judge_run, history(*at(30, *deed("heal"))), ELECTION)
    assert found["recovered"] == 0
    assert "recover_ms" not in found


def random_observations(random_source: random.Random, size: int, node: int, epoch: int, mark: int) -> list[Observation]:
    """Three nodes from `node` on, epochs from `epoch` on, marks from `mark` on: nothing in it makes sense."""
    observations = []
    states = ["Unattached", "Follower", "Prospective", "Candidate", "Leader", "Resigned"]
    for _ in range(size):
        pick = random_source.choice
        seen = {"ms": random_source.randint(1, 40), "node": node + random_source.randrange(3)}
        now = epoch + random_source.randrange(3)
        observations.append(
            pick(
                [
                    transition(
                        **seen, previous=pick([None, *states]), state=pick(states), epoch=now, voted=pick([None, 1])
                    ),
                    durable(**seen, epoch=now, voted=pick([None, -1, 1, 2]), leader=pick([None, -1, node])),
                    claim(**seen, epoch=now, high_watermark=pick([None, -1, mark, mark + 1, mark + 2])),
                    process(**seen, kind=pick(["started", "stopped"])),
                ]
            )
        )
    return observations


@pytest.mark.parametrize("table", TABLES)
def test_rules_agree_with_their_twins_on_what_makes_no_sense(table: str, judge_run: JudgeRun) -> None:
    source = random.Random(7)
    observations = [
        seen
        for run in range(300)
        for seen in random_observations(source, source.randint(2, 8), 10 * run, 10 * run, 10 * run)
    ]
    # Two chunks hold the record, in order: rows of one time are told apart by their place in it.
    wiped = [(10 * run + source.randrange(3), source.randint(1, 40) * MS) for run in range(0, 300, 3)]
    ops = history(*(op for node, ns in wiped for op in at(ns // MS, *deed("lose_disk", {"nodes": [node]}))))
    judgement = judge_run(["quorum"], ops, observations, table=table, findings_max=10**6)
    found = sorted((broken.name, broken.node, broken.time_ns) for broken in judgement.findings)
    assert found == sorted(twins.findings(observations, TABLES[table], wiped))
    assert len({name for name, _, _ in found}) >= 5


@pytest.mark.parametrize("seed", range(6))
def test_numbers_agree_with_their_twins(seed: int, judge_run: JudgeRun) -> None:
    source = random.Random(seed)
    observations = [*random_observations(source, 25, 1, 1, 1), claim(40, 1, 1, 1)]
    story, end = 10 * MS, 40 * MS
    healed = at(25, *deed("heal"))
    found = numbers(judge_run, history(*at(10, *deed("mark", "story")), *healed), observations)
    led = twins.tenures(observations, story, end)
    assert found["two_leaders_ms"] * MS == pytest.approx(twins.two_leaders_ns(led))
    assert found["no_leader_ms"] * MS == pytest.approx(twins.no_leader_ns(led, story, end))
    assert found["commit_gap_ms"] * MS == pytest.approx(twins.commit_gap_ns(observations, story, end))
    for suffix, until in (("", end), ("_until_heal", 25 * MS)):
        assert found[f"epochs_burned{suffix}"] == twins.epochs_burned(observations, story, until)
        assert found[f"leader_changes{suffix}"] == twins.leader_changes(observations, story, until)
