"""Conversion of FetchSnapshot (KIP-630) between kio's entities and the core's messages, for all wire versions.

Contains pure functions, as nodes.reference.translate does for the other requests of the quorum.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import NO_NODE, FetchSnapshotRequest, FetchSnapshotResponse, SnapshotId

TOPIC = "__cluster_metadata"

Values = dict[str, Any]


def request_values(request: FetchSnapshotRequest) -> Values:
    """The values of a request to the leader."""
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "snapshot_id": id_values(request.snapshot_id),
        "position": request.position,
        "replica_directory_id": request.directory_id,
    }
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica_id,
        "max_bytes": request.max_bytes,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


def request_of(request: Any, partition: Any) -> FetchSnapshotRequest:
    """The core's message for a follower's request."""
    return FetchSnapshotRequest(
        request.cluster_id,
        request.replica_id,
        partition.current_leader_epoch,
        id_of(partition.snapshot_id),
        partition.position,
        request.max_bytes,
        getattr(partition, "replica_directory_id", None),
    )


def response_values(response: FetchSnapshotResponse, error_values: Values) -> Values:
    """The values of a response, apart from the leader's endpoint; error_values are those of one without partitions."""
    if response.error is ErrorCode.inconsistent_cluster_id:
        return error_values
    partition = {
        "index": 0,
        "error_code": response.error,
        "snapshot_id": id_values(response.snapshot_id),
        "current_leader": {"leader_id": response.leader_id, "leader_epoch": response.epoch},
        "size": response.size,
        "position": response.position,
        "unaligned_records": response.data,
    }
    topic = {"name": TOPIC, "partitions": [partition]}
    return {"throttle_time": 0, "error_code": ErrorCode.none, "topics": [topic]}


def response_of(response: Any, partition: Any) -> FetchSnapshotResponse:
    """The core's message for the leader's response; partition is None if it has none."""
    if partition is None:
        error = response.error_code or ErrorCode.unknown_server_error
        return FetchSnapshotResponse(error, NO_NODE, 0, SnapshotId(0, 0))
    leader, records = partition.current_leader, partition.unaligned_records
    return FetchSnapshotResponse(
        partition.error_code,
        leader.leader_id,
        leader.leader_epoch,
        id_of(partition.snapshot_id),
        partition.size,
        partition.position,
        b"" if records is None else bytes(records),
    )


def id_values(snapshot_id: SnapshotId) -> Values:
    """The values of a snapshot's id."""
    return {"end_offset": snapshot_id.end_offset, "epoch": snapshot_id.epoch}


def id_of(values: Any) -> SnapshotId:
    """The id of a snapshot in a request or a response."""
    return SnapshotId(int(values.end_offset), int(values.epoch))
