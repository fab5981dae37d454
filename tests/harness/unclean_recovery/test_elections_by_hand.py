"""`elect-leaders` against brokers that answer as a script says."""

from __future__ import annotations

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from harness.unclean_recovery.access import MissingApi
from harness.unclean_recovery.elect import elect
from harness.unclean_recovery.files import Listing
from harness.unclean_recovery.options import ElectionOptions, ElectionType
from harness.unclean_recovery.outcomes import Outcome, Result
from harness.unclean_recovery.partitions import REPEATED, TopicPartition
from harness.unclean_recovery.recover import Report
from nodes.wire import codec
from tests.support.nodes.scripted_brokers import FAST, SERVED, Partition, ScriptedCluster, Silent, first, refuse

T_0, T_1, T_2 = (TopicPartition("t", number) for number in range(3))
RELEASED = {broker: {**SERVED, codec.ELECT_LEADERS: range(3)} for broker in (1, 2, 3)}


def run(
    cluster: ScriptedCluster,
    kind: ElectionType,
    listing: Listing | None = None,
    single: tuple[str, int] | None = None,
) -> Report:
    async def scenario() -> Report:
        async with cluster:
            options = ElectionOptions(kind, None, single)
            return await elect(options, listing, cluster.addresses, FAST, Silent())

    return asyncio.run(scenario())


def three(leader: int | None = None) -> dict[tuple[str, int], Partition]:
    return {("t", number): Partition((1, 2, 3), leader) for number in range(3)}


def listing(**leaders: int) -> Listing:
    designated = {TopicPartition("t", int(name[1:])): leader for name, leader in leaders.items()}
    return Listing(tuple(designated), frozenset(), designated)


def test_designated_leaders_are_elected_and_only_of_offline_partitions_by_live_replicas() -> None:
    """UR-16 and UR-17: the outsider, the fenced replica and the online partition."""
    cluster = ScriptedCluster({**three(), ("t", 3): Partition((1, 2), 2)}, brokers=(1, 2, 3, 4), fenced=[3])
    report = run(cluster, ElectionType.DESIGNATED, listing(t0=2, t1=4, t2=3, t3=1))
    assert report.outcomes == {
        T_0: Outcome(Result.ELECTED, 2),
        T_1: Outcome(Result.FAILED, 4, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        T_2: Outcome(Result.FAILED, 3, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        TopicPartition("t", 3): Outcome(Result.ALREADY_ONLINE),
    }
    assert [each.leader for each in cluster.partitions.values()] == [2, None, None, 2]
    assert report.exit_code == 1


def test_a_partition_that_is_listed_twice_is_not_elected() -> None:
    cluster = ScriptedCluster(three())
    twice = Listing((T_0, T_1), frozenset({T_0}), {T_0: 1, T_1: 1})
    assert run(cluster, ElectionType.DESIGNATED, twice).outcomes == {T_0: REPEATED, T_1: Outcome(Result.ELECTED, 1)}
    assert cluster.partitions["t", 0].leader is None


def test_an_unclean_election_of_one_partition_needs_no_designated_leaders() -> None:
    cluster = ScriptedCluster(three(), served=RELEASED)
    report = run(cluster, ElectionType.UNCLEAN, single=("t", 1))
    assert report.outcomes == {T_1: Outcome(Result.ELECTED)}
    (request,) = cluster.asked(codec.ELECT_LEADERS)
    assert (request.__version__, request.election_type) == (2, 1)
    assert [cluster.partitions["t", number].leader for number in range(3)] == [None, 1, None]


def test_the_newest_version_is_used_without_designated_leaders() -> None:
    cluster = ScriptedCluster(three())
    run(cluster, ElectionType.UNCLEAN, single=("t", 1))
    (request,) = cluster.asked(codec.ELECT_LEADERS)
    assert (request.__version__, request.topic_partitions[0].designated_leaders) == (3, None)


def test_designated_leaders_in_a_file_are_not_sent_for_other_elections() -> None:
    cluster = ScriptedCluster(three())
    report = run(cluster, ElectionType.UNCLEAN, listing(t0=3))
    (request,) = cluster.asked(codec.ELECT_LEADERS)
    assert request.topic_partitions[0].designated_leaders is None
    assert (report.outcomes, cluster.partitions["t", 0].leader) == ({T_0: Outcome(Result.ELECTED)}, 1)


def test_preferred_elections_of_all_partitions_are_requests_of_1000() -> None:
    partitions = {("t", number): Partition((1, 2), 1 + number % 2) for number in range(2500)}
    cluster = ScriptedCluster(partitions, served=RELEASED)
    report = run(cluster, ElectionType.PREFERRED)
    assert [len(each.topic_partitions[0].partitions) for each in cluster.asked(codec.ELECT_LEADERS)] == [
        1000,
        1000,
        500,
    ]
    results = [report.outcomes[TopicPartition("t", number)].result for number in range(2500)]
    assert results == [Result.NOT_NEEDED, Result.ELECTED] * 1250
    assert report.exit_code == 0


def test_partitions_of_unknown_topics_fail_and_the_others_proceed() -> None:
    listed = Listing((TopicPartition("no", 0), T_0), frozenset(), {})
    report = run(ScriptedCluster(three()), ElectionType.UNCLEAN, listed)
    assert report.outcomes == {
        TopicPartition("no", 0): Outcome(Result.FAILED, None, "UNKNOWN_TOPIC_OR_PARTITION"),
        T_0: Outcome(Result.ELECTED),
    }


def test_a_refusal_of_the_whole_request_is_the_outcome_of_each_partition() -> None:
    """UR-23: a user without CLUSTER_ACTION."""
    cluster = ScriptedCluster(three())
    cluster.script(codec.ELECT_LEADERS, refuse(ErrorCode.cluster_authorization_failed))
    report = run(cluster, ElectionType.DESIGNATED, listing(t0=1, t1=2))
    refused = "CLUSTER_AUTHORIZATION_FAILED"
    assert report.outcomes == {T_0: Outcome(Result.FAILED, 1, refused), T_1: Outcome(Result.FAILED, 2, refused)}
    assert len(cluster.asked(codec.ELECT_LEADERS)) == 1


def test_a_release_without_designated_leaders_is_asked_nothing() -> None:
    cluster = ScriptedCluster(three(), served=RELEASED)
    with pytest.raises(
        MissingApi, match=r"^broker 1 at .*: expected ElectLeaders \(API 43\) version 3, found Elect.* 0 to 2"
    ):
        run(cluster, ElectionType.DESIGNATED, listing(t0=1))
    assert cluster.asked(codec.ELECT_LEADERS) == []


def test_two_operators_with_other_leaders_change_a_partition_once() -> None:
    """UR-18: the first wins, and the other is told that the partition is online."""
    cluster = ScriptedCluster(three())
    partition = cluster.partitions["t", 0]
    cluster.script(codec.ELECT_LEADERS, first(lambda: setattr(partition, "leader", 3)))
    report = run(cluster, ElectionType.DESIGNATED, listing(t0=1))
    assert (report.outcomes, partition.leader) == ({T_0: Outcome(Result.ALREADY_ONLINE)}, 3)


def test_nothing_listed_is_nothing_to_do() -> None:
    cluster = ScriptedCluster(three())
    report = run(cluster, ElectionType.UNCLEAN, Listing((), frozenset(), {}))
    assert (report.outcomes, report.exit_code) == ({}, 0)
    assert cluster.asked(codec.ELECT_LEADERS) == []
