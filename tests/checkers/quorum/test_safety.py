"""The quorum's rules and quantities on literal observations, and compared with their plain twins."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from checkers.framework.contract import JudgeSettings
from checkers.quorum import quantities
from checkers.twins import quorum as twins
from harness.model import Finding, Observation, Op, Verdict
from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from harness.model.records.finding import verdict_of
from harness.model.transition_rules import TransitionRules, any_of
from tests.support.checks.run_types import FindInRun, FindInRuns, JudgeRun, OpenRuns, Tables
from tests.support.checks.small_histories import MS, history, nemesis_op

pytestmark = pytest.mark.spark

HEAL = history(*nemesis_op("heal"))
Measured = Mapping[str, Mapping[str, float]]
"""The quorum's quantities of each run, by name."""


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


LOST_DISK, NEW_DIRECTORY = "two restarts at epoch 0, one without the disk", "two restarts without the disk, one new"


@pytest.fixture(scope="module")
def found(find_in_runs: FindInRuns) -> dict[str, list[Finding]]:
    """The findings about each run, from one Spark job."""
    runs = {name: Tables(HEAL, seen) for name, seen in LEGAL.items()}
    runs |= {name: Tables(HEAL, [*ELECTION, *planted]) for name, (planted, _) in BROKEN.items()}
    return find_in_runs("quorum", runs | {LOST_DISK: disk_lost(), NEW_DIRECTORY: directory_renewed()})


@pytest.mark.parametrize("name", LEGAL)
def test_quorum_is_correct_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert found[name] == []


