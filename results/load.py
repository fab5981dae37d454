"""What the clients felt: latencies and throughput, from a run's history, bounded however long it is.

What may live here: pure functions on the history table. What may not: reading files, drawing.
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
"""The latency chart's resolution in time: each bucket keeps, for each outcome, its median and its slowest operation."""

STRETCHES: Final = 48
OPERATIONS_A_STRETCH: Final = 20
"""Quantiles are of this many stretches of time at most, of so many operations each on average."""


def latencies_of(history: pa.Table) -> list[LatencyPoint]:
    """Every client operation's latency, paired by process."""
    columns = history.select(["process", "type", "time_ns"]).to_pydict()
    begun: dict[int, int] = {}
    points: list[LatencyPoint] = []
    for process, kind, time_ns in zip(columns["process"], columns["type"], columns["time_ns"], strict=True):
        if kind == "invoke":
            begun[process] = time_ns
        elif process in begun:
            start_ns = begun.pop(process)
            points.append(LatencyPoint(start_ns, (time_ns - start_ns) / 1e6, kind))
    return points


def thinned(points: Sequence[LatencyPoint]) -> tuple[LatencyPoint, ...]:
    """As many points as a chart resolves: of each bucket and outcome the median and the slowest."""
    width_ns = max((point.time_ns for point in points), default=0) // BUCKETS + 1
    buckets: defaultdict[tuple[int, Outcome], list[LatencyPoint]] = defaultdict(list)
    for point in points:
        buckets[point.time_ns // width_ns, point.outcome].append(point)
    return tuple(point for bucket in sorted(buckets) for point in _median_and_slowest(buckets[bucket]))


def _median_and_slowest(points: list[LatencyPoint]) -> list[LatencyPoint]:
    ordered = sorted(points, key=lambda point: point.latency_ms)
    return [ordered[len(ordered) // 2], ordered[-1]] if len(ordered) > 2 else ordered


def quantiles_over_time(points: Sequence[LatencyPoint]) -> tuple[LatencyQuantiles, ...]:
    """The quantiles of what ended in ok, by stretches of time; empty where there are too few operations to have any."""
    ok = [point for point in points if point.outcome == "ok"]
    stretches = min(STRETCHES, len(ok) // OPERATIONS_A_STRETCH)
    if not stretches:
        return ()
    width_ns = max(point.time_ns for point in ok) // stretches + 1
    by_stretch: defaultdict[int, list[float]] = defaultdict(list)
    for point in ok:
        by_stretch[point.time_ns // width_ns].append(point.latency_ms)
    return tuple(
        LatencyQuantiles(stretch * width_ns + width_ns // 2, *np.percentile(by_stretch[stretch], (50, 95, 99)).tolist())
        for stretch in sorted(by_stretch)
    )


def load_by_second(history: pa.Table) -> tuple[SecondOfLoad, ...]:
    """Client completions by second, from the run's first second to its last, idle seconds included; empty if none."""
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
