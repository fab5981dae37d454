"""`unclean-recovery` against brokers that answer as a script says: what it asks, what it elects, what it reports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.model import EnvironmentFailure, PeerFailure
from harness.unclean_recovery.access import AccessSettings
from harness.unclean_recovery.files import Listing
from harness.unclean_recovery.outcomes import Outcome, Result
from harness.unclean_recovery.partitions import REPEATED, TopicPartition
from harness.unclean_recovery.recover import Report, recover
from nodes.wire import codec
from tests.support.nodes.recoveries import ALL, SHOW, T_0, duration, error_of, offline, recovered
from tests.support.nodes.scripted_brokers import (
    FAST,
    SERVED,
    Partition,
    Script,
    ScriptedCluster,
    Silent,
    after,
    answer,
    close,
    close_after_effect,
    first,
    garbage,
    refuse,
)


def test_longest_log_of_the_highest_epoch_is_elected() -> None:
    report, cluster = recovered(lambda: ScriptedCluster(offline(n1=(3, 40), n2=(4, 30), n3=(4, 35))))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 3)}
    assert report.exit_code == 0
    assert cluster.partitions["t", 0].leader == 3
    assert [(row.broker, row.log.log_end_offset, row.is_chosen) for row in report.replicas] == [
        (1, 40, False),
        (2, 30, False),
        (3, 35, True),
    ]


def test_showing_changes_nothing() -> None:
    report, cluster = recovered(lambda: ScriptedCluster(offline(n1=(3, 40), n2=(4, 30))), SHOW)
    assert report.outcomes == {T_0: Outcome(Result.CHOSEN, 2)}
    assert cluster.asked(codec.ELECT_LEADERS) == []


def test_epoch_of_the_last_record_decides_where_brokers_report_it() -> None:
    report, _ = recovered(lambda: ScriptedCluster(offline(n1=(7, 100, 5), n2=(7, 60, 7))))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 2)}


def test_brokers_with_version_0_only_report_the_current_epoch() -> None:
    served = {broker: {**SERVED, codec.GET_REPLICA_LOG_INFO: range(1)} for broker in (1, 2, 3)}
    report, _ = recovered(lambda: ScriptedCluster(offline(n1=(7, 100, 5), n2=(7, 60, 7)), served=served))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}


def test_a_cluster_without_offline_partitions_needs_nothing() -> None:
    report, cluster = recovered(lambda: ScriptedCluster({("t", 0): Partition((1,), 1)}))
    assert (report.outcomes, report.exit_code) == ({}, 0)
    assert cluster.asked(codec.GET_REPLICA_LOG_INFO) == []


def test_only_brokers_with_a_replica_are_asked_and_all_in_one_request_each() -> None:
    partitions = {("t", n): Partition((1, 2), None, {1: (1, n), 2: (1, 5)}) for n in range(10)}
    report, cluster = recovered(lambda: ScriptedCluster(partitions))
    assert [len(cluster.asked(codec.GET_REPLICA_LOG_INFO, broker)) for broker in (1, 2, 3)] == [1, 1, 0]
    assert [report.outcomes[TopicPartition("t", n)].leader for n in range(10)] == [2] * 5 + [1] * 5


def test_each_listed_partition_has_its_outcome_and_the_others_proceed() -> None:
    partitions = {
        **offline(n1=(1, 5), n2=(1, 6)),
        ("t", 1): Partition((1, 2), 1),
        ("t", 2): Partition((1, 2), None, {1: (1, 1), 2: (1, 1)}),
        ("other", 0): Partition((1, 2), None, {1: (1, 1), 2: (1, 1)}),
    }
    listed = (TopicPartition("t", 2), T_0, TopicPartition("t", 1), TopicPartition("no", 0), TopicPartition("t", 9))
    listing = Listing(listed, frozenset({TopicPartition("t", 2)}), {})
    report, cluster = recovered(lambda: ScriptedCluster(partitions), listing=listing)
    assert report.outcomes == {
        T_0: Outcome(Result.ELECTED, 2),
        TopicPartition("t", 1): Outcome(Result.ALREADY_ONLINE, 1),
        TopicPartition("t", 2): REPEATED,
        TopicPartition("no", 0): Outcome(Result.FAILED, reason="UNKNOWN_TOPIC_OR_PARTITION"),
        TopicPartition("t", 9): Outcome(Result.FAILED, reason="the topic has no such partition"),
    }
    assert report.exit_code == 1
    assert cluster.partitions["other", 0].leader is None


def test_2500_partitions_are_three_requests_of_each_kind() -> None:
    partitions = {("t", n): Partition((1, 2), None, {1: (1, n), 2: (1, 1)}) for n in range(2500)}
    report, cluster = recovered(lambda: ScriptedCluster(partitions))
    assert {each.result for each in report.outcomes.values()} == {Result.ELECTED}
    assert len(report.outcomes) == 2500
    assert [len(cluster.asked(codec.GET_REPLICA_LOG_INFO, broker)) for broker in (1, 2)] == [3, 3]
    sizes = [len(each.topic_partitions[0].partitions) for each in cluster.asked(codec.ELECT_LEADERS)]
    assert sizes == [1000, 1000, 500]


def test_a_server_with_a_lower_limit_is_asked_for_the_rest() -> None:
    partitions = {("t", n): Partition((1,), None, {1: (1, 1)}) for n in range(250)}
    report, cluster = recovered(lambda: ScriptedCluster(partitions, limit=100))
    assert {each.result for each in report.outcomes.values()} == {Result.ELECTED}
    sizes = [len(each.topic_partitions[0].partitions) for each in cluster.asked(codec.GET_REPLICA_LOG_INFO)]
    assert sizes == [250, 100, 50]
    assert len(cluster.asked(codec.ELECT_LEADERS)) == 3


def test_a_broker_that_answers_after_the_duration_is_not_a_candidate() -> None:
    async def never(_model: Any) -> None:
        await asyncio.Event().wait()

    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)))
        made.script(codec.GET_REPLICA_LOG_INFO, never, broker=2)
        return made

    report, _ = recovered(cluster, duration(300))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}
    assert "timed out" in error_of(report, 2)


def test_a_broker_that_answers_late_but_within_the_duration_is_a_candidate() -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)))
        event = asyncio.Event()
        made.script(codec.GET_REPLICA_LOG_INFO, after(event), broker=2)
        made.script(codec.GET_REPLICA_LOG_INFO, first(event.set), broker=1)
        return made

    report, _ = recovered(cluster, duration(30_000))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 2)}


def test_a_broker_that_is_down_is_not_a_candidate() -> None:
    report, cluster = recovered(lambda: ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)), dead=[2]), duration(200))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}
    assert "connecting to" in error_of(report, 2)
    assert cluster.partitions["t", 0].leader == 1


def test_a_broker_that_no_server_names_is_not_a_candidate() -> None:
    report, _ = recovered(lambda: ScriptedCluster(offline(n1=(1, 5), n9=(1, 90))), duration(200))
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}
    assert error_of(report, 9) == "no server of the cluster names the broker's address"


def test_looking_for_a_broker_takes_no_longer_than_the_duration() -> None:
    patient = AccessSettings(metadata_timeout_ms=60_000, backoff_ms=1)

    async def never(_model: Any) -> None:
        await asyncio.Event().wait()

    async def scenario() -> Report:
        async with ScriptedCluster(offline(n1=(1, 5), n9=(1, 90))) as cluster, asyncio.timeout(30):
            cluster.script(codec.METADATA, answer, never)
            return await recover(duration(200), None, cluster.addresses, patient, Silent())

    assert asyncio.run(scenario()).outcomes == {T_0: Outcome(Result.ELECTED, 1)}


def test_a_partition_whose_replicas_are_all_down_fails_and_the_others_are_recovered() -> None:
    partitions = offline(n1=(1, 5)) | {("t", 1): Partition((2, 3), None, {2: (1, 1), 3: (1, 1)})}
    report, _ = recovered(lambda: ScriptedCluster(partitions, dead=[2, 3]), duration(200))
    assert report.outcomes[T_0] == Outcome(Result.ELECTED, 1)
    reason = report.outcomes[TopicPartition("t", 1)].reason
    assert reason.startswith("no replica reported its log: broker 2: connecting to 127.0.0.1:"), reason
    assert "; broker 3: connecting to 127.0.0.1:" in reason
    assert report.exit_code == 1


def test_a_fenced_broker_is_asked_and_its_election_is_refused() -> None:
    """UR-21: the operator reaches a broker that the controller has fenced."""
    report, cluster = recovered(lambda: ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)), fenced=[2]))
    assert report.outcomes == {T_0: Outcome(Result.FAILED, 2, "ELIGIBLE_LEADERS_NOT_AVAILABLE")}
    assert len(cluster.asked(codec.ELECT_LEADERS)) == 1
    assert cluster.partitions["t", 0].leader is None


def test_an_error_of_a_replica_that_stays_is_final_and_one_that_passes_is_asked_again() -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5), n2=(1, 90), n3=(1, 7)))
        partition = made.partitions["t", 0]
        partition.errors = {2: ErrorCode.kafka_storage_error, 3: ErrorCode.not_leader_or_follower}
        starts = first(lambda: partition.errors.pop(3))
        made.script(codec.GET_REPLICA_LOG_INFO, first(lambda: None), starts, broker=3)
        return made

    report, asked = recovered(cluster)
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 3)}
    assert error_of(report, 2) == "KAFKA_STORAGE_ERROR"
    assert [len(asked.asked(codec.GET_REPLICA_LOG_INFO, broker)) for broker in (1, 2, 3)] == [1, 1, 2]


@pytest.mark.parametrize("failure", [close, garbage], ids=["a closed connection", "garbage"])
def test_a_question_that_fails_on_the_network_is_repeated(failure: Any) -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)))
        made.script(codec.GET_REPLICA_LOG_INFO, failure, failure, broker=2)
        return made

    report, asked = recovered(cluster)
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 2)}
    assert len(asked.asked(codec.GET_REPLICA_LOG_INFO, 2)) == 3


@pytest.mark.parametrize("failure", [close, garbage], ids=["a closed connection", "garbage"])
def test_a_server_that_does_not_describe_the_cluster_is_passed_over(failure: Any) -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5)))
        made.script(codec.METADATA, failure)
        return made

    report, asked = recovered(cluster)
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}
    assert [broker for broker, frame in asked.requests if frame.api_key == codec.METADATA] == [1, 2]


@pytest.mark.parametrize(("times", "outcome"), [
    (2, Outcome(Result.ELECTED, 1)),
    (3, Outcome(Result.ELECTED, 1)),
    (4, Outcome(Result.FAILED, 1, "NOT_CONTROLLER")),
])  # fmt: skip
def test_three_retries_outlast_three_refusals_and_not_four(times: int, outcome: Outcome) -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5)))
        made.script(codec.ELECT_LEADERS, *[refuse(ErrorCode.not_controller)] * times)
        return made

    report, asked = recovered(cluster)
    assert report.outcomes == {T_0: outcome}
    servers = [broker for broker, frame in asked.requests if frame.api_key == codec.ELECT_LEADERS]
    assert servers == [1, 2, 3, 1][: min(times + 1, 4)]


@pytest.mark.parametrize("failure", [close, garbage], ids=["a closed connection", "garbage"])
def test_an_election_that_fails_on_the_network_is_requested_from_another_broker(failure: Any) -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5)))
        made.script(codec.ELECT_LEADERS, failure)
        return made

    report, _ = recovered(cluster)
    assert report.outcomes == {T_0: Outcome(Result.ELECTED, 1)}


def test_an_election_whose_answer_is_lost_is_found_to_be_online() -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5)))
        made.script(codec.ELECT_LEADERS, close_after_effect)
        return made

    report, _ = recovered(cluster)
    assert report.outcomes[T_0].result is Result.ALREADY_ONLINE
    assert "whose answer was lost" in report.outcomes[T_0].reason
    assert report.exit_code == 0


def test_an_election_that_is_never_answered_is_unknown() -> None:
    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5)))
        made.script(codec.ELECT_LEADERS, *[close] * 4)
        return made

    report, _ = recovered(cluster)
    assert report.outcomes[T_0].result is Result.UNKNOWN
    assert report.exit_code == 1


def test_a_partition_that_comes_online_meanwhile_stays_as_it_is() -> None:
    """UR-22: a replica of the ELR returns between the two requests."""

    def cluster() -> ScriptedCluster:
        made = ScriptedCluster(offline(n1=(1, 5), n2=(1, 90)))
        partition = made.partitions["t", 0]
        made.script(codec.ELECT_LEADERS, first(lambda: setattr(partition, "leader", 1)))
        return made

    report, asked = recovered(cluster)
    assert report.outcomes == {T_0: Outcome(Result.ALREADY_ONLINE)}
    assert (report.exit_code, asked.partitions["t", 0].leader) == (0, 1)


def test_a_second_run_finds_everything_online() -> None:
    async def twice() -> tuple[Report, Report]:
        async with ScriptedCluster(offline(n1=(1, 5), n2=(1, 90))) as cluster:
            listing = Listing((T_0,), frozenset(), {})
            runs = [await recover(ALL, listing, cluster.addresses, FAST, Silent()) for _ in range(2)]
            assert len(cluster.asked(codec.ELECT_LEADERS)) == 1
            return runs[0], runs[1]

    one, two = asyncio.run(twice())
    assert one.outcomes == {T_0: Outcome(Result.ELECTED, 2)}
    assert two.outcomes == {T_0: Outcome(Result.ALREADY_ONLINE, 2)}
    assert two.exit_code == 0


SCRIPTS = {
    codec.METADATA: [answer, close, garbage],
    codec.GET_REPLICA_LOG_INFO: [answer, close, garbage],
    codec.ELECT_LEADERS: [
        *(answer, close, close_after_effect, garbage),
        *map(refuse, (ErrorCode.not_controller, ErrorCode.request_timed_out, ErrorCode.cluster_authorization_failed)),
    ],
}
PARTITIONS = st.builds(
    lambda replicas, leads, logs: Partition(replicas, replicas[0] if leads else None, dict(zip((1, 2, 3, 4), logs))),  # noqa: B905
    st.sampled_from([(1, 2), (2, 3, 1), (3, 4), (4,), (1, 2, 3, 4)]),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=4, max_size=4),
)
ENDS = {
    Result.ELECTED: lambda outcome, leader: leader == outcome.leader is not None,
    Result.ALREADY_ONLINE: lambda _outcome, leader: leader is not None,
    Result.FAILED: lambda _outcome, leader: leader is None,
    Result.UNKNOWN: lambda outcome, leader: leader in (None, outcome.leader),
}


@settings(max_examples=60)
@given(
    st.dictionaries(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 4)), PARTITIONS, max_size=6),
    st.sets(st.sampled_from([2, 3, 4])),
    st.integers(1, 4),
    st.fixed_dictionaries({key: st.lists(st.sampled_from(scripts), max_size=6) for key, scripts in SCRIPTS.items()}),
)
def test_report_is_true_whatever_fails(
    partitions: dict[tuple[str, int], Partition], fenced: set[int], limit: int, scripts: dict[int, list[Script]]
) -> None:
    """Each outcome is what the cluster has; nobody leads who is fenced or was not the choice of the report."""
    before = {key: each.leader for key, each in partitions.items()}
    listing = Listing(tuple(TopicPartition(*key) for key in partitions), frozenset(), {})
    made: list[ScriptedCluster] = []

    def cluster() -> ScriptedCluster:
        made.append(ScriptedCluster(partitions, brokers=(1, 2, 3, 4), fenced=fenced, limit=limit))
        for api_key, each in scripts.items():
            made[0].script(api_key, *each)
        return made[0]

    try:
        report, _ = recovered(cluster, ALL, listing)
    except (EnvironmentFailure, PeerFailure):
        assert {key: each.leader for key, each in partitions.items()} == before
        return
    assert {(each.topic, each.partition) for each in report.outcomes} == set(partitions)
    chosen = {(row.partition.topic, row.partition.partition): row.broker for row in report.replicas if row.is_chosen}
    for key, partition in partitions.items():
        outcome = report.outcomes[TopicPartition(*key)]
        assert ENDS[outcome.result](outcome, partition.leader), (outcome, partition)
        if partition.leader != before[key]:
            assert partition.leader == chosen[key] not in fenced
    assert report.exit_code == (0 if all(each.leader is not None for each in partitions.values()) else 1) or any(
        each.result is Result.UNKNOWN for each in report.outcomes.values()
    )


def test_ten_brokers_with_a_thousand_partitions_are_ten_questions() -> None:
    """UR-31."""
    brokers = range(1, 11)
    partitions = {("t", n): Partition(tuple(brokers), None, dict.fromkeys(brokers, (1, 1))) for n in range(1000)}
    _, cluster = recovered(lambda: ScriptedCluster(partitions, brokers=brokers), SHOW)
    assert [len(cluster.asked(codec.GET_REPLICA_LOG_INFO, broker)) for broker in brokers] == [1] * 10
