"""The APIs of consumer groups on the wire.

    requests = incoming(frame, client_host, image, wall_ms)        # one for each group that the request is about
    values = outgoing(frame, [(request, response), …])

Contains pure functions between kio's entities and nodes.reference.core.groups.messages, and the way from a group to its
coordinator's address. Offsets of partitions that do not exist are refused before they reach the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups import messages
from nodes.reference.core.groups.coordinator import partition_of
from nodes.reference.core.groups.settings import OFFSETS_TOPIC
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.reference.core.records.image import Image
from nodes.wire import codec

Values = dict[str, Any]
Exchange = tuple[messages.Request, messages.Response]

SERVED: Mapping[int, range] = {
    codec.FIND_COORDINATOR: range(7),
    codec.JOIN_GROUP: range(10),
    codec.SYNC_GROUP: range(6),
    codec.HEARTBEAT: range(5),
    codec.LEAVE_GROUP: range(6),
    codec.OFFSET_COMMIT: range(2, 10),
    codec.OFFSET_FETCH: range(1, 9),
    codec.DESCRIBE_GROUPS: range(6),
    codec.LIST_GROUPS: range(6),
    codec.DELETE_GROUPS: range(3),
}
"""The supported versions by API key."""

KEYED_FROM, GROUPED_FROM, KNOWN_IDS_FROM, SKIPPING_FROM, NAMED_FROM = 4, 8, 4, 9, 3
"""The first version of FindCoordinator with several keys, of OffsetFetch with several groups, of JoinGroup whose new
members get an id first (KIP-394), of JoinGroup whose leader may skip the assignment (KIP-814), of LeaveGroup with
several members."""

CLASSIC = "classic"
_OF_GROUPS = 0
_UNKNOWN_OPERATIONS = -(1 << 31)
_ERROR_OF_PARTITION_UNTIL = 1
"""OffsetFetch has no error of all partitions up to this version."""


def coordinators(request: Any, image: Image, listener: str) -> Values:
    """The response to FindCoordinator: the leaders of the groups' partitions, with their addresses on the listener."""
    is_of_groups = getattr(request, "key_type", _OF_GROUPS) == _OF_GROUPS
    keys = request.coordinator_keys if request.__version__ >= KEYED_FROM else (request.key,)
    found = [_coordinator(key, image, listener) if is_of_groups else _no_coordinator(key) for key in keys]
    return {"throttle_time": 0, "coordinators": found, **(found[0] if found else {})}


def _coordinator(group: str, image: Image, listener: str) -> Values:
    topic = image.topics.get(OFFSETS_TOPIC)
    leader = topic.partitions[partition_of(group, len(topic.partitions))].leader if topic else -1
    broker = image.brokers.get(leader)
    for endpoint in broker.endpoints if broker is not None and not broker.is_fenced else ():
        if endpoint.name == listener:
            address = {"node_id": leader, "host": endpoint.host, "port": endpoint.port}
            return {"key": group, **address, "error_code": ErrorCode.none, "error_message": None}
    return _no_coordinator(group)


def _no_coordinator(key: str) -> Values:
    """Transactions have no coordinator here, and groups have none while their partition has no leader."""
    missing = {"node_id": -1, "host": "", "port": -1, "error_message": None}
    return {"key": key, **missing, "error_code": ErrorCode.coordinator_not_available}


def incoming(frame: codec.RequestFrame, client_host: str, image: Image, wall_ms: int) -> Sequence[messages.Request]:
    """The core's messages for a request, one for each group."""
    request = frame.request
    match frame.api_key:
        case codec.JOIN_GROUP:
            return [_join(request, frame.client_id or "", client_host)]
        case codec.SYNC_GROUP:
            assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
            return [messages.SyncGroup(_membership(request), assignments)]
        case codec.HEARTBEAT:
            return [messages.Heartbeat(_membership(request))]
        case codec.LEAVE_GROUP:
            named = request.members if _has_members(request) else (request,)
            leavers = tuple(messages.Leaver(each.member_id, _instance(each)) for each in named)
            return [messages.LeaveGroup(request.group_id, leavers)]
        case codec.OFFSET_COMMIT:
            return [_commit(request, image, wall_ms)]
        case codec.OFFSET_FETCH:
            return [_fetch(each) for each in (request.groups if _has_groups(request) else (request,))]
        case codec.DESCRIBE_GROUPS:
            return [messages.DescribeGroup(group) for group in request.groups]
        case codec.LIST_GROUPS:
            return [messages.ListGroups()]
        case codec.DELETE_GROUPS:
            return [messages.DeleteGroup(group) for group in request.groups_names]
    raise AssertionError(f"API {frame.api_key} is not one of groups")


