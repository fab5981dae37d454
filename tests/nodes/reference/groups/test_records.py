"""The records of the offsets' topic: what is written is what is read, and its keys and values are Kafka's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.reference.core.groups.messages import CommittedOffset, MemberFacts
from nodes.reference.core.groups.records import (
    GroupEntry,
    OffsetEntry,
    StoredGroup,
    StoredMember,
    group_record,
    offset_record,
    parsed,
)
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.wire.batches import Record

NAMES = st.text(max_size=20).filter(lambda text: text.isprintable())
INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1)
OFFSETS = st.builds(CommittedOffset, INT64, INT32, NAMES, INT64)


@st.composite
def stored_groups(draw: st.DrawFn) -> StoredGroup:
    protocol = draw(NAMES)
    subscriptions = st.binary(max_size=20).map(lambda data: ((protocol, data),))
    facts = st.builds(MemberFacts, NAMES, NAMES, INT32, INT32, subscriptions)
    members = st.dictionaries(NAMES, st.builds(StoredMember, facts, st.binary(max_size=20)), max_size=3)
    return StoredGroup(draw(NAMES), draw(INT32), protocol, draw(st.none() | NAMES), draw(members), draw(INT64))


@given(NAMES, NAMES, INT32, st.none() | OFFSETS)
def test_an_offset_is_read_as_it_was_written(
    group: str, topic: str, number: int, committed: CommittedOffset | None
) -> None:
    partition = TopicPartition(topic, number)
    assert parsed(offset_record(group, partition, committed)) == OffsetEntry(group, partition, committed)


@given(NAMES, st.none() | stored_groups())
def test_a_group_is_read_as_it_was_written(group: str, stored: StoredGroup | None) -> None:
    assert parsed(group_record(group, stored)) == GroupEntry(group, stored)


def test_the_bytes_are_those_of_kafkas_schemas() -> None:
    committed = CommittedOffset(7, leader_epoch=2, metadata="m", commit_ms=9)
    assert offset_record("g", TopicPartition("t", 3), committed) == Record(
        bytes.fromhex("0001 0001") + b"g" + bytes.fromhex("0001") + b"t" + bytes.fromhex("00000003"),
        bytes.fromhex("0003 0000000000000007 00000002 0001") + b"m" + bytes.fromhex("0000000000000009"),
    )
    assert group_record("g", StoredGroup("consumer", 4)) == Record(
        bytes.fromhex("0002 0001") + b"g",
        bytes.fromhex("0003 0008") + b"consumer" + bytes.fromhex("00000004 ffff ffff ffffffffffffffff 00000000"),
    )


def test_what_is_not_known_is_left_out_or_named() -> None:
    assert parsed(Record(b"\0\x09", b"")) is None
    with pytest.raises(ValueError, match="expected version 3, found 9"):
        parsed(Record(b"\0\2\0\1g", b"\0\x09"))
    with pytest.raises(EOFError, match="expected 8 bytes, found 1"):
        parsed(Record(b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\3\0"))
