"""Leaders' claims and voter sets in logs: each rule violated once, legal histories, and the plain twins."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.framework.tables import configure_for
from checkers.kafka_log.voter_sets import elections, sets_apart
from checkers.quorum.commits import (
    committed_record_not_on_leader,
    high_watermark_without_majority,
    voters_changed_early,
)
from checkers.twins import quorum_commits as twins
from harness.model import Finding, Observation, Op
from harness.model.records.logged_batch import LoggedBatch
from tests.support.checks.on_spark import (
    Logs,
    batch_table,
    log_findings_of_each,
    observation_table,
)
from tests.support.checks.run_types import FindInRuns, Tables
from tests.support.checks.small_histories import MS, history, nemesis_op

pytestmark = pytest.mark.spark

HEAL = history(*nemesis_op("heal"))
TOPIC = "__cluster_metadata"


def claim(
    ms: int, node: int, epoch: int, mark: int | None, reach: dict[int, int], end: int | None = None
) -> Observation:
    detail = json.dumps({"voters": reach}) if reach else None
    own = reach.get(node) if end is None else end
    return Observation(
        ms * MS, node, "describe-quorum", "claim",
        epoch=epoch, leader=node, high_watermark=mark, log_end_offset=own, detail=detail,
    )  # fmt: skip


LEGAL = {
    "a majority reached the mark": [claim(1, 1, 1, 5, {1: 7, 2: 5, 3: 0})],
    "a follower lost its disk after the mark was reached": [
        claim(1, 1, 1, 5, {1: 7, 2: 5, 3: 0}), claim(2, 1, 1, 5, {1: 7, 2: 0, 3: 0}),
    ],
    "a late fetch set back what the leader knows, and a voter had reached more between two claims": [
        claim(1, 1, 1, 5, {1: 5, 2: 5, 3: 0}), claim(2, 1, 1, 6, {1: 7, 2: 2, 3: 0}),
    ],
    "it did so before": [
        claim(1, 1, 1, 2, {1: 5, 2: 2, 3: 0}), claim(2, 1, 1, 6, {1: 7, 2: 2, 3: 0}),
        claim(3, 1, 1, 6, {1: 7, 2: 1, 3: 0}),
    ],
    "the voters changed in the epoch": [claim(1, 1, 1, 5, {1: 7}), claim(2, 1, 1, 5, {1: 7, 2: 0})],
    "half of the voters, of which one was just added": [
        claim(0, 2, 1, 4, {1: 4, 2: 7, 3: 4}), claim(1, 1, 2, 5, {1: 7, 2: 5, 3: 4, 4: 4}),
    ],
    "nothing is committed yet": [claim(1, 1, 1, -1, {1: 7, 2: 0, 3: 0})],
    "a claim says nothing of the voters": [claim(1, 1, 1, 5, {}, 7)],
    "the voters changed once a record of the epoch was committed": [
        claim(1, 1, 1, -1, {1: 7, 2: 0, 3: 0}), claim(2, 1, 1, 8, {1: 8, 2: 8, 3: 8}),
        claim(3, 1, 1, 8, {1: 9, 2: 8, 3: 8, 4: 0}),
    ],
    "the voters changed in another epoch": [
        claim(1, 1, 1, -1, {1: 7, 2: 0, 3: 0}), claim(2, 2, 2, -1, {1: 0, 2: 7, 3: 0, 4: 0}),
    ],
    "a claim names no voters": [claim(1, 1, 1, -1, {1: 7, 2: 0, 3: 0}), claim(2, 1, 1, -1, {}, 7)],
    "a later leader has all that was committed": [
        claim(1, 1, 1, 5, {1: 7, 2: 5, 3: 0}), claim(2, 2, 2, -1, {1: -1, 2: 5, 3: -1}),
    ],
    "a deposed leader's log is shorter than its follower's": [
        claim(2, 2, 2, 9, {1: 5, 2: 9, 3: 9}), claim(3, 1, 1, 5, {1: 7, 2: 5, 3: 0}),
    ],
}  # fmt: skip

BROKEN = {
    "one of three holds what is called committed": (
        [claim(3, 1, 1, 5, {1: 7, 2: 4, 3: 4}), claim(4, 1, 1, 6, {1: 7, 2: 4, 3: 4})],
        ("high-watermark-without-majority", 1, 3),
        "a high watermark is held by a majority: in epoch 1 node 1 claimed 5, which 1 of 3 voters had reached",
    ),
    "the voters changed before a record of the epoch was committed": (
        [claim(2, 1, 1, -1, {1: 7, 2: 0, 3: 0}), claim(3, 1, 1, -1, {1: 8, 2: 0, 3: 0, 4: 0})],
        ("voters-changed-early", 1, 3),
        "in epoch 1 node 1 had committed none, and its voters were 1, 2, 3, then 1, 2, 3, 4",
    ),
    "a later leader's log ends below what was committed": (
        [claim(3, 1, 1, 5, {1: 7, 2: 5, 3: 0}), claim(4, 3, 2, -1, {1: -1, 2: -1, 3: 4})],
        ("committed-record-not-on-leader", 3, 4),
        "committed records are in every later leader's log: in epoch 2 that of node 3 ended at 4, below 5",
    ),
}  # fmt: skip


HALF, STUCK = "half of voters that never change", "a follower without progress"


@pytest.fixture(scope="module")
def found(find_in_runs: FindInRuns) -> dict[str, list[Finding]]:
    """The findings about each run's claims, from one Spark job."""
    claims = LEGAL | {name: seen for name, (seen, _, _) in BROKEN.items()}
    runs = {name: Tables(HEAL, seen) for name, seen in claims.items()}
    runs[HALF] = Tables(HEAL, [claim(3, 1, 1, 5, {1: 7, 2: 5, 3: 4, 4: 4})])
    runs[STUCK] = Tables(healed_at(1), polls(range(2, 16), 7))
    return find_in_runs("quorum", runs | {name: Tables(ops, seen) for name, (ops, seen) in NOT_STUCK.items()})