def outgoing(frame: codec.RequestFrame, exchanges: Sequence[Exchange]) -> Values:
    """The values of the response, for all versions."""
    request = frame.request
    match frame.api_key:
        case codec.OFFSET_COMMIT:
            return _unthrottled(topics=_committed(request, exchanges[0][1]))
        case codec.OFFSET_FETCH:
            found = [_fetched(each, response, request.__version__) for each, response in exchanges]
            return _unthrottled(groups=found, **(found[0] if found else {}))
        case codec.DESCRIBE_GROUPS:
            return _unthrottled(groups=[_described(response) for _, response in exchanges])
        case codec.LIST_GROUPS:
            return _listed(request, exchanges[0][1])
        case codec.DELETE_GROUPS:
            results = [{"group_id": _name(each), "error_code": _error(response)} for each, response in exchanges]
            return _unthrottled(results=results)
    match exchanges[0][1]:
        case messages.JoinResponse() as joined:
            return _joined(joined, request.__version__)
        case messages.SyncResponse(error, protocol_type, protocol, assignment):
            about = {"protocol_type": protocol_type, "protocol_name": protocol}
            return _unthrottled(error_code=error, assignment=assignment, **about)
        case messages.LeaveResponse() as left:
            return _left(left, _has_members(request))
        case messages.Ended(error):
            return _unthrottled(error_code=error)
    raise AssertionError(f"a response to API {frame.api_key}")


def _unthrottled(**values: Any) -> Values:
    return {"throttle_time": 0, **values}


def _has_members(request: Any) -> bool:
    return bool(request.__version__ >= NAMED_FROM)


def _has_groups(request: Any) -> bool:
    return bool(request.__version__ >= GROUPED_FROM)


def _milliseconds(span: Any) -> int:
    return int(span.total_seconds() * 1000)


def _membership(request: Any) -> messages.Membership:
    return messages.Membership(
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
        _instance(request),
    )


def _instance(request: Any) -> str | None:
    """The name of a static member (KIP-345)."""
    name: str | None = getattr(request, "group_instance_id", None)
    return name


def _join(request: Any, client_id: str, client_host: str) -> messages.JoinGroup:
    facts = messages.MemberFacts(
        client_id,
        client_host,
        _milliseconds(request.session_timeout),
        _milliseconds(getattr(request, "rebalance_timeout", request.session_timeout)),
        tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        _instance(request),
    )
    version = request.__version__
    knows = version >= KNOWN_IDS_FROM, version >= SKIPPING_FROM
    return messages.JoinGroup(request.group_id, request.member_id, request.protocol_type, facts, *knows)


def _joined(joined: messages.JoinResponse, version: int) -> Values:
    is_protocol_needed = version < _NULLABLE_PROTOCOL_FROM
    return _unthrottled(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol or ("" if is_protocol_needed else None),
        leader=joined.leader,
        member_id=joined.member_id,
        skip_assignment=joined.skips_assignment,
        members=[
            {"member_id": each, "group_instance_id": joined.instances.get(each), "metadata": data}
            for each, data in joined.members.items()
        ],
    )


_NULLABLE_PROTOCOL_FROM = 7


def _left(left: messages.LeaveResponse, has_members: bool) -> Values:
    """LeaveGroup's response; without members in it, the only member's error is that of all."""
    is_of_member = left.error is ErrorCode.none and not has_members
    error = left.results[0][1] if is_of_member else left.error
    members = [
        {"member_id": each.member_id, "group_instance_id": each.instance, "error_code": error_of_member}
        for each, error_of_member in left.results
    ]
    return _unthrottled(error_code=error, members=members)


