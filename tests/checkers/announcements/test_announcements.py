"""What nodes announced, against their files and logs: each rule violated once, near misses, and the plain twins."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import pytest
from pyspark.sql import SparkSession

from checkers.announcements import commits, votes
from checkers.framework.tables import configure_for
from checkers.quorum.voters import Electorate, Electorates, electorates_of
from checkers.twins import announcements as twins
from harness.model import Finding, Observation
from harness.model.faults.rpc import Api, RpcRow
from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.tables import RPCS
from harness.model.transition_rules import TransitionRules
from tests.support.checks import settings_with
from tests.support.checks.on_spark import observation_table, positioned
from tests.support.checks.run_types import FindInRun, FindInRuns, OpenRuns, Tables
from tests.support.checks.small_histories import MS, history, nemesis_op

pytestmark = pytest.mark.spark

SETTINGS = settings_with()

TOPIC = "__cluster_metadata"
VOTE, FETCH, BEGIN = map(int, (Api.VOTE, Api.FETCH, Api.BEGIN_QUORUM_EPOCH))
S = 1000
Found = tuple[str, int, int]
"""A finding's name, node and time in milliseconds."""
HEAL = history(*nemesis_op("heal"))


def vote(ms: int, voter: int, candidate: int, epoch: int, granted: bool = True, pre_vote: bool = False) -> RpcRow:
    return RpcRow(
        ms * MS, voter, candidate, VOTE, 2, 7, "response", 60, pre_vote=pre_vote, epoch=epoch, granted=granted
    )


def campaign(ms: int, node: int, epoch: int, pre_vote: bool = False) -> RpcRow:
    return RpcRow(ms * MS, node, node % 3 + 1, VOTE, 2, 7, "request", 60, pre_vote=pre_vote, epoch=epoch)


def fetch(
    ms: int, source: int, epoch: int, offset: int | None, leader: int = 1, mark: int | None = None
) -> RpcRow:  # fmt: skip
    """A follower's request; without an offset it is for another log."""
    return RpcRow(ms * MS, source, leader, FETCH, 18, 7, "request", 60, None, epoch, None, "pass", offset, mark)


def fetched(ms: int, leader: int, epoch: int, mark: int, follower: int = 2) -> RpcRow:
    return RpcRow(
        ms * MS, leader, follower, FETCH, 18, 7, "response", 60, None, epoch, None, "pass", None, mark
    )  # fmt: skip


def file(ms: int, node: int, epoch: int, voted: int | None = None, leader: int | None = None) -> Observation:
    return Observation(ms * MS, node, "quorum-state", "durable", epoch=epoch, leader=leader, voted=voted)


def restart(ms: int, node: int, after: int = 2 * S) -> list[Observation]:
    """The process ends and is started again after a while."""
    return [
        Observation(ms * MS, node, "process", "stopped"),
        Observation((ms + after) * MS, node, "process", "started"),
    ]


def claim(ms: int, node: int, epoch: int, mark: int) -> Observation:
    detail = json.dumps({"voters": {"1": mark, "2": mark, "3": mark}})
    return Observation(
        ms * MS, node, "describe-quorum", "claim", epoch=epoch, leader=node, high_watermark=mark, detail=detail
    )


def log(node: int, *epochs: int) -> list[LoggedBatch]:
    """A log of one record a batch, with these epochs."""
    return [LoggedBatch(node, TOPIC, 0, offset, offset, epoch, 10 * epoch) for offset, epoch in enumerate(epochs)]


LOSER = 4
"""The node whose disk is lost."""
LOST = history(*nemesis_op("lose_disk", {"nodes": [LOSER]}))
LOGS = [*log(1, 1, 1, 1), *log(2, 1, 1, 1), *log(3, 1)]
COMMITTED = [fetch(1, 2, 1, 0), fetched(2, 1, 1, -1), fetch(3, 2, 1, 2), fetched(4, 1, 1, 2)]
"""A leader that commits two records, which node 2 has."""