@pytest.mark.parametrize("name", LEGAL)
def test_claims_are_correct_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert found[name] == []


@pytest.mark.parametrize("name", BROKEN)
def test_claims_are_broken_when(name: str, found: dict[str, list[Finding]]) -> None:
    [broken] = found[name]
    _, expected, words = BROKEN[name]
    assert (broken.name, broken.node, (broken.time_ns or 0) // MS) == expected
    assert words in broken.message


def test_half_of_voters_that_never_change_is_no_majority(found: dict[str, list[Finding]]) -> None:
    [broken] = found[HALF]
    assert (broken.name, broken.node, broken.time_ns) == ("high-watermark-without-majority", 1, 3 * MS)
    assert "2 of 4 voters" in broken.message


def polls(seconds: Iterable[float], slow: dict[float, int] | int) -> list[Observation]:
    """The leader's claims at these times; slow is voter 3's log end offset, constant or by time."""
    claims = [
        claim(round(second * 1000), 1, 1, 50, {1: 60, 2: 50, 3: slow if isinstance(slow, int) else slow[second]})
        for second in seconds
    ]
    return [*(each for node in (1, 2, 3) for each in started(0, node)), *claims]


def started(second: float, node: int, shown: float | None = None) -> list[Observation]:
    """A process is started, and shows its state at once or at another time."""
    state_ns = round((second if shown is None else shown) * 1e9)
    return [process(second, node, "started"), Observation(state_ns, node, "log", "transition", "Follower", epoch=0)]


def process(second: float, node: int, kind: Any) -> Observation:
    return Observation(round(second * 1e9), node, "process", kind)


def nemesis_ops_at(*operations: tuple[float, str]) -> list[Op]:
    """Nemesis operations at these times, each called and completed at once."""
    return history(*(Op("info", f, -1, time_ns=round(second * 1e9)) for second, f in operations for _ in range(2)))


def healed_at(second: float) -> list[Op]:
    return nemesis_ops_at((second - 0.5, "cut"), (second, "heal"))


def test_a_follower_without_progress_is_stuck_once_no_fault_is_in_place(found: dict[str, list[Finding]]) -> None:
    [stuck] = found[STUCK]
    assert (stuck.name, stuck.node, stuck.severity) == ("follower-stuck", 3, "invalid")
    assert "node 3 stayed at 7 for 10 s, below high watermark 50 of node 1" in stuck.message


NOT_STUCK = {
    "too soon to tell": (healed_at(1), polls(range(2, 11), 7)),
    "a fault was just healed": (healed_at(9), polls(range(2, 16), 7)),
    "a fault is in place": (nemesis_ops_at((1, "cut")), polls(range(2, 16), 7)),
    "one of two faults is in place": (
        nemesis_ops_at((0.5, "cut"), (1, "kill"), (1.5, "start")), polls(range(2, 16), 7),
    ),
    "it caught up": (healed_at(1), polls(range(2, 16), 50)),
    "it makes progress": (healed_at(1), polls(range(2, 16), {second: second for second in range(2, 16)})),
    "it was just started": (healed_at(1), [*polls(range(2, 16), 7), *started(9, 3)]),
    "it was started long ago, but did not take part": (
        healed_at(1), [*polls(range(2, 16), 7), process(1.5, 3, "stopped"), *started(2, 3, shown=9)],
    ),
    "it is down": (healed_at(1), [*polls(range(2, 16), 7), process(1, 3, "stopped")]),
    "it was never started": (
        healed_at(1), [each for each in polls(range(2, 16), 7) if (each.node, each.kind) != (3, "started")],
    ),
    "another leader leads": (
        healed_at(1), [*polls(range(2, 16), 7), claim(15_500, 2, 2, 60, {1: 60, 2: 60, 3: 0})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_STUCK)
def test_a_follower_is_not_stuck_when(name: str, found: dict[str, list[Finding]]) -> None:
    assert "follower-stuck" not in {each.name for each in found[name]}


def random_claims(source: random.Random, run: int) -> list[Observation]:
    base = 10 * run
    found = []
    for _ in range(source.randint(1, 6)):
        voters = source.choice([(1, 2, 3), (1, 2, 3), (1, 2, 3, 4), (1,)])
        reach = {base + voter: base + source.randint(0, 4) for voter in voters}
        node = base + source.choice((1, 2))
        mark = source.choice([None, -1, -1, base + source.randint(0, 4)])
        # One epoch has one leader, or other rules would be violated.
        epoch = base + (node - base) + source.choice((0, 2))
        found.append(claim(source.randint(1, 9), node, epoch, mark, source.choice([reach, reach, {}])))
    return found


def test_rules_on_claims_agree_with_their_twins_on_random_claims(spark: SparkSession) -> None:
    source = random.Random(3)
    observations = [seen for run in range(200) for seen in random_claims(source, run)]
    names = ("high-watermark-without-majority", "voters-changed-early", "committed-record-not-on-leader")
    configure_for(spark, rows=len(observations))
    table = observation_table(spark, observations)
    several_sets = fn.array().cast("array<int>")
    rules = [
        high_watermark_without_majority(table, several_sets, "quorum"),
        voters_changed_early(table, "quorum"),
        committed_record_not_on_leader(table, "quorum"),
    ]
    found = [row for rule in rules for row in rule.collect()]
    expected = [
        *twins.high_watermark_without_majority(observations),
        *twins.voters_changed_early(observations),
        *twins.committed_record_not_on_leader(observations),
    ]
    assert sorted((each["name"], each["node"], each["time_ns"]) for each in found) == sorted(expected)
    assert min(sum(name == each for each, _, _ in expected) for name in names) > 8


def log(node: int, *sets: tuple[int, int, list[int] | None]) -> list[LoggedBatch]:
    """Batches of one record: offset, epoch, and the voters that it sets."""
    return [
        LoggedBatch(node, TOPIC, 0, offset, offset, epoch, offset, control=True, voters=voters and json.dumps(voters))
        for offset, epoch, voters in sets
    ]


GROWING = [
    each for node in (1, 2, 3) for each in log(node, (0, 1, [1]), (1, 1, [1, 2]), (2, 1, None), (3, 1, [1, 2, 3]))
]
LEAPING = log(1, (0, 1, [1]), (1, 1, None), (2, 1, [1, 2, 3]))


RETARGETED = [each for node in (1, 2) for each in log(node, (0, 1, [1]), (1, 1, [1, 2]), (2, 1, [1, 2]))]
CHANGES = {
    "one at a time": Tables(HEAL, [claim(1, 1, 1, 1, {1: 2}), claim(2, 1, 1, 3, {1: 4, 2: 3})], GROWING),
    "two at once": Tables(HEAL, [], LEAPING),
    "two uncommitted": Tables(
        HEAL, [claim(1, 1, 1, 1, {1: 4, 2: 1}), claim(2, 1, 1, 4, {1: 4, 2: 4, 3: 4})], GROWING,
    ),
    "the same voters": Tables(HEAL, [claim(1, 1, 1, 1, {1: 3, 2: 1})], RETARGETED),
}  # fmt: skip


def test_voters_may_change_one_at_a_time(found_in_logs: dict[str, list[Finding]]) -> None:
    assert found_in_logs["one at a time"] == []


def test_two_voters_that_join_at_once_are_reported(found_in_logs: dict[str, list[Finding]]) -> None:
    [broken] = found_in_logs["two at once"]
    assert (broken.name, broken.node) == ("voter-sets-apart", 1)
    words = "voters change one at a time: in the log of node 1 the voters 1 became 1, 2, 3 at offset 2"
    assert broken.message == words


def test_two_uncommitted_changes_are_reported(found_in_logs: dict[str, list[Finding]]) -> None:
    [broken] = found_in_logs["two uncommitted"]
    assert (broken.name, broken.node, broken.time_ns) == ("voter-changes-uncommitted", 1, MS)
    assert "with high watermark 1 the leader of epoch 1, node 1, had voter sets at offsets 1, 3" in broken.message


def test_record_that_keeps_the_voters_is_no_change(found_in_logs: dict[str, list[Finding]]) -> None:
    assert found_in_logs["the same voters"] == []


def test_voter_sets_agree_with_their_twin_on_random_logs(spark: SparkSession) -> None:
    source = random.Random(5)
    batches = [
        each
        for node in range(1, 40)
        for each in log(
            node,
            *(
                (offset, 1, source.choice([None, sorted(source.sample([1, 2, 3], source.randint(1, 3)))]))
                for offset in range(source.randint(1, 6))
            ),
        )
    ]
    configure_for(spark, rows=len(batches))
    found = sets_apart(batch_table(spark, batches), "divergence").collect()
    results = [(each["name"], each["node"], int(re.findall(r"\d+", each["message"])[-1])) for each in found]
    assert sorted(results) == sorted(twins.sets_apart(batches))
    assert len(results) > 10


def checkpointed(*pairs: tuple[int, int | None], intact: bool = True) -> list[LoggedBatch]:
    """Batches at offsets 0, 1, …: each one's epoch, and its epoch in the checkpoint."""
    return [
        LoggedBatch(1, TOPIC, 0, offset, offset, epoch, offset, intact=intact, checkpoint_epoch=stored)
        for offset, (epoch, stored) in enumerate(pairs)
    ]


CHECKPOINTS = {
    "it agrees": (checkpointed((1, 1), (2, 2), (2, 2)), []),
    "there is none": (checkpointed((1, None), (2, None)), []),
    "an epoch is missing": (
        checkpointed((1, 1), (2, 1), (2, 1)), ["at offset 1 node 1 has epoch 2, its checkpoint has 1"],
    ),
    "it begins too late": (checkpointed((1, -1), (1, 1)), ["at offset 0 node 1 has epoch 1, its checkpoint has none"]),
}  # fmt: skip


def test_checkpoints_are_compared_with_their_logs(spark: SparkSession) -> None:
    found = log_findings_of_each(spark, {name: Logs(batches) for name, (batches, _) in CHECKPOINTS.items()})
    for name, (_, expected) in CHECKPOINTS.items():
        assert [(each.name, each.node) for each in found[name]] == [("checkpoint-disagrees", 1)] * len(expected), name
        assert all(words in each.message for words, each in zip(expected, found[name], strict=True)), name


def election(leader: int, voters: list[int], granting: list[int]) -> str:
    return json.dumps({"leader": leader, "voters": voters, "granting": granting})


def elected(offset: int, epoch: int, leader: int, voters: list[int], granting: list[int], node: int = 1) -> LoggedBatch:
    """A batch with a LeaderChange record."""
    crc = 1000 * epoch + offset
    return LoggedBatch(node, TOPIC, 0, offset, offset, epoch, crc, election=election(leader, voters, granting))


FIRST_ELECTION = elected(0, 1, 1, [1, 2, 3], [1, 2])
SET_OF_4 = log(1, (1, 1, [1, 3, 4]))[0]
PROPER = {
    "a static quorum": [FIRST_ELECTION],
    "an election after a change": [FIRST_ELECTION, SET_OF_4, elected(2, 2, 3, [1, 3, 4], [3, 4])],
    "an election before a change": [elected(0, 1, 1, [1, 2, 3], [1, 3]), SET_OF_4],
    "votes beyond a majority": [elected(0, 1, 1, [1, 2, 3], [1, 2, 3])],
}
IMPROPER = {
    "the leader counts the voters of an earlier set": (
        [FIRST_ELECTION, SET_OF_4, elected(2, 2, 1, [1, 2, 3], [1, 2])],
        {
            "stale-voters": "as leader of epoch 2 (LeaderChange at offset 2 in the logs of nodes 1) node 1 counted "
            "voters 1, 2, 3, after a KRaftVoters record of 1, 3, 4",
            "elected-without-majority": "node 1 had the votes of 1, of voters 1, 3, 4",
        },
    ),
    "half of four voters grant their votes": (
        [elected(0, 1, 1, [1, 2, 3, 4], [1, 2])],
        {"elected-without-majority": "had the votes of 1, 2, of voters 1, 2, 3, 4"},
    ),
    "the leader counts other voters and has the votes of the right ones too": (
        [FIRST_ELECTION, SET_OF_4, elected(2, 2, 1, [1, 2, 3], [1, 2, 3])],
        {"stale-voters": "node 1 counted voters 1, 2, 3"},
    ),
}


IN_THREE_LOGS = [elected(0, 1, 1, [1, 2, 3], [1], node) for node in (1, 2, 3)]


@pytest.fixture(scope="module")
def found_in_logs(find_in_runs: FindInRuns) -> dict[str, list[Finding]]:
    """The findings about the logs of each run, from one Spark job."""
    elections_of = PROPER | {name: batches for name, (batches, _) in IMPROPER.items()} | {"three logs": IN_THREE_LOGS}
    runs = {name: Tables(HEAL, [], batches) for name, batches in elections_of.items()}
    return find_in_runs("divergence", CHANGES | runs)


@pytest.mark.parametrize("name", PROPER)
def test_elections_are_proper(name: str, found_in_logs: dict[str, list[Finding]]) -> None:
    assert found_in_logs[name] == []


@pytest.mark.parametrize("name", IMPROPER)
def test_elections_are_improper(name: str, found_in_logs: dict[str, list[Finding]]) -> None:
    expected = IMPROPER[name][1]
    found = {each.name: each for each in found_in_logs[name]}
    assert found.keys() == expected.keys()
    assert all(words in found[name].message for name, words in expected.items())
    assert {each.node for each in found.values()} == {1}


def test_an_election_in_several_logs_is_one_finding(found_in_logs: dict[str, list[Finding]]) -> None:
    [found] = found_in_logs["three logs"]
    assert "in the logs of nodes 1, 2, 3" in found.message


def test_elections_agree_with_their_twin_on_random_logs(spark: SparkSession) -> None:
    source = random.Random(7)
    subsets = [list(each) for size in (1, 2, 3) for each in itertools.combinations((1, 2, 3), size)]
    batches = [
        LoggedBatch(
            *(node, TOPIC, 0, offset, offset, node, offset),
            voters=json.dumps(source.choice(subsets)) if source.random() < 0.4 else None,
            election=election(1, source.choice(subsets), source.choice(subsets)) if source.random() < 0.5 else None,
        )
        for node in range(1, 50)
        for offset in range(source.randint(1, 6))
    ]
    configure_for(spark, rows=len(batches))
    found = elections(batch_table(spark, batches), "divergence").collect()
    results = [
        (each["name"], *map(int, re.findall(r"epoch (\d+) .*? offset (\d+)", each["message"])[0])) for each in found
    ]
    assert sorted(results) == sorted(twins.elections(batches))
    assert {name for name, _, _ in results} == {"stale-voters", "elected-without-majority"}