def _commit(request: Any, image: Image, wall_ms: int) -> messages.CommitOffsets:
    offsets = {
        TopicPartition(topic.name, each.partition_index): messages.CommittedOffset(
            each.committed_offset,
            getattr(each, "committed_leader_epoch", -1),
            each.committed_metadata or "",
            wall_ms,
        )
        for topic in request.topics
        for each in topic.partitions
        if topic.name in image.topics and each.partition_index in image.topics[topic.name].partitions
    }
    generation = request.generation_id_or_member_epoch
    membership = messages.Membership(request.group_id, generation, request.member_id, instance=_instance(request))
    return messages.CommitOffsets(membership, offsets)


def _committed(request: Any, response: messages.Response) -> list[Values]:
    assert isinstance(response, messages.CommitResponse), "a response to OffsetCommit"
    missing = ErrorCode.unknown_topic_or_partition
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": each.partition_index,
                    "error_code": response.errors.get(TopicPartition(topic.name, each.partition_index), missing),
                }
                for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]


def _fetch(asked: Any) -> messages.FetchOffsets:
    if asked.topics is None:
        return messages.FetchOffsets(asked.group_id)
    named = (TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes)
    return messages.FetchOffsets(asked.group_id, tuple(named))


def _fetched(request: messages.Request, response: messages.Response, version: int) -> Values:
    assert isinstance(request, messages.FetchOffsets), "OffsetFetch"
    assert isinstance(response, messages.OffsetsResponse), "a response to OffsetFetch"
    of_partition = response.error if version <= _ERROR_OF_PARTITION_UNTIL else ErrorCode.none
    offsets = response.offsets
    if response.error is not ErrorCode.none and version <= _ERROR_OF_PARTITION_UNTIL:
        offsets = dict.fromkeys(request.partitions or (), None)
    topics = [
        {"name": topic, "partitions": [_position(index, committed, of_partition) for (_, index), committed in each_of]}
        for topic, each_of in groupby(sorted(offsets.items(), key=lambda item: item[0]), key=lambda item: item[0].topic)
    ]
    return {"group_id": request.group, "error_code": response.error, "topics": topics}


def _position(index: int, committed: messages.CommittedOffset | None, error: ErrorCode) -> Values:
    return {
        "partition_index": index,
        "committed_offset": committed.offset if committed else -1,
        "committed_leader_epoch": committed.leader_epoch if committed else -1,
        "metadata": committed.metadata if committed else "",
        "error_code": error,
    }


def _described(response: messages.Response) -> Values:
    assert isinstance(response, messages.GroupDescription), "a response to DescribeGroups"
    members = [
        {
            "member_id": each.member_id,
            "group_instance_id": each.facts.instance,
            "client_id": each.facts.client_id,
            "client_host": each.facts.client_host,
            "member_metadata": each.subscription,
            "member_assignment": each.assignment,
        }
        for each in response.members
    ]
    return {
        "error_code": response.error,
        "group_id": response.group,
        "group_state": response.state or "",
        "protocol_type": response.protocol_type,
        "protocol_data": response.protocol,
        "members": members,
        "authorized_operations": _UNKNOWN_OPERATIONS,
    }


def _listed(request: Any, response: messages.Response) -> Values:
    """ListGroups' response: the groups of the states and types that are asked for, all of them if none is named."""
    assert isinstance(response, messages.GroupList), "a response to ListGroups"
    states, types = (_lower(getattr(request, name, ())) for name in ("states_filter", "types_filter"))
    is_of_type = not types or CLASSIC in types
    groups = [
        {
            "group_id": each.group,
            "protocol_type": each.protocol_type,
            "group_state": each.state or "",
            "group_type": CLASSIC,
        }
        for each in response.groups
        if is_of_type and (not states or (each.state or "").lower() in states)
    ]
    return _unthrottled(error_code=response.error, groups=groups)


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _name(request: messages.Request) -> str:
    assert isinstance(request, messages.DeleteGroup), "DeleteGroups"
    return request.group


def _error(response: messages.Response) -> ErrorCode:
    assert isinstance(response, messages.Ended), "a response to DeleteGroups"
    return response.error
