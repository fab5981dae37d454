"""The group coordinator of one broker: takes events and a time, returns effects.

A group belongs to one partition of the offsets' topic, whose leader coordinates it. What is to survive that leader, the
members of each generation and the committed offsets, are records of the partition: `Elected` brings them back.

Contains the committed offsets, and which requests are for which group. What a group does is in group.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups.context import NEVER_MS, Context
from nodes.reference.core.groups.events import Appended, Arrived, Effect, Elected, Event, RequestId, Resigned
from nodes.reference.core.groups.group import EMPTY, Group
from nodes.reference.core.groups.messages import (
    CommitOffsets,
    CommitResponse,
    CommittedOffset,
    DeleteGroup,
    DescribeGroup,
    Ended,
    FetchOffsets,
    GroupDescription,
    GroupList,
    GroupState,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    LeaveResponse,
    ListGroups,
    OffsetsResponse,
    Request,
    Response,
    SyncGroup,
    SyncResponse,
)
from nodes.reference.core.groups.records import (
    GroupEntry,
    OffsetEntry,
    StoredGroup,
    group_record,
    offset_record,
    parsed,
)
from nodes.reference.core.groups.settings import GroupSettings
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.wire.batches import Record

_JAVA_HASH_FACTOR: Final = 31


def partition_of(group: str, partitions: int) -> int:
    """The partition of a group: Java's hash of its name, as Kafka's clients and tools expect."""
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        hashed = (hashed * _JAVA_HASH_FACTOR + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


@dataclass(slots=True)
class _Coordinated:
    """What one partition of the offsets' topic has: groups, and the committed offsets of each."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)