Case = tuple[Sequence[RpcRow], Sequence[Observation], Sequence[Found]]
VOTES: dict[str, Case] = {
    "two votes": ([vote(5, 1, 2, 3), vote(9, 1, 3, 3)], [], [("two-votes-announced", 1, 9)]),
    "a vote beside its own": ([campaign(5, 1, 3), vote(9, 1, 3, 3)], [], [("two-votes-announced", 1, 9)]),
    "a vote for another on file": (
        [vote(5, 1, 2, 3)], [file(1005, 1, 3, voted=3)], [("announced-vote-not-in-file", 1, 1005)],
    ),
    "no vote on file": ([vote(5, 1, 2, 3)], [file(1005, 1, 3)], [("announced-vote-not-in-file", 1, 1005)]),
    "a follower's file without its vote": (
        [campaign(5, 1, 3)], [file(1005, 1, 3, leader=2)], [("announced-vote-not-in-file", 1, 1005)],
    ),
    "a lower epoch on file": (
        [vote(5, 1, 2, 3)], [file(1005, 1, 2)], [("announced-epoch-forgotten", 1, 1005)],
    ),
    "a lower epoch on file than fetched with": (
        [fetch(5, 2, 3, 0)], [file(1005, 2, 2)], [("announced-epoch-forgotten", 2, 1005)],
    ),
    "a lower epoch after a restart": (
        [vote(5, 1, 2, 3), fetch(2500, 1, 2, 0, 2)], restart(100, 1), [("announced-epoch-forgotten", 1, 2500)],
    ),
    "a lower epoch in a pre-vote after a restart": (
        [vote(5, 1, 2, 3), campaign(2500, 1, 2, True)], restart(100, 1), [("announced-epoch-forgotten", 1, 2500)],
    ),
    "the same vote twice": ([vote(5, 1, 2, 3), vote(9, 1, 2, 3)], [], []),
    "votes of two epochs": ([vote(5, 1, 2, 3), vote(9, 1, 3, 4)], [], []),
    "pre-votes": ([vote(5, 1, 2, 3, pre_vote=True), vote(9, 1, 3, 3, pre_vote=True)], [], []),
    "a rejected vote": ([vote(5, 1, 2, 3), vote(9, 1, 3, 3, granted=False)], [], []),
    "two votes and a lost disk": ([vote(5, LOSER, 2, 3), vote(9, LOSER, 3, 3)], [], []),
    "a file that was read too early": ([vote(5, 1, 2, 3)], [file(900, 1, 3)], []),
    "a leader's own vote is implied": ([campaign(5, 1, 3)], [file(1005, 1, 3, leader=1)], []),
    "the vote on file": ([vote(5, 1, 2, 3)], [file(1005, 1, 3, voted=2, leader=2)], []),
    "no vote on file after a lost disk": ([vote(5, LOSER, 2, 3)], [file(1005, LOSER, 3)], []),
    "a lower epoch on file after a lost disk": ([vote(5, LOSER, 2, 3)], [file(1005, LOSER, 2)], []),
    "an epoch that a rejection repeats": ([vote(5, 1, 2, 3, granted=False)], [file(1005, 1, 2)], []),
    "an epoch of another log": ([fetch(5, 1, 3, None, 2)], [file(1005, 1, 2)], []),
    "a lower epoch from before the restart": (
        [vote(5, 1, 2, 3), fetch(600, 1, 2, 0, 2)], restart(100, 1, after=300), [],
    ),
    "a lower epoch without a restart": ([vote(5, 1, 2, 3), fetch(2500, 1, 2, 0, 2)], [], []),
    "a response that was on its way": ([vote(5, 1, 2, 3), vote(2500, 1, 3, 2, granted=False)], restart(100, 1), []),
}  # fmt: skip
Disks = tuple[Sequence[RpcRow], Sequence[Observation], Sequence[LoggedBatch], Sequence[Found]]
COMMITS: dict[str, Disks] = {
    "nobody fetched": (
        [*COMMITTED, fetched(5, 1, 1, 3)], [claim(9, 1, 1, 3)], LOGS,
        [("announced-commit-without-majority", 1, 5)],
    ),
    "beyond a follower's log": (
        [*COMMITTED, fetch(5, 2, 1, 2, mark=3)], [claim(9, 1, 1, 3)], LOGS, [("announced-commit-beyond-log", 2, 5)],
    ),
    "on one log": (
        [*COMMITTED, fetch(5, 2, 1, 3), fetched(6, 1, 1, 3)],
        [claim(3, 1, 1, 2)], [*log(1, 1, 1, 1), *log(2, 1, 1), *log(3, 1, 1)], [("announced-commit-missing", 1, 6)],
    ),
    "overwritten after a follower knew it": (
        [*COMMITTED, fetch(6, 2, 1, 3, mark=3)],
        [claim(9, 1, 1, 3)], [*log(1, 1, 1, 2), *log(2, 1, 1, 2), *log(3, 1, 1, 2)],
        [("announced-commit-overwritten", 2, 6)],
    ),
    "a majority fetched": (COMMITTED, [claim(9, 1, 1, 2)], LOGS, []),
    "the record begins within an epoch": ([fetch(1, 2, 1, 0), fetched(5, 1, 1, 3)], [claim(9, 1, 1, 3)], LOGS, []),
    "voters changed": (
        [*COMMITTED, fetched(5, 1, 1, 3)],
        [claim(9, 1, 1, 3), replace(claim(10, 1, 1, 3), detail='{"voters": {"1": 3}}')], LOGS, [],
    ),
    "a follower is behind": ([*COMMITTED, fetch(5, 3, 1, 0, mark=0)], [claim(9, 1, 1, 3)], LOGS, []),
    "a tail was not committed": (
        COMMITTED, [claim(9, 1, 1, 2)], [*log(1, 1, 1, 1), *log(2, 1, 1, 2), *log(3, 1, 1, 2)], [],
    ),
    "of a user's log": (
        COMMITTED, [claim(9, 1, 1, 2)], [*LOGS, *(replace(each, topic="users") for each in log(1, 7, 7))], [],
    ),
}  # fmt: skip


