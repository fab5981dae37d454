"""What the clients felt: latencies and throughput, from a run's history, bounded however long it is.

What may live here: pure functions on the history table. What may not: reading files, drawing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from harness.model import NEMESIS
from results.data import LatencyPoint, Outcome, SecondOfLoad

BUCKETS: Final = 240
"""The latency chart's resolution in time: each bucket keeps, for each outcome, its median and its slowest operation."""


def latency_points(history: pa.Table) -> tuple[LatencyPoint, ...]:
    """Every client operation's latency, paired by process; beyond resolution, the median and slowest of each bucket."""
    columns = history.select(["process", "type", "time_ns"]).to_pydict()
    begun: dict[int, int] = {}
    points: list[LatencyPoint] = []
    for process, kind, time_ns in zip(columns["process"], columns["type"], columns["time_ns"], strict=True):
        if kind == "invoke":
            begun[process] = time_ns
        elif process in begun:
            start_ns = begun.pop(process)
            points.append(LatencyPoint(start_ns, (time_ns - start_ns) / 1e6, kind))
    return _thinned(points)


def _thinned(points: Sequence[LatencyPoint]) -> tuple[LatencyPoint, ...]:
    width_ns = max((point.time_ns for point in points), default=0) // BUCKETS + 1
    buckets: defaultdict[tuple[int, Outcome], list[LatencyPoint]] = defaultdict(list)
    for point in points:
        buckets[point.time_ns // width_ns, point.outcome].append(point)
    return tuple(point for bucket in sorted(buckets) for point in _median_and_slowest(buckets[bucket]))


def _median_and_slowest(points: list[LatencyPoint]) -> list[LatencyPoint]:
    ordered = sorted(points, key=lambda point: point.latency_ms)
    return [ordered[len(ordered) // 2], ordered[-1]] if len(ordered) > 2 else ordered


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
