"""Conversion between kio's entities and the core's messages, for all wire versions.

Contains pure functions. Errors that exist only on the wire, such as an unknown topic, are handled here; all other
decisions are the core's.

`incoming` converts a client's or peer's request to the core's. `outgoing` returns the values of a response for all
versions; codec.build selects those of the request's version.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference import translate_snapshots
from nodes.reference.core.messages import (
    NO_NODE,
    Advertised,
    AlterRequest,
    BeginQuorumEpochRequest,
    Change,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DiscoverRequest,
    DiscoverResponse,
    EndQuorumEpochRequest,
    EpochEnd,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    NominateRequest,
    ReadRequest,
    ReassignRequest,
    ReassignResponse,
    ReplicaProgress,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.translate_snapshots import TOPIC
from nodes.wire import codec

TOPIC_ID = uuid.UUID(int=1)

Endpoints = Mapping[int, tuple[str, int]]
Values = dict[str, Any]

LISTENER = "CONTROLLER"


def peer_request(request: Request, endpoints: Endpoints) -> tuple[int, Values]:
    """The API key and values of a request to a peer."""
    match request:
        case VoteRequest():
            return codec.VOTE, _vote_values(request)
        case BeginQuorumEpochRequest():
            partition = {**_leader(request.leader_id, request.epoch), "voter_directory_id": request.voter_directory_id}
            values = _topics(partition) | _leader_endpoints(request.leader_id, endpoints)
            return codec.BEGIN_QUORUM_EPOCH, values | {"cluster_id": request.cluster_id}
        case EndQuorumEpochRequest():
            return codec.END_QUORUM_EPOCH, _end_values(request, endpoints)
        case FetchRequest():
            return codec.FETCH, _fetch_values(request)
        case FetchSnapshotRequest():
            return codec.FETCH_SNAPSHOT, translate_snapshots.request_values(request)
        case NominateRequest():
            values = _topics({"replica_id": request.node_id, "leader_epoch": request.epoch})
            return codec.NOMINATE_VOTER, values | {"cluster_id": request.cluster_id}
    raise AssertionError(f"{type(request).__name__} is not sent to peers")


def peer_response(response: Any) -> Response:
    """The core's message for a peer's response."""
    if response.__api_key__ == codec.FETCH:
        return _fetch_response(response)
    partition = _only_partition(response.topics)
    if response.__api_key__ == codec.FETCH_SNAPSHOT:
        return translate_snapshots.response_of(response, partition)
    error = response.error_code if partition is None else partition.error_code
    leader_id, epoch = (NO_NODE, 0) if partition is None else (partition.leader_id, partition.leader_epoch)
    if response.__api_key__ == codec.VOTE:
        return VoteResponse(error, leader_id, epoch, partition is not None and partition.vote_granted)
    return EpochResponse(error, leader_id, epoch)


def incoming(api_key: int, request: Any) -> Request | None:
    """The core's message for a request; None if it is not for the metadata partition."""
    match api_key:
        case codec.INCREMENTAL_ALTER_CONFIGS:
            return AlterRequest(tuple(change for resource in request.resources for change in _changes(resource)))
        case codec.DESCRIBE_CONFIGS:
            return ReadRequest(tuple(resource.resource_name for resource in request.resources))
        case codec.DISCOVER_BROKERS:
            return DiscoverRequest(
                request.cluster_id, _advertised(request.brokers), request.leader_id, request.leader_epoch
            )
    partition = _only_partition(request.topics)
    if partition is None:
        return None
    match api_key:
        case codec.VOTE:
            return VoteRequest(
                request.cluster_id,
                getattr(request, "voter_id", NO_NODE),
                partition.replica_id,
                partition.replica_epoch,
                partition.last_offset_epoch,
                partition.last_offset,
                getattr(partition, "pre_vote", False),
                getattr(partition, "replica_directory_id", None),
                getattr(partition, "voter_directory_id", None),
            )
        case codec.BEGIN_QUORUM_EPOCH:
            directory_id = getattr(partition, "voter_directory_id", None)
            return BeginQuorumEpochRequest(
                request.cluster_id, partition.leader_id, partition.leader_epoch, directory_id
            )
        case codec.END_QUORUM_EPOCH:
            successors = _successors(partition)
            return EndQuorumEpochRequest(request.cluster_id, partition.leader_id, partition.leader_epoch, successors)
        case codec.DESCRIBE_QUORUM:
            return DescribeQuorumRequest()
        case codec.NOMINATE_VOTER:
            return NominateRequest(request.cluster_id, partition.replica_id, partition.leader_epoch)
        case codec.FETCH:
            return _fetch_request(request, partition)
        case codec.FETCH_SNAPSHOT:
            return translate_snapshots.request_of(request, partition)
    raise AssertionError(f"API {api_key} is not handled by the core")