@pytest.mark.parametrize("name", BROKEN)
def test_quorum_is_broken_when(name: str, found: dict[str, list[Finding]]) -> None:
    broken = [(each.name, each.node, (each.time_ns or 0) // MS) for each in found[name]]
    assert broken == [BROKEN[name][1]]
    assert verdict_of(found[name]) is Verdict.INVALID


def test_a_follower_may_become_a_candidate_before_kip_996(find_in_run: FindInRun) -> None:
    steps = [transition(1, 1, None, "Unattached", 0), transition(2, 1, "Unattached", "Candidate", 1)]
    assert find_in_run("quorum", HEAL, steps, rules=KIP_595_RULES) == []


def test_each_node_of_a_mixed_quorum_is_checked_by_its_own_table(find_in_run: FindInRun) -> None:
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
    findings = find_in_run("quorum", HEAL, steps, node_rules={1: KIP_996_RULES, 2: KIP_595_RULES})
    found = sorted((broken.name, broken.node) for broken in findings)
    assert found == [("candidate-without-prospective", 1), ("vote-forgotten", 1)]


def disk_lost() -> Tables:
    """Nodes 2 and 3 restart at epoch 0; only node 2 lost its disk."""
    restarts = [
        seen for node in (2, 3) for seen in (durable(6, node, 1, voted=1), durable(9, node, 0), durable(10, node, 1))
    ]
    return Tables(history(*at(8, *nemesis_op("lose_disk", {"nodes": [2]}))), [*ELECTION, *restarts])


def test_a_node_may_restart_at_epoch_0_only_after_losing_its_disk(found: dict[str, list[Finding]]) -> None:
    broken = sorted((each.name, each.node) for each in found[LOST_DISK])
    assert broken == [("epoch-went-back", 3), ("vote-forgotten", 3)]


def directory_renewed() -> Tables:
    """Nodes 2 and 3 lose their disks, and both behave as observers; only node 2 has a new directory id."""
    steps = [
        step
        for node in (2, 3)
        for step in (
            process(8, node, "started"),
            transition(9, node, None, "Unattached", 0),
            transition(10, node, "Unattached", "Follower", 1, leader=1),
            transition(11, node, "Follower", "Unattached", 1),  # an observer's fetch timeout
        )
    ]
    lost = [
        nemesis_op("lose_disk", {"nodes": [2], "newcomer": True}),
        nemesis_op("lose_disk", {"nodes": [3]}),
    ]
    return Tables(history(*(op for each in lost for op in at(7, *each))), [*ELECTION, *steps])


def test_a_node_with_a_new_directory_id_may_be_an_observer_and_one_with_an_empty_disk_stays_a_voter(
    found: dict[str, list[Finding]],
) -> None:
    assert [(each.name, each.node) for each in found[NEW_DIRECTORY]] == [("illegal-transition", 3)]


def test_a_run_without_observations_is_unknown(judge_run: JudgeRun) -> None:
    results = judge_run(["quorum"], HEAL)
    assert [(broken.name, broken.severity) for broken in results.findings] == [("no-observations", "unknown")]
    assert results.quantities == ()


def at(ms: int, *ops: Op) -> list[Op]:
    return [Op(op.type, op.f, op.process, op.key, op.value, op.node, time_ns=ms * MS) for op in ops]


def disrupted(mark: int, cut: int, heal: int) -> list[Op]:
    """The story begins, a partition is made and healed, at these times."""
    parts = at(mark, *nemesis_op("mark", "story")), at(cut, *nemesis_op("cut")), at(heal, *nemesis_op("heal"))
    return history(*(op for part in parts for op in part))


DISRUPTION = Tables(
    disrupted(100, 200, 500),
    [
        *ELECTION,
        claim(150, 1, 1, 20),
        transition(300, 2, "Follower", "Prospective", 1),
        transition(310, 2, "Prospective", "Candidate", 2),
        transition(320, 2, "Candidate", "Leader", 2),
        transition(400, 1, "Leader", "Resigned", 1),
        claim(550, 2, 2, 30),
        process(700, 2, "stopped"),
        durable(1100, 3, 4),
    ],
)
WITHOUT_MARKS = [claim(10, 1, 1), claim(20, 1, 1), claim(45, 1, 1)]
SEEDS = range(12)
STORY_NS, HEALED_NS, END_NS = 10 * MS, 25 * MS, 40 * MS


def measured_runs() -> dict[str, Tables]:
    """The runs whose quantities are compared, by name."""
    healed = {ms: history(*at(ms, *nemesis_op("heal"))) for ms in (30, 50)}
    random_ops = history(*at(10, *nemesis_op("mark", "story")), *at(25, *nemesis_op("heal")))
    return {
        "disruption": DISRUPTION,
        "a leader that stays": Tables(disrupted(10, 20, 30), [*ELECTION, claim(40, 1, 1, 11)]),
        "without high watermarks": Tables(healed[30], WITHOUT_MARKS),
        "healed after the last claim": Tables(healed[50], WITHOUT_MARKS),
        "no commit": Tables(healed[30], ELECTION),
        **{f"seed {seed}": Tables(random_ops, observations_of(seed)) for seed in SEEDS},
    }


@pytest.fixture(scope="module")
def measured(open_runs: OpenRuns) -> Measured:
    """The quantities of each run, from one Spark job."""
    runs = measured_runs()
    tables = open_runs(list(runs.values()))
    settings = JudgeSettings(runs=tuple(range(len(runs))))
    rows = quantities.quantities(tables["history"], tables["observations"], tables["batches"], settings).collect()
    of_run: dict[str, dict[str, float]] = {name: {} for name in runs}
    for row in rows:
        of_run[list(runs)[row["run"]]][row["name"]] = row["value"]
    return of_run


def test_a_disruption_is_measured_from_the_mark_on(measured: Measured) -> None:
    assert measured["disruption"] == pytest.approx(
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


def test_a_leader_that_stays_is_not_deposed(measured: Measured) -> None:
    found = measured["a leader that stays"]
    assert (found["leader_deposed"], found["leader_changes"], found["epochs_burned"]) == (0, 0, 0)


def test_a_system_without_high_watermarks_has_recovered_when_its_leader_claims_to_lead_again(
    measured: Measured,
) -> None:
    found = measured["without high watermarks"]
    assert (found["recovered"], found["recover_ms"]) == (1, 15)
    assert measured["healed after the last claim"]["recovered"] == 0


def test_a_quorum_that_never_commits_again_has_not_recovered(measured: Measured) -> None:
    found = measured["no commit"]
    assert found["recovered"] == 0
    assert "recover_ms" not in found


def random_observations(random_source: random.Random, size: int, node: int, epoch: int, mark: int) -> list[Observation]:
    """Three nodes from `node` on, epochs from `epoch` on, high watermarks from `mark` on; all random."""
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


ALL_RULES = [KIP_595_RULES, KIP_996_RULES, any_of([KIP_595_RULES, KIP_996_RULES])]


@pytest.mark.parametrize("rules", ALL_RULES, ids=lambda rules: rules.name)
def test_rules_agree_with_their_twins_on_random_observations(rules: TransitionRules, find_in_run: FindInRun) -> None:
    source = random.Random(7)
    observations = [
        seen
        for run in range(300)
        for seen in random_observations(source, source.randint(2, 8), 10 * run, 10 * run, 10 * run)
    ]
    # The record is in two chunks: rows of equal time are ordered by their position in it.
    wiped = [(10 * run + source.randrange(3), source.randint(1, 40) * MS) for run in range(0, 300, 3)]
    ops = history(*(op for node, ns in wiped for op in at(ns // MS, *nemesis_op("lose_disk", {"nodes": [node]}))))
    findings = find_in_run("quorum", ops, observations, rules=rules, findings_max=10**6)
    found = sorted((broken.name, broken.node, broken.time_ns) for broken in findings)
    assert found == sorted(twins.findings(observations, rules, wiped))
    assert len({name for name, _, _ in found}) >= 5


def observations_of(seed: int) -> list[Observation]:
    """Random observations, and a claim at the end."""
    return [*random_observations(random.Random(seed), 25, 1, 1, 1), claim(40, 1, 1, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_quantities_agree_with_their_twins(seed: int, measured: Measured) -> None:
    observations, found = observations_of(seed), measured[f"seed {seed}"]
    led = twins.tenures(observations, STORY_NS, END_NS)
    assert found["two_leaders_ms"] * MS == pytest.approx(twins.two_leaders_ns(led))
    assert found["no_leader_ms"] * MS == pytest.approx(twins.no_leader_ns(led, STORY_NS, END_NS))
    assert found["commit_gap_ms"] * MS == pytest.approx(twins.commit_gap_ns(observations, STORY_NS, END_NS))
    for suffix, until in (("", END_NS), ("_until_heal", HEALED_NS)):
        assert found[f"epochs_burned{suffix}"] == twins.epochs_burned(observations, STORY_NS, until)
        assert found[f"leader_changes{suffix}"] == twins.leader_changes(observations, STORY_NS, until)
