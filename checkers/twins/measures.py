"""Plain twin of checkers/runs/measures.py, for comparison on random observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.measures import After, Between, Count, Event, Largest, Measure

MS_NS = 1_000_000
Row = Mapping[str, Any]
"""A row of a table, in the table's order."""


def value_of(measure: Measure, tables: Mapping[str, Sequence[Row]], times: Mapping[str, int]) -> float | None:
    """The measure's value; None without evidence."""
    if measure.since not in times or getattr(measure, "until", None) not in (None, *times):
        return None
    start = times[measure.since]
    if isinstance(measure, After):
        later = [row["time_ns"] for row in tables[measure.event.table] if _is(measure.event, row)]
        later = [time_ns for time_ns in later if time_ns > start]
        return (min(later) - start) / MS_NS if later else None
    end = float("inf") if measure.until is None else times[measure.until]
    if isinstance(measure, Count):
        rows = tables[measure.event.table]
        return sum(start < row["time_ns"] <= end and _is(measure.event, row) for row in rows) if rows else None
    if isinstance(measure, Largest):
        rows = [row for row in tables["rpcs"] if start < row["time_ns"] <= end and _is(measure.event, row)]
        return max((row["size_bytes"] for row in rows), default=None)
    if isinstance(measure, Between):
        return _between(measure, tables[measure.first.table], start, end)
    rows = [row for row in tables["observations"] if measure.node in (None, row["node"]) and row["epoch"] is not None]
    if not rows:
        return None
    reached = [row["epoch"] for row in rows if row["time_ns"] <= end]
    known = [row["epoch"] for row in rows if row["time_ns"] <= start] or [min(row["epoch"] for row in rows)]
    return max(reached) - max(known) if reached else None


def _between(measure: Between, rows: Sequence[Row], start: float, end: float) -> float | None:
    lengths = []
    for number, row in enumerate(rows):
        if not (_is(measure.first, row) and start < row["time_ns"] <= end):
            continue
        node = "node" if measure.first.table == "observations" else "source"
        following = (each for each in rows[number + 1 :] if each[node] == row[node] and _is(measure.then, each))
        ends = next(following, None)
        if ends is not None:
            lengths.append((ends["time_ns"] - row["time_ns"]) / MS_NS)
    return (max if measure.pick == "longest" else min)(lengths, default=None)


def _is(event: Event, row: Row) -> bool:
    return all(row[name] == value for name, value in event.fields)
