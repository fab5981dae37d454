"""One of Kafka's checkpoint files: an offset for each partition of a broker.

    0                 the version
    2                 how many partitions follow
    t 0 17            topic, partition, offset
    t 1 5

Contains the file, which is replaced durably, by a rename, if an offset has changed. Raises OSError.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.durable_files import replace_file
from nodes.reference.core.partitions.messages import TopicPartition

Offsets = Mapping[TopicPartition, int]


class OffsetCheckpoint:
    """The offsets in a file; none where it is missing or damaged, since Kafka starts without it too."""

    def __init__(self, path: Path) -> None:
        self._path, self._offsets = path, dict(_read(path))

    @property
    def offsets(self) -> Offsets:
        """All offsets."""
        return self._offsets

    def get(self, partition: TopicPartition, default: int = 0) -> int:
        """A partition's offset."""
        return self._offsets.get(partition, default)

    def update(self, offsets: Offsets) -> None:
        """Store these offsets; those of other partitions stay."""
        self.replace({**self._offsets, **offsets})

    def remove(self, partition: TopicPartition) -> None:
        """Forget a partition."""
        self.replace({key: offset for key, offset in self._offsets.items() if key != partition})

    def replace(self, offsets: Offsets) -> None:
        """Store these offsets alone."""
        if offsets != self._offsets:
            self._offsets = dict(offsets)
            _write(self._path, self._offsets)


def _read(path: Path) -> Offsets:
    try:
        version, count, *lines = path.read_text().splitlines()
        rows = [line.split() for line in lines]
        offsets = {TopicPartition(topic, int(index)): int(offset) for topic, index, offset in rows}
    except (FileNotFoundError, ValueError):
        return {}
    return offsets if (version, count) == ("0", str(len(offsets))) else {}


def _write(path: Path, offsets: Offsets) -> None:
    lines = ["0", str(len(offsets)), *(f"{topic} {index} {at}" for (topic, index), at in sorted(offsets.items()))]
    replace_file(path, "".join(f"{line}\n" for line in lines).encode())
