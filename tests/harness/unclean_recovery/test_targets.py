"""Which partitions are recovered, as Metadata describes them; and what the outcomes add up to."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.unclean_recovery.options import Address
from harness.unclean_recovery.outcomes import SUCCESSES, Outcome, Result, counts_of, exit_code_of
from harness.unclean_recovery.partitions import (
    REPEATED,
    ClusterView,
    PartitionState,
    TopicPartition,
    offline_partitions,
    targets_of,
    view_of,
)
from nodes.wire import codec

ID = uuid.UUID(int=7)


def metadata(leader: int, code: ErrorCode, topic_code: ErrorCode = ErrorCode.none) -> Any:
    partition = {"error_code": code, "partition_index": 3, "leader_id": leader, "replica_nodes": [2, 1]}
    topic = {"error_code": topic_code, "name": "t", "topic_id": ID, "partitions": [partition]}
    brokers = [{"node_id": 1, "host": "h", "port": 9}]
    values = {"throttle_time": 0, "brokers": brokers, "topics": [topic], "error_code": ErrorCode.none}
    return codec.build(codec.METADATA, 12, "response", values)


STATES = {
    "online": (2, ErrorCode.none, PartitionState(ID, (2, 1), 2)),
    "offline": (-1, ErrorCode.leader_not_available, PartitionState(ID, (2, 1), None)),
    "offline, without an error": (-1, ErrorCode.none, PartitionState(ID, (2, 1), None)),
    "no leader by the error": (2, ErrorCode.leader_not_available, PartitionState(ID, (2, 1), None)),
    "the leader has another listener": (
        -1,
        ErrorCode.listener_not_found,
        PartitionState(ID, (2, 1), None, "LISTENER_NOT_FOUND"),
    ),
    "online, with an offline replica": (2, ErrorCode.replica_not_available, PartitionState(ID, (2, 1), 2)),
}


@pytest.mark.parametrize(("leader", "code", "state"), STATES.values(), ids=STATES)
def test_state_of_a_partition(leader: int, code: ErrorCode, state: PartitionState) -> None:
    view = view_of(metadata(leader, code))
    assert view.partitions == {TopicPartition("t", 3): state}
    assert view.brokers == {1: Address("h", 9)}
    assert state.is_offline is (state.leader is None and state.error == "")
    assert offline_partitions(view) == ([TopicPartition("t", 3)] if state.is_offline else [])


def test_topic_with_an_error_is_known_by_it() -> None:
    view = view_of(metadata(-1, ErrorCode.none, ErrorCode.topic_authorization_failed))
    assert view.topic_errors == {"t": "TOPIC_AUTHORIZATION_FAILED"}


def test_each_listed_partition_is_recovered_or_has_its_outcome() -> None:
    names = ("offline", "online", "unclear", "nameless", "twice", "unknown", "forbidden", "beyond")
    offline, online, unclear, nameless, twice, unknown, forbidden, beyond = (TopicPartition(name, 0) for name in names)
    states = {
        offline: PartitionState(ID, (1, 2), None),
        online: PartitionState(ID, (1, 2), 2),
        unclear: PartitionState(ID, (1, 2), None, "LISTENER_NOT_FOUND"),
        nameless: PartitionState(None, (1, 2), None),
        twice: PartitionState(ID, (1, 2), None),
    }
    errors = {"unknown": "UNKNOWN_TOPIC_OR_PARTITION", "forbidden": "TOPIC_AUTHORIZATION_FAILED"}
    targets = targets_of([TopicPartition(name, 0) for name in names], {twice}, ClusterView({}, states, errors))
    assert targets.offline == {offline: states[offline]}
    assert targets.outcomes == {
        online: Outcome(Result.ALREADY_ONLINE, 2),
        unclear: Outcome(Result.FAILED, reason="its leader is not known: LISTENER_NOT_FOUND"),
        nameless: Outcome(Result.FAILED, reason="the cluster does not name the topic's id"),
        twice: REPEATED,
        unknown: Outcome(Result.FAILED, reason="UNKNOWN_TOPIC_OR_PARTITION"),
        forbidden: Outcome(Result.FAILED, reason="TOPIC_AUTHORIZATION_FAILED"),
        beyond: Outcome(Result.FAILED, reason="the topic has no such partition"),
    }


@given(st.lists(st.builds(Outcome, st.sampled_from(Result))), st.booleans())
def test_exit_is_0_only_if_all_succeeded_and_nothing_interrupted(outcomes: list[Outcome], interrupted: bool) -> None:
    failed = [each for each in outcomes if each.result in (Result.FAILED, Result.UNKNOWN, Result.NOT_DONE)]
    assert exit_code_of(outcomes, interrupted) == (1 if failed or interrupted else 0)
    assert sum(counts_of(outcomes).values()) == len(outcomes)
    assert {each.result for each in outcomes if each.is_success} <= SUCCESSES
