"""The partitions' logs and high watermarks in a broker's directory, in Kafka's files.

    DIR/t-0/…                                    the log of partition 0 of topic t (disk_log.py)
    DIR/replication-offset-checkpoint            topic, partition and high watermark, a line each
    DIR/recovery-point-offset-checkpoint         the same with the offset up to which each log is flushed

Contains where logs are, and when they are flushed: never but at a clean stop, as Kafka's default is. Raises OSError.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from nodes.reference.brokers.disk_log import DiskLog
from nodes.reference.brokers.segments import SEGMENT_BYTES
from nodes.reference.core.partitions.messages import TopicPartition

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"

Offsets = Mapping[TopicPartition, int]


class LogStore:
    """nodes.reference.core.partitions.broker.Logs on a disk."""

    def __init__(self, directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory, self._segment_bytes = directory, segment_bytes
        self._open: dict[TopicPartition, DiskLog] = {}
        self._high_watermarks = _read(directory / HIGH_WATERMARKS)
        self._recovery_points = _read(directory / RECOVERY_POINTS)

    def open(self, partition: TopicPartition) -> DiskLog:
        """The log of a partition; an empty one if there is none yet."""
        if partition not in self._open:
            recovery_point = self._recovery_points.get(partition, 0)
            self._open[partition] = DiskLog(self._path(partition), self._segment_bytes, recovery_point)
        return self._open[partition]

    def stored_high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark that was stored last; 0 if none was."""
        return self._high_watermarks.get(partition, 0)

    def store_high_watermarks(self, high_watermarks: Offsets) -> None:
        """Store high watermarks durably; those of other partitions stay."""
        merged = {**self._high_watermarks, **high_watermarks}
        if merged != self._high_watermarks:
            self._high_watermarks = merged
            _write(self._directory / HIGH_WATERMARKS, merged)

    def sizes(self) -> Mapping[TopicPartition, int]:
        """The bytes of each partition's log."""
        return {partition: log.size_bytes for partition, log in self._open.items()}

    def remove(self, partition: TopicPartition) -> None:
        """Delete the log of a partition that is not this broker's any more."""
        log = self._open.pop(partition, None)
        if log is not None:
            log.close()
        shutil.rmtree(self._path(partition), ignore_errors=True)
        self._high_watermarks = {key: each for key, each in self._high_watermarks.items() if key != partition}
        _write(self._directory / HIGH_WATERMARKS, self._high_watermarks)

    def close(self) -> None:
        """Flush and close all logs: the next start has nothing to verify."""
        for log in self._open.values():
            log.flush()
        ends = {partition: log.end_offset for partition, log in self._open.items()}
        _write(self._directory / RECOVERY_POINTS, {**self._recovery_points, **ends})
        for log in self._open.values():
            log.close()
        self._open.clear()

    def _path(self, partition: TopicPartition) -> Path:
        return self._directory / str(partition)


def _read(path: Path) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint; none where it is missing or damaged, since Kafka starts without it too."""
    try:
        version, count, *lines = path.read_text().splitlines()
        rows = [line.split() for line in lines]
        offsets = {TopicPartition(topic, int(index)): int(offset) for topic, index, offset in rows}
    except (FileNotFoundError, ValueError):
        return {}
    return offsets if (version, count) == ("0", str(len(offsets))) else {}


def _write(path: Path, offsets: Offsets) -> None:
    """Replace a checkpoint by a rename, durably."""
    lines = [
        "0",
        str(len(offsets)),
        *(f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items())),
    ]
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