WITNESSED = "two votes after operations of the nemesis"
UNNAMED = "two votes and a lost disk of no named node"


@pytest.fixture(scope="module")
def found(find_in_runs: FindInRuns) -> dict[str, list[Finding]]:
    """The findings about each run, from one Spark job."""
    runs = {name: Tables(LOST, seen, rpcs=rpcs) for name, (rpcs, seen, _) in VOTES.items()}
    runs |= {name: Tables(HEAL, seen, batches, rpcs=rpcs) for name, (rpcs, seen, batches, _) in COMMITS.items()}
    two_votes = [vote(2, 1, 2, 3), vote(4, 1, 3, 3)]
    ops = history(*nemesis_op("heal"), *nemesis_op("kill", {"nodes": [1]}), *nemesis_op("start", {"nodes": [1]}))
    begun, failed = nemesis_op("lose_disk")
    runs[WITNESSED] = Tables(ops, rpcs=two_votes)
    runs[UNNAMED] = Tables(history(begun, replace(failed, error="no such node")), rpcs=two_votes)
    return find_in_runs("announcements", runs)


@pytest.mark.parametrize("name", VOTES)
def test_votes_and_epochs(name: str, found: dict[str, list[Finding]]) -> None:
    assert {each.severity for each in found[name]} <= {"invalid"}
    assert [(each.name, each.node, each.time_ns) for each in found[name]] == [
        (broken, node, ms * MS) for broken, node, ms in VOTES[name][2]
    ]


@pytest.mark.parametrize("name", COMMITS)
def test_commits(name: str, found: dict[str, list[Finding]]) -> None:
    assert [(each.name, each.node, each.time_ns) for each in found[name]] == [
        (broken, node, ms * MS) for broken, node, ms in COMMITS[name][3]
    ]


def test_version_that_drops_votes_may_have_none_on_file(find_in_run: FindInRun) -> None:
    seen = [file(1005, 1, 3), file(1006, 1, 4, voted=3)]
    rpcs = [vote(5, 1, 2, 3), vote(6, 1, 2, 4)]
    [found] = find_in_run("announcements", HEAL, seen, rpcs=rpcs, rules=KIP_595_RULES)
    assert "in epoch 4 node 1 announced a vote for 2, and then its file had a vote for 3" in found.message


def test_run_without_a_proxy_has_no_findings(find_in_run: FindInRun) -> None:
    assert find_in_run("announcements", HEAL, [file(5, 1, 3)], LOGS) == []


def test_witnesses_are_the_last_operations_of_the_nemesis_before(found: dict[str, list[Finding]]) -> None:
    [one] = found[WITNESSED]
    assert one.witnesses == (1, 2, 3, 4)


def test_disk_fault_that_did_not_say_whose_vote_it_erased_excuses_all(found: dict[str, list[Finding]]) -> None:
    assert found[UNNAMED] == []


def random_rpcs(source: random.Random, size: int, node: int) -> Iterator[RpcRow]:
    """Messages of three nodes from `node` on, in order of time."""
    for ms in sorted(source.choices(range(0, 4000, 100), k=size)):
        own, other = node + source.randrange(3), node + source.randrange(3)
        epoch, offset = source.randint(1, 3), source.randrange(6)
        yield source.choice(
            [
                vote(ms, own, other, epoch, source.random() < 0.7, source.random() < 0.3),
                replace(campaign(ms, own, epoch, source.random() < 0.3), target=other),
                fetch(
                    ms, own, epoch, source.choice([offset, None]), other, source.choice([None, -1, offset, offset + 1])
                ),
                fetched(ms, own, epoch, source.choice([-1, offset]), other),
                RpcRow(ms * MS, own, other, BEGIN, 1, 7, "request", 60, epoch=epoch),
            ]
        )


def random_seen(source: random.Random, size: int, node: int) -> Iterator[Observation]:
    for _ in range(size):
        ms, own, epoch = source.randrange(0, 4000, 100), node + source.randrange(3), source.randint(1, 3)
        voted, leader = source.choice([None, -1, node, node + 1]), source.choice([None, -1, own, node + 1])
        yield source.choice(
            [
                file(ms, own, epoch, voted, leader),
                Observation(ms * MS, own, "process", source.choice(["started", "stopped", "exited"])),
            ]
        )


