"""How each case fared over time, from the table of a store: a column for each night, or for each day without one.

    for trend in trends(rows, known): trend.case, trend.failed, trend.columns

Contains the grouping and the points of the charts. results.drawing.trend draws them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.comparing.primary import PRIMARY
from harness.judging.index import RunRow
from harness.judging.known import Known
from results.drawing.trend import TrendPoint
from results.proportions import wilson_interval
from results.quantities import quantity_text

COLUMNS_MAX: Final = 120
"""The newest columns that a chart has."""
DATE_LENGTH: Final = 10


@dataclass(frozen=True, slots=True)
class Column:
    """The judged runs of a case in a night, or on a day. night is None for runs that no night began."""

    label: str
    night: str | None
    rows: tuple[RunRow, ...]
    failed: int
    passed: int
    unknown: int

    @property
    def tone(self) -> str:
        """The most important outcome; unknown if nothing was decided."""
        return "failed" if self.failed else "passed" if self.passed else "unknown"


@dataclass(frozen=True, slots=True)
class Trend:
    """A case on a system with the same switches, over time; oldest column first."""

    case: str
    system: str
    variant: str
    columns: tuple[Column, ...]

    @property
    def failed(self) -> int:
        """How many runs failed in all columns."""
        return sum(column.failed for column in self.columns)

    @property
    def decided(self) -> int:
        """How many runs passed or failed."""
        return self.failed + sum(column.passed for column in self.columns)


def trends(rows: Iterable[RunRow], known: Known) -> list[Trend]:
    """The trends of all cases, those that failed last time first, then by name."""
    groups: dict[tuple[str, str, str], dict[str, list[RunRow]]] = {}
    for row in rows:
        if row.kind == "run" and row.outcome is not None:
            columns = groups.setdefault((row.case, row.system, row.variant), {})
            columns.setdefault(row.night or row.created[:DATE_LENGTH], []).append(row)
    found = [
        Trend(*key, tuple(_column(label, columns[label], known) for label in sorted(columns, key=_sortable)))
        for key, columns in groups.items()
    ]
    return sorted(found, key=lambda trend: (not trend.columns[-1].failed, trend.case, trend.system, trend.variant))


def _sortable(label: str) -> str:
    """A date and a night's name, which begins with one, in order of time."""
    return label.replace("-", "", 2) if label[4:5] == "-" else label


def _column(name: str, rows: Sequence[RunRow], known: Known) -> Column:
    outcomes = [known.outcome_of(row) for row in rows]
    night = rows[0].night
    label = rows[0].created[:DATE_LENGTH] or name
    counts = (outcomes.count("failed"), outcomes.count("passed"), outcomes.count("unknown"))
    return Column(label, night, tuple(rows), *counts)


UrlOf = Callable[[Column], str | None]


def failure_points(trend: Trend, url_of: UrlOf) -> list[TrendPoint | None]:
    """The share of failed runs in each of the newest columns, with Wilson's interval."""
    return [_failures(column, url_of(column)) for column in trend.columns[-COLUMNS_MAX:]]


def _failures(column: Column, url: str | None) -> TrendPoint | None:
    decided = column.failed + column.passed
    if not decided:
        return None
    low, high = wilson_interval(column.failed, decided)
    text = f"{column.failed} of {decided} failed"
    return TrendPoint(column.label, column.failed / decided, low, high, text, column.tone, url)


def measured(trend: Trend) -> list[str]:
    """The quantities that are compared and that some run has measured."""
    return [name for name in PRIMARY if any(name in row.quantities for each in trend.columns for row in each.rows)]


def quantity_points(trend: Trend, name: str, url_of: UrlOf) -> list[TrendPoint | None]:
    """The median of a quantity in each of the newest columns, from the smallest value to the largest."""
    return [_quantity(column, name, url_of(column)) for column in trend.columns[-COLUMNS_MAX:]]


def _quantity(column: Column, name: str, url: str | None) -> TrendPoint | None:
    values = [row.quantities[name] for row in column.rows if name in row.quantities]
    if not values:
        return None
    median, low, high = statistics.median(values), min(values), max(values)
    texts = [quantity_text(name, value) for value in (median, low, high)]
    text = f"median {texts[0]} ({texts[1]} to {texts[2]}, {len(values)} runs)"
    return TrendPoint(column.label, median, low, high, text, "neutral", url)
