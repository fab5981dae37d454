"""Which of Kafka's errors pass by themselves, so that the tools repeat the request.

Two tables, since the two requests fail differently. An election is repeated where the request did not reach a
controller that could decide: a decision, such as ELIGIBLE_LEADERS_NOT_AVAILABLE for a designated replica that is
fenced, is for the operator to see, although Kafka's clients count it as retriable. A replica is asked again while its
broker may still be starting or taking part in a failover; a disk that has failed stays so until the broker restarts.

What breaks on the network (no connection, no answer in time, bytes that are no answer) passes in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

PASSES_AT_THE_CONTROLLER: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.not_controller: "another controller is active, or none yet",
        ErrorCode.request_timed_out: "the controller's quorum did not commit in time",
        ErrorCode.network_exception: "the broker lost its connection to the controller",
        ErrorCode.coordinator_load_in_progress: "the answering node is still loading its state",
        ErrorCode.coordinator_not_available: "the answering node is still starting",
        ErrorCode.not_coordinator: "the answering node has just been replaced",
        ErrorCode.throttling_quota_exceeded: "a quota is exhausted for now",
    }
)
"""The errors of ElectLeaders that pass, and what they mean."""

LEAVES_IN_DOUBT: Final = frozenset({ErrorCode.request_timed_out, ErrorCode.network_exception})
"""Of these, the errors after which the election may still take effect, or may have."""

PASSES_AT_A_REPLICA: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        **PASSES_AT_THE_CONTROLLER,
        ErrorCode.unknown_topic_or_partition: "the broker has not read the topic's metadata yet",
        ErrorCode.unknown_topic_id: "the broker has not read the topic's metadata yet",
        ErrorCode.inconsistent_topic_id: "the broker still has a deleted topic of that name",
        ErrorCode.not_leader_or_follower: "the broker has not read the partition's assignment yet",
        ErrorCode.replica_not_available: "the broker has not opened the replica yet",
        ErrorCode.leader_not_available: "the broker has not read the partition's state yet",
    }
)
"""The errors of GetReplicaLogInfo that pass, and what they mean."""
