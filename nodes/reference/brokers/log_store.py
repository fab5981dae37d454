"""The partitions' logs and what is known of them, in a broker's directory and in Kafka's files.

    DIR/t-0/…                                    the log of partition 0 of topic t (disk_log.py)
    DIR/replication-offset-checkpoint            the high watermark of each partition (offset_checkpoint.py)
    DIR/recovery-point-offset-checkpoint         the offset up to which each log is flushed
    DIR/log-start-offset-checkpoint              the start of each log that begins after its first record on disk
    DIR/cleaner-offset-checkpoint                the offset up to which each log was compacted

Contains where logs are, and when they are flushed: never but at a clean stop, as Kafka's default is. Raises OSError.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nodes.reference.brokers.offset_checkpoint import OffsetCheckpoint, Offsets
from nodes.reference.core.partitions.log_config import LogConfig
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.reference.logs.disk_log import DiskLog
from nodes.reference.logs.segments import Recovery

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"

ConfigOf = Callable[[str], LogConfig]
"""The configs of a topic as they are now."""


class LogStore:
    """nodes.reference.core.partitions.broker.Logs on a disk."""

    def __init__(self, directory: Path, config_of: ConfigOf) -> None:
        self._directory, self.config_of = directory, config_of
        self._open: dict[TopicPartition, DiskLog] = {}
        self._high_watermarks = OffsetCheckpoint(directory / HIGH_WATERMARKS)
        self._recovery_points = OffsetCheckpoint(directory / RECOVERY_POINTS)
        self._start_offsets = OffsetCheckpoint(directory / START_OFFSETS)
        self.cleaned = OffsetCheckpoint(directory / CLEANED)

    @property
    def open_logs(self) -> Mapping[TopicPartition, DiskLog]:
        """The logs that are open, for reading."""
        return self._open

    def open(self, partition: TopicPartition) -> DiskLog:
        """The log of a partition; an empty one if there is none yet."""
        if partition not in self._open:
            config = self.config_of(partition.topic)
            log = DiskLog(
                self._directory / str(partition),
                config.segment_bytes,
                Recovery(self._recovery_points.get(partition)),
                self._start_offsets.get(partition),
            )
            log.configure(config.segment_bytes, config.segment_ms)
            self._open[partition] = log
        return self._open[partition]

    def configs_changed(self) -> None:
        """The configs of topics may have changed."""
        for partition, log in self._open.items():
            config = self.config_of(partition.topic)
            log.configure(config.segment_bytes, config.segment_ms)

    def stored_high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark that was stored last; 0 if none was."""
        return self._high_watermarks.get(partition)

    def store_high_watermarks(self, high_watermarks: Offsets) -> None:
        """Store high watermarks durably; those of other partitions stay."""
        self._high_watermarks.update(high_watermarks)

    def store_start_offsets(self) -> None:
        """Store where logs start, as far as their files do not say it."""
        later = {key: log.start_offset for key, log in self._open.items() if log.start_offset > log.stored_from}
        of_others = {key: offset for key, offset in self._start_offsets.offsets.items() if key not in self._open}
        self._start_offsets.replace({**of_others, **later})

    def sizes(self) -> Mapping[TopicPartition, int]:
        """The bytes of each partition's log."""
        return {partition: log.size_bytes for partition, log in self._open.items()}

    def remove(self, partition: TopicPartition) -> None:
        """Delete the log of a partition that is no longer this broker's."""
        log = self._open.pop(partition, None)
        if log is not None:
            log.close()
        shutil.rmtree(self._directory / str(partition), ignore_errors=True)
        for checkpoint in self._checkpoints():
            checkpoint.remove(partition)

    def close(self) -> None:
        """Flush and close all logs: the next start has nothing to verify."""
        for log in self._open.values():
            log.flush()
        self._recovery_points.update({partition: log.end_offset for partition, log in self._open.items()})
        self.store_start_offsets()
        for log in self._open.values():
            log.close()
        self._open.clear()

    def _checkpoints(self) -> Iterable[OffsetCheckpoint]:
        return self._high_watermarks, self._recovery_points, self._start_offsets, self.cleaned
