"""Reads the records of a partition's log from a broker's directory: what was sent, and the markers of transactions.

    records = list(read_records(1, data / "log-0"))

Batches that are torn or corrupt hold no records, as for nodes/observe/log_batches.py. A control record's key is its
version and its type, two numbers of sixteen bits each: type 0 aborts, 1 commits (KIP-98, "Control Messages").

What may live here: the way from files to LoggedRecord. What may not: what a marker means for a history.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from harness.model.records.logged_record import LoggedRecord, Marker
from nodes.observe.log_batches import producer_of, split
from nodes.wire.batches import BatchHead, Record, heads, is_intact, records

_CONTROL_KEY = struct.Struct(">hh")
_MARKERS: dict[int, Marker] = {0: "abort", 1: "commit"}


def read_records(node: int, folder: Path) -> Iterator[LoggedRecord]:
    """The records in one partition's folder, in order; none without a folder.

    Raises OSError where a file cannot be read, PeerFailure where a batch is compressed.
    """
    topic, partition = split(folder)
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for head in heads(data):
            if is_intact(data, head):
                producer_id, epoch, _ = producer_of(data, head)
                for offset, record in enumerate(records(data, head), head.base_offset):
                    yield LoggedRecord(node, topic, partition, offset, producer_id, epoch, *_content(head, record))


def _content(head: BatchHead, record: Record) -> tuple[Marker | None, str | None]:
    """The marker or the value; a control record of another type is neither."""
    if head.is_control:
        kind = _CONTROL_KEY.unpack_from(record.key)[1] if record.key else None
        return _MARKERS.get(kind) if kind is not None else None, None
    return None, None if record.value is None else record.value.decode(errors="replace")
