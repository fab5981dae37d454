"""Which segments retention deletes, by literal segments."""

from __future__ import annotations

import pytest

from nodes.reference.core.partitions.log_config import LOG_DEFAULTS, NO_LIMIT, LogConfig, log_config
from nodes.reference.core.partitions.retention import Extent, start_after_retention

SEGMENTS = [Extent(0, 10, 100, 0, 1000), Extent(10, 20, 100, 1000, 2000), Extent(20, 25, 50, 2000, 3000)]
NO_LIMITS = LogConfig(retention_ms=NO_LIMIT)


@pytest.mark.parametrize(
    ("config", "high_watermark", "now_ms", "start"),
    [
        pytest.param(LogConfig(retention_ms=500), 25, 1500, 0, id="none is too old"),
        pytest.param(LogConfig(retention_ms=500), 25, 1501, 10, id="one is too old"),
        pytest.param(LogConfig(retention_ms=500), 25, 9999, 25, id="all, the last one too"),
        pytest.param(LogConfig(retention_ms=500), 19, 9999, 10, id="what is not committed stays"),
        pytest.param(LogConfig(retention_ms=500, is_deleted=False), 25, 9999, 0, id="only compacted"),
        pytest.param(NO_LIMITS, 25, 9999, 0, id="no limit"),
        pytest.param(
            LogConfig(retention_ms=NO_LIMIT, retention_bytes=151), 25, 0, 0, id="less than a segment too much"
        ),
        pytest.param(LogConfig(retention_ms=NO_LIMIT, retention_bytes=150), 25, 0, 10, id="a segment too much"),
        pytest.param(
            LogConfig(retention_ms=NO_LIMIT, retention_bytes=0), 25, 0, 20, id="the last one has no size limit"
        ),
    ],
)
def test_segments_that_are_too_old_or_too_many_are_deleted(
    config: LogConfig, high_watermark: int, now_ms: int, start: int
) -> None:
    assert start_after_retention(SEGMENTS, config, high_watermark, now_ms) == start


def test_an_empty_segment_is_not_deleted() -> None:
    assert start_after_retention([Extent(7, 7, 0)], LogConfig(retention_ms=0), 7, 9999) == 7


def test_a_segment_of_a_compacted_topic_ends_by_the_longest_lag() -> None:
    configs = {**LOG_DEFAULTS, "max.compaction.lag.ms": "1000"}
    assert log_config({**configs, "cleanup.policy": "compact"}.__getitem__).segment_ms == 1000
    assert log_config(configs.__getitem__).segment_ms == LogConfig().segment_ms


def test_the_defaults_are_those_of_the_configs() -> None:
    assert log_config(LOG_DEFAULTS.__getitem__) == LogConfig()
