"""Reads which high watermarks a broker keeps on file, and the epoch of what lies right below each.

    read_high_watermarks(data)              # {("log", 0): 42}
    epoch_below(data, ("log", 0), 42)       # 3: the leader epoch of offset 41

A broker writes `replication-offset-checkpoint` every replica.high.watermark.checkpoint.interval.ms, and as it ends: a
version, the number of entries, and an entry a line: topic, partition and offset. The epoch is in the partition's own
leader-epoch-checkpoint, which has it before the record is there. That file is read later and may be newer; but below
the high watermark it never changes, unless what was committed is lost.

What may live here: the way from files to numbers. What may not: when to read them (watch.py), or what they prove.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodes.observe.log_batches import epoch_at, read_checkpoint

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
Place = tuple[str, int]
"""A topic and a partition."""


def read_high_watermarks(data: Path) -> dict[Place, int]:
    """The high watermarks of users' partitions in a node's data directory, where anything is committed.

    Nothing where there is no such file, or none that is whole and can be read.
    """
    try:
        version, count, *lines = (data / HIGH_WATERMARKS).read_text(errors="replace").split("\n")
        entries = [(topic, int(partition), int(mark)) for topic, partition, mark in map(str.split, filter(None, lines))]
    except (OSError, ValueError):
        return {}
    if (version, count) != ("0", str(len(entries))):
        return {}
    return {(topic, number): mark for topic, number, mark in entries if mark > 0 and not topic.startswith("__")}


def epoch_below(data: Path, place: Place, high_watermark: int) -> int | None:
    """The epoch of the last offset below a high watermark; None where the partition's own file does not tell it."""
    topic, partition = place
    try:
        epochs = read_checkpoint(data / f"{topic}-{partition}" / "leader-epoch-checkpoint")
    except OSError:
        return None
    epoch = epoch_at(epochs, high_watermark - 1)
    return None if epoch == -1 else epoch
