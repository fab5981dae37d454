"""Who is a voter is taken from the recorded voter sets: planted histories, and the plain twins on random ones."""

from __future__ import annotations

import json
import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.kafka_log.divergence import committed_state
from checkers.quorum.safety import illegal_transitions
from checkers.quorum.voters import Electorate, VoterSet, electorate_of, electorates, electorates_of
from checkers.twins import voters as twin
from harness.model import Finding, Observation
from harness.model.records.logged_batch import LoggedBatch
from tests.support.checks.on_spark import (
    Logs,
    collected_by_case,
    log_findings_of_each,
    observation_table,
)
from tests.support.checks.run_types import FindInRun, OpenRuns, Tables
from tests.support.checks.small_histories import MS, history, nemesis_op

pytestmark = pytest.mark.spark

HEAL = history(*nemesis_op("heal"))
TOPIC = "__cluster_metadata"


def transition(ms: int, node: int, previous: str | None, state: str, epoch: int) -> Observation:
    return Observation(ms * MS, node, "log", "transition", state, previous, epoch)


def claim(ms: int, epoch: int, voters: dict[int, int] | None, high_watermark: int | None = None) -> Observation:
    """Node 1 answers as leader: each voter with the log end offset that it knows."""
    detail = None if voters is None else json.dumps({"voters": voters})
    return Observation(
        ms * MS, 1, "describe-quorum", "claim", epoch=epoch, leader=1, high_watermark=high_watermark, detail=detail
    )


def log(node: int, *batches: tuple[int, int, list[int] | None]) -> list[LoggedBatch]:
    """Batches of one record: offset, epoch, and the voters that it sets."""
    return [
        LoggedBatch(node, TOPIC, 0, offset, offset, epoch, 1000 * epoch + offset, voters=voters and json.dumps(voters))
        for offset, epoch, voters in batches
    ]


def seeks_votes(node: int, epoch: int) -> list[Observation]:
    return [transition(5, node, None, "Unattached", epoch), transition(6, node, "Unattached", "Prospective", epoch)]


def loses_leader(node: int, epoch: int) -> list[Observation]:
    """An observer's step, which no voter takes: it keeps the epoch and asks for no votes."""
    return [
        transition(4, node, None, "Unattached", epoch),
        transition(5, node, "Unattached", "Follower", epoch),
        transition(6, node, "Follower", "Unattached", epoch),
    ]


FIRST_SET = log(1, (0, 1, [1, 2, 3]))
JOINS = log(1, (0, 1, [1, 2, 3]), (1, 3, [1, 2, 3, 4]))
LEAVES = log(1, (0, 1, [1, 2, 3, 4]), (1, 3, [1, 2, 3]))
THREE = {1: 0, 2: 0, 3: 0}

LEGAL = {
    "a static quorum records no voters": (seeks_votes(4, 1), []),
    "an initial voter seeks votes": (seeks_votes(3, 1), FIRST_SET),
    "an initial voter seeks votes in an epoch before the first record": (seeks_votes(3, 0), FIRST_SET),
    "a node seeks votes in the epoch in which it joins": (seeks_votes(4, 3), JOINS),
    "a node seeks votes long after it joined": (seeks_votes(4, 9), JOINS),
    "a removed voter that does not know seeks votes": (seeks_votes(4, 9), LEAVES),
    "a removed voter behaves as an observer": (loses_leader(4, 9), LEAVES),
    "an observer loses its leader": (loses_leader(4, 9), FIRST_SET),
    "a node loses its leader before it joins": (loses_leader(4, 1), JOINS),
    "a leader reports a voter that no log has": ([claim(1, 3, {**THREE, 4: 0}), *seeks_votes(4, 3)], FIRST_SET),
}

