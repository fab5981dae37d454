"""Client latencies and throughput, from a run's history; the result is bounded for histories of any length.

Contains pure functions on the history table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from harness.model import NEMESIS
from results.data import LatencyPoint, LatencyQuantiles, Outcome, SecondOfLoad

BUCKETS: Final = 240
"""The time resolution of the latency chart: per outcome, each bucket keeps its median and its slowest operation."""

PERIODS_MAX: Final = 48
OPERATIONS_PER_PERIOD: Final = 20
"""Quantiles are computed for at most this many periods, with this many operations each on average."""


def latencies_of(history: pa.Table) -> list[LatencyPoint]:
    """The latency of every client operation, with invocation and completion matched by process."""
    columns = history.select(["process", "type", "time_ns"]).to_pydict()
    invoked: dict[int, int] = {}
    points: list[LatencyPoint] = []
    for process, kind, time_ns in zip(columns["process"], columns["type"], columns["time_ns"], strict=True):
        if kind == "invoke":
            invoked[process] = time_ns
        elif process in invoked:
            start_ns = invoked.pop(process)
            points.append(LatencyPoint(start_ns, (time_ns - start_ns) / 1e6, kind))
    return points


def thinned(points: Sequence[LatencyPoint]) -> tuple[LatencyPoint, ...]:
    """As many points as a chart can show: per bucket and outcome, the median and the slowest."""
    width_ns = max((point.time_ns for point in points), default=0) // BUCKETS + 1
    buckets: defaultdict[tuple[int, Outcome], list[LatencyPoint]] = defaultdict(list)
    for point in points:
        buckets[point.time_ns // width_ns, point.outcome].append(point)
    return tuple(point for bucket in sorted(buckets) for point in _median_and_slowest(buckets[bucket]))


def _median_and_slowest(points: list[LatencyPoint]) -> list[LatencyPoint]:
    ordered = sorted(points, key=lambda point: point.latency_ms)
    return [ordered[len(ordered) // 2], ordered[-1]] if len(ordered) > 2 else ordered


def quantiles_over_time(points: Sequence[LatencyPoint]) -> tuple[LatencyQuantiles, ...]:
    """The quantiles of ok operations by period; empty if there are too few operations."""
    ok = [point for point in points if point.outcome == "ok"]
    periods = min(PERIODS_MAX, len(ok) // OPERATIONS_PER_PERIOD)
    if not periods:
        return ()
    width_ns = max(point.time_ns for point in ok) // periods + 1
    by_period: defaultdict[int, list[float]] = defaultdict(list)
    for point in ok:
        by_period[point.time_ns // width_ns].append(point.latency_ms)
    return tuple(
        LatencyQuantiles(period * width_ns + width_ns // 2, *np.percentile(by_period[period], (50, 95, 99)).tolist())
        for period in sorted(by_period)
    )


def load_by_second(history: pa.Table) -> tuple[SecondOfLoad, ...]:
    """Client completions per second, from second 0 to the last one with a completion; empty without any."""
    columns = history.select(["process", "type", "time_ns"]).to_pydict()
    counts: Counter[tuple[int, str]] = Counter()
    for process, kind, time_ns in zip(columns["process"], columns["type"], columns["time_ns"], strict=True):
        if process != NEMESIS and kind != "invoke":
            counts[time_ns // 1_000_000_000, kind] += 1
    last = max((second for second, _ in counts), default=-1)
    return tuple(
        SecondOfLoad(second, counts[second, "ok"], counts[second, "fail"], counts[second, "info"])
        for second in range(last + 1)
    )