class GroupCoordinator:
    """The groups whose partitions one broker leads. new_id returns a text that no other call returns."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str], now_ms: int) -> None:
        self._settings = settings
        self._context = Context(settings, new_id, now_ms)
        self._partitions: dict[int, _Coordinated] = {}
        self._count = settings.partitions  # of the offsets' topic, which may have others than it would get now

    @property
    def deadline_ms(self) -> int:
        """When to pass Tick if there is no event before."""
        return min((each.deadline_ms for each in self._groups()), default=NEVER_MS)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; the caller carries out the returned effects in order."""
        self._context.now_ms = max(now_ms, self._context.now_ms)
        match event:
            case Elected(partition, partitions, records):
                self._count = partitions
                self._resign(partition)
                self._partitions[partition] = self._loaded(partition, records)
            case Resigned(partition):
                self._resign(partition)
            case Appended(append_id, error):
                self._context.appended(append_id, error)
            case Arrived(request_id, ListGroups()):
                described = tuple(each.description() for each in self._groups())
                self._context.reply(request_id, GroupList(ErrorCode.none, described))
            case Arrived(request_id, request):
                self._arrived(request_id, request)
        for group in list(self._groups()):
            if group.deadline_ms <= self._context.now_ms:
                group.expire()
        return self._context.take_effects()

    def _groups(self) -> Iterable[Group]:
        return (group for each in self._partitions.values() for group in each.groups.values())

    def _loaded(self, partition: int, records: Iterable[Record]) -> _Coordinated:
        """What a partition's records say, the later ones before the earlier."""
        loaded, stored = _Coordinated(), dict[str, StoredGroup]()
        for record in records:
            match parsed(record):
                case GroupEntry(group, None):
                    stored.pop(group, None)
                case GroupEntry(group, StoredGroup() as found):
                    stored[group] = found
                case OffsetEntry(group, of_partition, None):
                    loaded.offsets.get(group, {}).pop(of_partition, None)
                case OffsetEntry(group, of_partition, CommittedOffset() as committed):
                    loaded.offsets.setdefault(group, {})[of_partition] = committed
        loaded.offsets = {name: offsets for name, offsets in loaded.offsets.items() if offsets}
        for name in {**stored, **loaded.offsets}:
            loaded.groups[name] = Group(self._context, partition, name, stored.get(name))
        return loaded

    def _resign(self, partition: int) -> None:
        """Forget a partition's groups; waiting members go to the next coordinator."""
        left = self._partitions.pop(partition, _Coordinated())
        for group in left.groups.values():
            group.end(ErrorCode.not_coordinator)

    def _arrived(self, request_id: RequestId, request: Request) -> None:
        """Handle a request about one group."""
        name = _group_of(request)
        partition = partition_of(name, self._count)
        here = self._partitions.get(partition)
        if here is None:
            self._context.reply(request_id, failed(request, ErrorCode.not_coordinator))
            return
        group = here.groups.get(name)
        match request:
            case JoinGroup():
                self._join(request_id, request, partition, here)
            case CommitOffsets():
                self._commit(request_id, request, partition, here)
            case FetchOffsets(_, partitions):
                committed = here.offsets.get(name, {})
                asked = committed if partitions is None else partitions
                self._context.reply(
                    request_id, OffsetsResponse(ErrorCode.none, {each: committed.get(each) for each in asked})
                )
            case DescribeGroup():
                missing = GroupDescription(ErrorCode.none, name, GroupState.DEAD)
                self._context.reply(request_id, group.description() if group else missing)
            case DeleteGroup():
                self._delete(request_id, name, partition, here)
            case _ if group is None:
                self._context.reply(request_id, failed(request, ErrorCode.unknown_member_id))
            case SyncGroup():
                group.sync(request_id, request)
            case Heartbeat():
                self._context.reply(request_id, group.heartbeat(request))
            case LeaveGroup():
                self._context.reply(request_id, group.leave(request))

    def _join(self, request_id: RequestId, request: JoinGroup, partition: int, here: _Coordinated) -> None:
        shortest_ms, longest_ms = self._settings.session_timeout_min_ms, self._settings.session_timeout_max_ms
        error = ErrorCode.none
        if not request.group:
            error = ErrorCode.invalid_group_id
        elif not shortest_ms <= request.facts.session_timeout_ms <= longest_ms:
            error = ErrorCode.invalid_session_timeout
        elif request.group not in here.groups and request.member_id:
            error = ErrorCode.unknown_member_id
        if error is not ErrorCode.none:
            self._context.reply(request_id, failed(request, error))
            return
        group = here.groups.setdefault(request.group, Group(self._context, partition, request.group))
        group.join(request_id, request)

    def _commit(self, request_id: RequestId, request: CommitOffsets, partition: int, here: _Coordinated) -> None:
        """Store offsets; they are committed when their records are, and the client is told then."""
        membership, name = request.membership, request.membership.group
        group = here.groups.get(name)
        if group is None:
            error = ErrorCode.none if membership.generation < 0 else ErrorCode.illegal_generation
        else:
            error = group.may_commit(membership)
        if error is not ErrorCode.none:
            self._context.reply(request_id, failed(request, error))
            return
        errors = {each: self._why_invalid(committed) for each, committed in request.offsets.items()}
        valid = {each: request.offsets[each] for each, error in errors.items() if error is ErrorCode.none}

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                here.offsets.setdefault(name, {}).update(valid)
            results = {each: error if each in valid else errors[each] for each in errors}
            self._context.reply(request_id, CommitResponse(results))

        if not valid:
            self._context.reply(request_id, CommitResponse(errors))
            return
        here.groups.setdefault(name, Group(self._context, partition, name))
        records = tuple(offset_record(name, each, committed) for each, committed in valid.items())
        self._context.append(partition, records, stored)

    def _why_invalid(self, committed: CommittedOffset) -> ErrorCode:
        is_too_large = len(committed.metadata) > self._settings.metadata_bytes_max
        return ErrorCode.offset_metadata_too_large if is_too_large else ErrorCode.none

    def _delete(self, request_id: RequestId, name: str, partition: int, here: _Coordinated) -> None:
        """Delete a group and its offsets."""
        group = here.groups.get(name)
        if group is None or group.state is not EMPTY:
            error = ErrorCode.group_id_not_found if group is None else ErrorCode.non_empty_group
            self._context.reply(request_id, Ended(error))
            return
        records = [offset_record(name, each, None) for each in here.offsets.get(name, {})]

        def deleted(error: ErrorCode) -> None:
            if error is ErrorCode.none and here.groups.get(name) is group and group.state is EMPTY:
                group.end(ErrorCode.coordinator_not_available)
                del here.groups[name]
                here.offsets.pop(name, None)
            self._context.reply(request_id, Ended(error))

        self._context.append(partition, (*records, group_record(name, None)), deleted)


def _group_of(request: Request) -> str:
    match request:
        case SyncGroup(membership) | Heartbeat(membership) | CommitOffsets(membership):
            return membership.group
        case ListGroups():
            raise AssertionError("ListGroups is about no group")
    return request.group


def failed(request: Request, error: ErrorCode) -> Response:
    """The response to a request of which all fails."""
    match request:
        case JoinGroup():
            return JoinResponse(error, request.member_id)
        case SyncGroup():
            return SyncResponse(error)
        case LeaveGroup(_, members):
            is_member_unknown = error is ErrorCode.unknown_member_id
            return LeaveResponse(
                ErrorCode.none if is_member_unknown else error, tuple((each, error) for each in members)
            )
        case CommitOffsets(_, offsets):
            return CommitResponse(dict.fromkeys(offsets, error))
        case FetchOffsets():
            return OffsetsResponse(error)
        case DescribeGroup(group):
            return GroupDescription(error, group)
        case ListGroups():
            return GroupList(error)
    return Ended(error)