OBSERVER = "every transition is in the table of observers (every version): node 4 went from Unattached"
BROKEN = {
    "an observer by the logs seeks votes": (seeks_votes(4, 1), FIRST_SET, OBSERVER),
    "an observer by a claim seeks votes": ([claim(1, 1, THREE), *seeks_votes(4, 1)], [], OBSERVER),
    "a node seeks votes before it joins": (seeks_votes(4, 2), JOINS, OBSERVER),
    "an observer becomes a candidate": (
        [transition(4, 4, None, "Unattached", 1), transition(5, 4, "Unattached", "Candidate", 2)], FIRST_SET, OBSERVER,
    ),
    "a constant voter behaves as an observer": (
        loses_leader(3, 9), FIRST_SET, "table of KIP-996 (Kafka from 4.0): node 3 went from Follower",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def transitions_found(spark: SparkSession) -> dict[str, list[Finding]]:
    """The illegal transitions of each case, from one Spark job."""
    configure_for(spark, rows=1)
    cases = LEGAL | {name: case[:2] for name, case in BROKEN.items()}
    frames = {}
    for name, (seen, logged) in cases.items():
        voters = electorate_by_twin(twin.sets_named(logged, seen))
        who = electorates_of({0: voters}, JudgeSettings())
        observed = observation_table(spark, seen).withColumn("disk", fn.lit(0))
        frames[name] = illegal_transitions(observed, who, JudgeSettings())
    return collected_by_case(frames)


@pytest.mark.parametrize("name", LEGAL)
def test_transitions_are_legal_when(name: str, transitions_found: dict[str, list[Finding]]) -> None:
    assert transitions_found[name] == []


@pytest.mark.parametrize("name", BROKEN)
def test_transitions_are_illegal_when(name: str, transitions_found: dict[str, list[Finding]]) -> None:
    [broken] = transitions_found[name]
    assert broken.name == "illegal-transition"
    assert BROKEN[name][2] in broken.message


def test_the_quorum_check_reads_voters_from_the_logs(find_in_run: FindInRun) -> None:
    [broken] = find_in_run("quorum", HEAL, [claim(1, 1, None), *seeks_votes(4, 1)], FIRST_SET)
    assert (broken.name, broken.node) == ("illegal-transition", 4)


def rows(node: int, *, upto: int, voters: list[int] | None = None) -> list[LoggedBatch]:
    """A log of offsets 0 to upto - 1 in epoch 1, the first of which sets the voters."""
    return log(node, *((offset, 1, voters if offset == 0 else None) for offset in range(upto)))


def logs(voters: list[int], *ends: int) -> list[LoggedBatch]:
    """The logs of nodes 1, 2, …, which end at these offsets."""
    return [each for node, end in enumerate(ends, 1) for each in rows(node, upto=end, voters=voters)]


MISSING = "the high watermark was 3, and of 3 voters fewer than 2 hold offsets"
HELD = {
    "two observers are behind": (logs([1, 2, 3], 3, 3, 1, 1, 1), [claim(1, 1, None, 3)]),
    "two observers by the leader's claim are behind": (
        [each for node, end in ((1, 3), (2, 3), (3, 1), (4, 1), (5, 1)) for each in rows(node, upto=end)],
        [claim(1, 1, THREE, 3)],
    ),
    "a change of voters is not committed": (
        [
            *log(1, (0, 1, [1, 2, 3]), (1, 1, None), (2, 1, [1, 2, 3, 4])),
            *log(2, (0, 1, [1, 2, 3]), (1, 1, None)),
            *log(4, (0, 1, [1, 2, 3])),
        ],
        [claim(1, 1, {1: 3, 2: 2, 3: 0, 4: 1}, 2)],
    ),
    "a deposed leader's uncommitted change is below the high watermark": (
        [
            *log(1, (0, 1, [1, 2, 3]), (1, 2, None), (2, 2, None)),
            *log(2, (0, 1, [1, 2, 3]), (1, 2, None), (2, 2, None)),
            *log(3, (0, 1, [1, 2, 3]), (1, 1, [1, 3])),
        ],
        [claim(1, 2, None, 3)],
    ),
    "leaders reported several sets, and no log shows which is committed": (
        [each for node, end in ((1, 3), (2, 3), (3, 1), (4, 1)) for each in rows(node, upto=end)],
        [claim(1, 1, THREE, 3), claim(2, 1, {**THREE, 4: 0}, 3)],
    ),
}
NOT_HELD = {
    "two observers hold what one voter of three holds": (
        logs([1, 2, 3], 3, 1, 1, 3, 3), [claim(1, 1, None, 3)], f"{MISSING} 1 to 2",
    ),
    "two observers by the leader's claim hold it": (
        [each for node, end in ((1, 3), (2, 1), (3, 1), (4, 3), (5, 3)) for each in rows(node, upto=end)],
        [claim(1, 1, THREE, 3)], f"{MISSING} 1 to 2",
    ),
    "a voter that joined counts": (
        [
            *log(1, (0, 1, [1, 2]), (1, 1, [1, 2, 3]), (2, 1, None)),
            *log(2, (0, 1, [1, 2])),
            *log(3, (0, 1, [1, 2])),
        ],
        [claim(1, 1, None, 3)], f"{MISSING} 1 to 2",
    ),
    "a voter that left does not count": (
        [*log(1, (0, 1, [1, 2]), (1, 1, [1])), *log(2, (0, 1, [1, 2]), (1, 1, [1]), (2, 1, None))],
        [claim(1, 1, None, 3)], "of 1 voters fewer than 1 hold offsets 2 to 2",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def missing_found(spark: SparkSession) -> dict[str, list[Finding]]:
    """What the committed voters of each case lack, from one Spark job. Another test compares these voters."""
    cases = {}
    for name, (batches, seen, *_) in (HELD | NOT_HELD).items():
        mark = seen[-1].high_watermark or 0
        voters = twin.committed_voters(batches, seen, mark)
        cases[name] = Logs(batches, mark if voters else 0, voters=tuple(sorted(voters or ())))
    return log_findings_of_each(spark, cases)


@pytest.mark.parametrize("name", HELD)
def test_committed_records_are_held_by_a_majority_when(name: str, missing_found: dict[str, list[Finding]]) -> None:
    assert [each for each in missing_found[name] if each.name == "committed-record-missing"] == []


@pytest.mark.parametrize("name", NOT_HELD)
def test_committed_records_are_missing_when(name: str, missing_found: dict[str, list[Finding]]) -> None:
    [missing] = [each for each in missing_found[name] if each.name == "committed-record-missing"]
    assert NOT_HELD[name][2] in missing.message


def test_the_divergence_check_reads_voters_from_the_logs(find_in_run: FindInRun) -> None:
    batches, claims, words = NOT_HELD["two observers hold what one voter of three holds"]
    [missing] = find_in_run("divergence", HEAL, claims, batches)
    assert (missing.name, words in missing.message) == ("committed-record-missing", True)


def random_run(source: random.Random) -> tuple[list[LoggedBatch], list[Observation]]:
    """Logs and claims that name voter sets at random."""
    batches = [
        each
        for node in source.sample(range(1, 6), source.randint(1, 4))
        for each in log(
            node,
            *(
                (offset, source.randint(1, 3), source.choice([None, None, random_set(source)]))
                for offset in range(source.choice([0, 0, 2]), source.randint(1, 6))
            ),
        )
    ]
    claims = [
        claim(at, source.randint(0, 4), source.choice([None, dict.fromkeys(random_set(source), 0)]), 3)
        for at in range(source.choice([0, 1, 1, 3]))
    ]
    return batches, claims


def random_set(source: random.Random) -> list[int]:
    return sorted(source.sample(range(1, 6), source.randint(1, 4)))


def electorate_by_twin(sets: list[twin.Named]) -> Electorate:
    return electorate_of([VoterSet(source, tuple(sorted(voters)), epoch, at) for source, epoch, at, voters in sets])


def test_standing_agrees_with_its_twin(spark: SparkSession) -> None:
    source = random.Random(11)
    cases = [twin.sets_named(*random_run(source)) for _ in range(150)]
    runs = range(len(cases))
    places = [(run, node, epoch) for run in runs for node in range(1, 7) for epoch in (None, *range(5))]
    voting = {run: electorate_by_twin(sets) for run, sets in enumerate(cases)}
    who = electorates_of(voting, JudgeSettings(runs=tuple(runs)))
    standings = who.is_observer().alias("is_observer"), who.may_be_observer().alias("may_be_observer")
    seen = set()
    for row in spark.createDataFrame(places, "run int, node int, epoch int").select("*", *standings).collect():
        standing = "observer" if row["is_observer"] else "either" if row["may_be_observer"] else "voter"
        expected = twin.standing(row["node"], row["epoch"], cases[row["run"]])
        assert standing == expected, (row["node"], row["epoch"], cases[row["run"]])
        seen.add(standing)
    assert seen == {"voter", "observer", "either"}


def test_committed_voters_agree_with_their_twin(open_runs: OpenRuns) -> None:
    """The literal cases and random runs, in one Spark job; and their electorates."""
    source = random.Random(12)
    random_runs = [run for run in (random_run(source) for _ in range(9)) if run[0]]
    runs = [*(case[:2] for case in (HELD | NOT_HELD).values()), *random_runs]
    tables = open_runs([Tables([], seen, batches) for batches, seen in runs])
    logs, seen = tables["batches"], tables["observations"]
    voting = electorates(logs, seen, JudgeSettings(runs=tuple(range(len(runs))))).of
    assert [voting[at] for at in range(len(runs))] == [electorate_by_twin(twin.sets_named(*run)) for run in runs]
    found = {row[RUN]: frozenset(row["voters"]) for row in committed_state(logs, seen).collect()}
    expected = {}
    for at, run in enumerate(runs):
        marks = [seen.high_watermark for seen in run[1] if seen.high_watermark]
        voters = twin.committed_voters(*run, max(marks)) if marks else None
        if voters is not None and voters & {each.node for each in run[0]}:
            expected[at] = voters
    assert found == expected
    assert 0 < len(expected) < len(runs)
