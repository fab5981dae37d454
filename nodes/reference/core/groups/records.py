"""The records of the topic __consumer_offsets, in Kafka's format: a group's members, and its committed offsets.

    offset_record("g", TopicPartition("t", 0), CommittedOffset(5))
    group_record("g", StoredGroup(…))       # None in place of the group: it is deleted
    parsed(record)                          # what a record says; None for one of a kind that is not known

Contains pure functions. The newest record of each key counts. Sources: Kafka's GroupMetadataKey v2, GroupMetadataValue
v3, OffsetCommitKey v1, OffsetCommitValue v3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO

from nodes.reference.core.groups.messages import CommittedOffset, MemberFacts
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.wire.batches import Record

_OFFSET_KEYS, _GROUP_KEY = (0, 1), 2
_VALUE_VERSION = 3


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member, its subscription (by the group's protocol) and its assignment."""

    facts: MemberFacts
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation of a group."""

    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    members: Mapping[str, StoredMember] = field(default_factory=dict)
    changed_ms: int = -1


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """A record says that a group has this offset committed, or no longer any."""

    group: str
    partition: TopicPartition
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A record says what a group is, or that it is deleted."""

    group: str
    stored: StoredGroup | None


def offset_record(group: str, partition: TopicPartition, committed: CommittedOffset | None) -> Record:
    """The record of a committed offset."""
    key = _short(1) + _string(group) + _string(partition.topic) + _int(partition.partition)
    if committed is None:
        return Record(key, None)
    head = _short(_VALUE_VERSION) + _long(committed.offset) + _int(committed.leader_epoch)
    return Record(key, head + _string(committed.metadata) + _long(committed.commit_ms))


def group_record(group: str, stored: StoredGroup | None) -> Record:
    """The record of a group."""
    key = _short(_GROUP_KEY) + _string(group)
    if stored is None:
        return Record(key, None)
    members = [_member(member_id, each, stored.protocol) for member_id, each in stored.members.items()]
    head = _short(_VALUE_VERSION) + _string(stored.protocol_type) + _int(stored.generation)
    head += _string(stored.protocol) + _string(stored.leader) + _long(stored.changed_ms)
    return Record(key, head + _int(len(members)) + b"".join(members))


def _member(member_id: str, member: StoredMember, protocol: str | None) -> bytes:
    facts = member.facts
    names = _string(member_id) + _string(facts.instance) + _string(facts.client_id) + _string(facts.client_host)
    timeouts = _int(facts.rebalance_timeout_ms) + _int(facts.session_timeout_ms)
    return names + timeouts + _bytes(dict(facts.protocols).get(protocol or "", b"")) + _bytes(member.assignment)


def parsed(record: Record) -> OffsetEntry | GroupEntry | None:
    """What a record says. Raises ValueError for a value of another version, and EOFError for one that is cut off."""
    key = _Reader(record.key or b"")
    kind = key.int16()
    if kind in _OFFSET_KEYS:
        group, partition = key.text(), TopicPartition(key.text(), key.int32())
        return OffsetEntry(group, partition, None if record.value is None else _parsed_offset(_Reader(record.value)))
    if kind == _GROUP_KEY:
        return GroupEntry(key.text(), None if record.value is None else _parsed_group(_Reader(record.value)))
    return None


def _parsed_offset(value: _Reader) -> CommittedOffset:
    value.expect_version()
    return CommittedOffset(value.int64(), value.int32(), value.text(), value.int64())


def _parsed_group(value: _Reader) -> StoredGroup:
    value.expect_version()
    protocol_type, generation, protocol = value.text(), value.int32(), value.string()
    leader, changed_ms = value.string(), value.int64()
    members = dict(_parsed_member(value, protocol or "") for _ in range(value.int32()))
    return StoredGroup(protocol_type, generation, protocol, leader, members, changed_ms)


def _parsed_member(value: _Reader, protocol: str) -> tuple[str, StoredMember]:
    member_id, instance, client_id, client_host = value.text(), value.string(), value.text(), value.text()
    rebalance_timeout_ms, session_timeout_ms = value.int32(), value.int32()
    protocols = ((protocol, value.blob()),)
    facts = MemberFacts(client_id, client_host, session_timeout_ms, rebalance_timeout_ms, protocols, instance)
    return member_id, StoredMember(facts, value.blob())


def _short(number: int) -> bytes:
    return struct.pack(">h", number)


def _int(number: int) -> bytes:
    return struct.pack(">i", number)


def _long(number: int) -> bytes:
    return struct.pack(">q", number)


def _string(text: str | None) -> bytes:
    if text is None:
        return _short(-1)
    data = text.encode()
    return _short(len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _int(len(data)) + data


class _Reader:
    """Reads the fields of a key or a value in their order."""

    def __init__(self, data: bytes) -> None:
        self._data = BytesIO(data)

    def expect_version(self) -> None:
        version = self.int16()
        if version != _VALUE_VERSION:
            raise ValueError(f"a record of the offsets' topic: expected version {_VALUE_VERSION}, found {version}")

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def int64(self) -> int:
        return int(struct.unpack(">q", self._take(8))[0])

    def string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode()

    def text(self) -> str:
        return self.string() or ""

    def blob(self) -> bytes:
        return self._take(self.int32())

    def _take(self, length: int) -> bytes:
        data = self._data.read(length)
        if len(data) != length:
            raise EOFError(f"a record of the offsets' topic: expected {length} bytes, found {len(data)}")
        return data