def outgoing(response: Response, endpoints: Endpoints) -> Values:
    """The values of a response to a peer or to DescribeQuorum, for all versions."""
    match response:
        case FetchResponse():
            return _fetch_response_values(response, endpoints)
        case FetchSnapshotResponse():
            values = translate_snapshots.response_values(response, error_response(response.error))
            return values | _node_endpoints(response.leader_id, endpoints)
        case DescribeQuorumResponse():
            return _describe_values(response, endpoints)
        case DiscoverResponse():
            return {
                "error_code": response.error,
                **_leader(response.leader_id, response.epoch),
                **_brokers(response.brokers),
            }
        case VoteResponse() | EpochResponse():
            if response.error is ErrorCode.inconsistent_cluster_id:
                return {"error_code": response.error, "topics": []}
            partition: Values = {"error_code": response.error, **_leader(response.leader_id, response.epoch)}
            if isinstance(response, VoteResponse):
                partition["vote_granted"] = response.granted
            return _topics(partition) | {"error_code": ErrorCode.none} | _node_endpoints(response.leader_id, endpoints)
    raise AssertionError(f"{type(response).__name__} is not a response to a peer")


def discover_request(request: DiscoverRequest) -> Values:
    """The values of a DiscoverBrokers request."""
    return {"cluster_id": request.cluster_id, **_leader(request.leader_id, request.epoch), **_brokers(request.brokers)}


def discover_response(response: Any) -> DiscoverResponse:
    """The core's message for a DiscoverBrokers response."""
    known = _advertised(response.brokers)
    return DiscoverResponse(response.error_code, known, response.leader_id, response.leader_epoch)


def quorum_reassignment(request: Any) -> ReassignRequest | None:
    """The core's message for AlterPartitionReassignments of the metadata partition; None for other partitions."""
    if len(request.topics) != 1 or request.topics[0].name != TOPIC or len(request.topics[0].partitions) != 1:
        return None
    (partition,) = request.topics[0].partitions
    voters = None if partition.replicas is None else tuple(map(int, partition.replicas))
    return ReassignRequest(voters, int(request.timeout.total_seconds() * 1000))


