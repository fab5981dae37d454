"""What a topic's configs say of its partitions' logs: when a segment ends, what is deleted, what is compacted.

    config = log_config(lambda name: image.config("t", name, LOG_DEFAULTS))
    config.segment_ms, config.is_compacted

Contains names, defaults and values. What they do is in retention.py and compaction.py, and in the log itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

DAY_MS: Final = 24 * 3600 * 1000
NO_LIMIT: Final = -1
NEVER: Final = 2**63 - 1

CLEANUP: Final = "cleanup.policy"
SEGMENT_BYTES: Final = "segment.bytes"

LOG_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        CLEANUP: "delete",
        SEGMENT_BYTES: str(1 << 30),
        "segment.ms": str(7 * DAY_MS),
        "retention.bytes": str(NO_LIMIT),
        "retention.ms": str(7 * DAY_MS),
        "delete.retention.ms": str(DAY_MS),
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": str(NEVER),
    }
)
"""Kafka's defaults."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's configs of a topic, as numbers.

    segment_ms is the longest time between the first record of a segment and another one in it: where the log is
    compacted, max.compaction.lag.ms if that is shorter. retention_bytes and retention_ms are NO_LIMIT for no limit.
    """

    is_deleted: bool = True
    is_compacted: bool = False
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    retention_bytes: int = NO_LIMIT
    retention_ms: int = 7 * DAY_MS
    delete_retention_ms: int = DAY_MS
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER


def log_config(value_of: Callable[[str], str]) -> LogConfig:
    """The configs of a topic; value_of returns the text of each of LOG_DEFAULTS' names."""
    policies = value_of(CLEANUP).split(",")
    is_compacted = "compact" in policies
    segment_ms, max_lag_ms = int(value_of("segment.ms")), int(value_of("max.compaction.lag.ms"))
    return LogConfig(
        is_deleted="delete" in policies,
        is_compacted=is_compacted,
        segment_bytes=int(value_of(SEGMENT_BYTES)),
        segment_ms=min(segment_ms, max_lag_ms) if is_compacted else segment_ms,
        retention_bytes=int(value_of("retention.bytes")),
        retention_ms=int(value_of("retention.ms")),
        delete_retention_ms=int(value_of("delete.retention.ms")),
        min_cleanable_ratio=float(value_of("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(value_of("min.compaction.lag.ms")),
        max_compaction_lag_ms=max_lag_ms,
    )
