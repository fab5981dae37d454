"""Reads what a broker stores of its partitions: high watermarks, and how far each was compacted.

    read_high_watermarks(data)              # {("log", 0): 42}
    epoch_below(data, ("log", 0), 42)       # (3, 17): the leader epoch of offset 41, and its first offset
    compacted_in(data)                      # {("log", 0)}: compacted up to its active segment

A broker writes `replication-offset-checkpoint` every replica.high.watermark.checkpoint.interval.ms, and on shutdown: a
version, the number of entries, and one entry per line: topic, partition and offset. The epoch is in the partition's
leader-epoch-checkpoint, which is written before the epoch's first record. That file is read later and may be newer, but
below the high watermark it never changes unless committed records are lost.

Contains the parsers. watch.py decides when to read the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nodes.observe.log_batches import CLEANED, read_checkpoint, read_offsets

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
TopicPartition = tuple[str, int]


def read_high_watermarks(data: Path) -> dict[TopicPartition, int]:
    """The high watermarks above 0 of users' partitions in a node's data directory.

    Empty if the file does not exist, is incomplete or cannot be read.
    """
    return {
        (topic, partition): high_watermark
        for (topic, partition), high_watermark in read_offsets(data / HIGH_WATERMARKS).items()
        if high_watermark > 0 and not topic.startswith("__")
    }


def epoch_below(data: Path, topic_partition: TopicPartition, high_watermark: int) -> tuple[int, int] | None:
    """The epoch of the last offset below a high watermark, and where it begins; None if no checkpoint has it."""
    topic, partition = topic_partition
    try:
        epochs = read_checkpoint(data / f"{topic}-{partition}" / "leader-epoch-checkpoint")
    except OSError:
        return None
    before = [entry for entry in epochs or () if entry[0] < high_watermark]
    return (before[-1][1], before[-1][0]) if before else None


def compacted_in(data: Path) -> frozenset[TopicPartition]:
    """The partitions whose logs are compacted up to the first offset of their last segment, the active one."""
    return frozenset(
        (topic, partition)
        for (topic, partition), cleaned_to in read_offsets(data / CLEANED).items()
        if cleaned_to == max((int(each.stem) for each in (data / f"{topic}-{partition}").glob("*.log")), default=None)
    )