def reassigned(response: ReassignResponse) -> Values:
    """The values of the response to AlterPartitionReassignments of the metadata partition."""
    partition = {"partition_index": 0, "error_code": response.error, "error_message": response.reason}
    topics = [{"name": TOPIC, "partitions": [partition]}]
    return {"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "responses": topics}


def error_response(error: ErrorCode) -> Values:
    """The values of a response with a top-level error, for all requests of the quorum."""
    empty: Values = {"responses": [], "topics": [], "nodes": [], "error_message": None}
    return {"error_code": error, "throttle_time": 0} | empty


def _only_partition(topics: Any) -> Any:
    """The metadata partition, if it is the only partition of the only topic."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic = topics[0]
    name = next((getattr(topic, field) for field in ("topic_name", "topic", "name") if hasattr(topic, field)), None)
    is_metadata = name == TOPIC or getattr(topic, "topic_id", None) == TOPIC_ID
    partition = topic.partitions[0]
    indexes = [getattr(partition, field, None) for field in ("partition_index", "partition", "index")]
    return partition if is_metadata and 0 in indexes else None


def _topics(partition: Values) -> Values:
    return {"topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}]}


def _leader(leader_id: int, epoch: int) -> Values:
    return {"leader_id": leader_id, "leader_epoch": epoch}


def _node_endpoints(leader_id: int, endpoints: Endpoints) -> Values:
    if leader_id not in endpoints:
        return {"node_endpoints": []}
    host, port = endpoints[leader_id]
    return {"node_endpoints": [{"node_id": leader_id, "host": host, "port": port, "rack": None}]}


def _leader_endpoints(leader_id: int, endpoints: Endpoints) -> Values:
    host, port = endpoints[leader_id]
    return {"leader_endpoints": [{"name": LISTENER, "host": host, "port": port}]}


def _vote_values(request: VoteRequest) -> Values:
    partition = {
        "replica_epoch": request.replica_epoch,
        "replica_id": request.replica_id,
        "replica_directory_id": request.directory_id,
        "voter_directory_id": request.voter_directory_id,
        "last_offset_epoch": request.last_epoch,
        "last_offset": request.end_offset,
        "pre_vote": request.pre_vote,
    }
    return _topics(partition) | {"cluster_id": request.cluster_id, "voter_id": request.voter_id}


def _end_values(request: EndQuorumEpochRequest, endpoints: Endpoints) -> Values:
    candidates = [{"candidate_id": node, "candidate_directory_id": None} for node in request.successors]
    partition = _leader(request.leader_id, request.epoch)
    partition |= {"preferred_successors": request.successors, "preferred_candidates": candidates}
    values = _topics(partition) | _leader_endpoints(request.leader_id, endpoints)
    return values | {"cluster_id": request.cluster_id}


def _successors(partition: Any) -> tuple[int, ...]:
    if hasattr(partition, "preferred_successors"):
        return tuple(partition.preferred_successors)
    return tuple(candidate.candidate_id for candidate in partition.preferred_candidates)


def _fetch_values(request: FetchRequest) -> Values:
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.fetch_offset,
        "last_fetched_epoch": request.last_fetched_epoch,
        "partition_max_bytes": request.max_bytes,
        "high_watermark": request.high_watermark,
        "replica_directory_id": request.directory_id,
    }
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica_id,
        "replica_state": {"replica_id": request.replica_id},
        "max_wait": request.max_wait_ms,
        "min_bytes": 0,
        "max_bytes": request.max_bytes,
        "topics": [{"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }


def _fetch_request(request: Any, partition: Any) -> FetchRequest:
    replica_id = request.replica_state.replica_id if hasattr(request, "replica_state") else request.replica_id
    return FetchRequest(
        request.cluster_id,
        replica_id,
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        int(request.max_wait.total_seconds() * 1000),
        min(partition.partition_max_bytes, request.max_bytes),
        getattr(partition, "high_watermark", -1),
        getattr(partition, "replica_directory_id", None),
    )


def _fetch_response(response: Any) -> FetchResponse:
    partition = _only_partition(response.responses)
    if partition is None:
        return FetchResponse(response.error_code or ErrorCode.unknown_server_error, NO_NODE, 0)
    diverging = snapshot_id = None
    if partition.snapshot_id.end_offset >= 0:
        snapshot_id = translate_snapshots.id_of(partition.snapshot_id)
    if partition.diverging_epoch.epoch >= 0:
        diverging = EpochEnd(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
    leader, records = partition.current_leader, partition.records
    return FetchResponse(
        partition.error_code,
        leader.leader_id,
        leader.leader_epoch,
        partition.high_watermark,
        diverging,
        b"" if records is None else bytes(records),
        snapshot_id,
    )


def _fetch_response_values(response: FetchResponse, endpoints: Endpoints) -> Values:
    if response.error is ErrorCode.inconsistent_cluster_id:
        return error_response(response.error)
    partition = {
        "partition_index": 0,
        "error_code": response.error,
        "high_watermark": response.high_watermark,
        "log_start_offset": 0,
        "current_leader": _leader(response.leader_id, response.epoch),
        "aborted_transactions": None,
        "records": response.data,
    }
    if response.diverging is not None:
        diverging = response.diverging
        partition["diverging_epoch"] = {"epoch": diverging.epoch, "end_offset": diverging.end_offset}
    if response.snapshot_id is not None:
        partition["snapshot_id"] = translate_snapshots.id_values(response.snapshot_id)
    topic = {"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}
    values: Values = {"throttle_time": 0, "error_code": ErrorCode.none, "responses": [topic]}
    return values | _node_endpoints(response.leader_id, endpoints)


def _describe_values(response: DescribeQuorumResponse, endpoints: Endpoints) -> Values:
    partition = {
        "error_code": response.error,
        "error_message": None,
        **_leader(response.leader_id, response.epoch),
        "high_watermark": response.high_watermark,
        "current_voters": [_replica_values(replica) for replica in response.voters],
        "observers": [_replica_values(replica) for replica in response.observers],
        "target_voters": [_replica_values(replica) for replica in response.target or ()],
    }
    nodes = [
        {"node_id": node, "listeners": [{"name": LISTENER, "host": host, "port": port}]}
        for node, (host, port) in endpoints.items()
    ]
    is_leader = response.error is ErrorCode.none
    return _topics(partition) | {
        "error_code": ErrorCode.none,
        "error_message": None,
        "nodes": nodes if is_leader else [],
    }


def _brokers(brokers: Iterable[Advertised]) -> Values:
    return {
        "brokers": [
            {"node_id": each.node_id, "host": each.host, "port": each.port, "boot_timestamp": each.boot_ms}
            for each in brokers
        ]
    }


def _advertised(brokers: Iterable[Any]) -> tuple[Advertised, ...]:
    return tuple(Advertised(each.node_id, each.host, int(each.port), each.boot_timestamp) for each in brokers)


def _replica_values(replica: ReplicaProgress) -> Values:
    return {
        "replica_id": replica.replica_id,
        "replica_directory_id": replica.directory_id,
        "log_end_offset": replica.end_offset,
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
    }


def _changes(resource: Any) -> list[Change]:
    return [
        Change(resource.resource_name, config.name, None if config.config_operation == 1 else config.value)
        for config in resource.configs
    ]
