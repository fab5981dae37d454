"""Reads the records of a partition's log from a broker's directory: data records and transaction markers.

    records = list(read_records(1, data / "log-0"))

Torn and corrupt batches are ignored, as in log_batches.py. A control record's key is its version and its type, 16 bits
each: type 0 is an abort marker, type 1 a commit marker (KIP-98, "Control Messages").

Contains the parser. The meaning of a marker for a history is up to the checks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from harness.model.records.logged_record import LoggedRecord, Marker
from nodes.observe.log_batches import producer_of, topic_partition_of
from nodes.wire.batches import BatchHead, Record, heads_of_any_format, is_intact, records

_CONTROL_KEY = struct.Struct(">hh")
_MARKERS: dict[int, Marker] = {0: "abort", 1: "commit"}


def read_records(node: int, folder: Path) -> Iterator[LoggedRecord]:
    """The records in a partition's folder, in order; empty without a folder.

    Raises OSError if a file cannot be read, PeerFailure if a batch is compressed.
    """
    topic, partition = topic_partition_of(folder)
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for head in heads_of_any_format(data):
            if is_intact(data, head):
                producer_id, epoch, _ = producer_of(data, head)
                for offset, record in enumerate(records(data, head), head.base_offset):
                    yield LoggedRecord(node, topic, partition, offset, producer_id, epoch, *_content(head, record))


def _content(head: BatchHead, record: Record) -> tuple[Marker | None, str | None]:
    """The marker or the value; both are None for a control record of another type."""
    if head.is_control:
        kind = _CONTROL_KEY.unpack_from(record.key)[1] if record.key else None
        return _MARKERS.get(kind) if kind is not None else None, None
    return None, None if record.value is None else record.value.decode(errors="replace")