@pytest.mark.parametrize("rules", [KIP_595_RULES, KIP_996_RULES], ids=lambda rules: rules.name)
def test_rules_agree_with_their_twins_on_random_runs(spark: SparkSession, rules: TransitionRules) -> None:
    source = random.Random(11)
    rpcs = [rpc for run in range(300) for rpc in random_rpcs(source, source.randint(2, 14), 10 * run)]
    seen = [each for run in range(300) for each in random_seen(source, source.randint(0, 8), 10 * run)]
    configure_for(spark, rows=len(rpcs))
    table = positioned(spark, [asdict(rpc) for rpc in rpcs], RPCS).localCheckpoint()
    observations = observation_table(spark, seen).localCheckpoint()
    frames = [
        votes.two_votes(table),
        votes.vote_not_in_file(table, observations, settings_with(rules=rules)),
        votes.epoch_not_in_file(table, observations),
        votes.epoch_forgotten(table, observations),
        commits.beyond_log(table),
    ]
    found = sorted((row["name"], row["node"], row["time_ns"]) for frame in frames for row in frame.collect())
    expected = [
        *twins.two_votes(rpcs),
        *twins.vote_not_in_file(rpcs, seen, rules.keeps_votes),
        *twins.epochs_forgotten(rpcs, seen),
        *twins.beyond_log(rpcs),
    ]
    assert found == sorted(expected)
    counts = Counter(name for name, _, _ in found)
    assert len(counts) == 4
    assert min(counts.values()) > 10


def test_majorities_agree_with_their_twin_on_random_fetches(spark: SparkSession) -> None:
    source = random.Random(12)
    rpcs = [rpc for epoch in range(1, 400) for rpc in random_fetches(source, epoch)]
    configure_for(spark, rows=len(rpcs))
    table = positioned(spark, [asdict(rpc) for rpc in rpcs], RPCS)
    for voters in ((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5), (2,)):
        rows = commits.without_majority(table, always(voters), SETTINGS).collect()
        found = sorted((row["name"], row["node"], row["time_ns"]) for row in rows)
        assert found == sorted(twins.without_majority(rpcs, voters))
        assert len(found) > 20
    assert commits.without_majority(table, always(()), SETTINGS).collect() == []


def always(voters: Sequence[int]) -> Electorates:
    """A quorum whose voters never change."""
    return electorates_of({0: Electorate(dict.fromkeys(voters), frozenset(voters))}, SETTINGS)


def random_fetches(source: random.Random, epoch: int) -> Iterator[RpcRow]:
    """The fetches of an epoch, most of them from one leader."""
    for at in range(source.randint(2, 12)):
        follower, offset, ms = source.randint(2, 5), source.randrange(6), 20 * epoch + at // 2
        is_request = source.random() < 0.6
        mark = source.choice([-1, offset])
        yield fetch(ms, follower, epoch, offset) if is_request else fetched(ms, 1, epoch, mark, follower)


RANDOM_LOGS = 4


def test_commits_on_disk_agree_with_their_twins_on_random_logs(open_runs: OpenRuns) -> None:
    source = random.Random(13)
    runs = [random_commits(source) for _ in range(RANDOM_LOGS)]
    tables = open_runs(runs)
    rpcs, batches, observations = tables["rpcs"], tables["batches"], tables["observations"]
    overwritten = commits.commits_overwritten(rpcs, batches).collect()
    missing = commits.commits_missing(rpcs, batches, observations).collect()
    for number, run in enumerate(runs):
        own = [(row["name"], row["node"], row["time_ns"]) for row in overwritten if row["run"] == number]
        assert sorted(own) == sorted(twins.commits_overwritten(run.rpcs, run.batches))
        messages = [row["message"] for row in missing if row["run"] == number]
        ranges = [tuple(map(int, message.rsplit("offsets ", 1)[1].split(" to "))) for message in messages]
        offsets = [offset for begin, last in ranges for offset in range(begin, last + 1)]
        claimed = run.observations[0].high_watermark
        assert sorted(offsets) == list(twins.commits_missing(run.rpcs, run.batches, claimed, (1, 2, 3)))
    found = {row["name"] for row in [*overwritten, *missing]}
    assert found == {"announced-commit-overwritten", "announced-commit-missing"}


def random_commits(source: random.Random) -> Tables:
    """A run that announces high watermarks, the logs of its nodes, and what a leader claimed."""
    rpcs = [rpc for rpc in random_rpcs(source, 12, 1) if rpc.high_watermark is not None]
    batches = [
        batch for node in (1, 2, 3)
        for batch in log(node, *sorted(source.choices((1, 1, 2, 3), k=source.randint(1, 6))))
    ]  # fmt: skip
    return Tables([], [claim(1, 1, 1, source.randint(1, 2))], batches, rpcs=rpcs)
