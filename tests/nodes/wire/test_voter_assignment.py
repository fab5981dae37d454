"""KIP-642's control record: its bytes, worked out by hand from the document's schema, and any voters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.wire.batches import Record
from nodes.wire.voter_assignment import AssignmentRecord, decode, encode

KEY = bytes.fromhex("0000 0282")
"""Version 0 of type 642."""

NODES = st.lists(st.integers(0, 2**31 - 1), max_size=9, unique=True).map(tuple)


@pytest.mark.parametrize(
    ("target", "last"),
    [
        (None, "00"),  # a null compact array
        ((4,), "02 00000004 00"),
        ((), "01"),
    ],
)
def test_bytes_are_those_of_the_schema(target: tuple[int, ...] | None, last: str) -> None:
    # A compact string, and two compact arrays whose elements are an int32 and no tagged fields; no tagged fields.
    value = bytes.fromhex(f"03 6331  03 00000001 00 0000012c 00  {last}  00")
    assert encode("c1", (1, 300), target) == Record(KEY, value)
    assert decode(Record(KEY, value)) == AssignmentRecord("c1", (1, 300), target)


@given(st.text(max_size=30), NODES, st.none() | NODES)
def test_any_voters_survive(cluster_id: str, current: tuple[int, ...], target: tuple[int, ...] | None) -> None:
    assert decode(encode(cluster_id, current, target)) == AssignmentRecord(cluster_id, current, target)


@pytest.mark.parametrize("key", [None, b"", bytes.fromhex("0000 0002"), bytes.fromhex("0001 0282")])
def test_record_of_another_type_is_none(key: bytes | None) -> None:
    assert decode(Record(key, encode("c1", (1,), None).value)) is None
