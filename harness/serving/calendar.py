"""The nights of a store by day, for a calendar.

    months(stored_nights(store))        # the newest month first

Contains the values. harness.serving.application shows them.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path

from harness.model import BadInput
from harness.nightly.directory import NightDirectory, nights
from harness.nightly.summary import stored_summary

SUMMARIES_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class Night:
    """A night of the calendar. verdict is `not finished` while it runs, and after a crash."""

    name: str
    day: date
    verdict: str
    headline: str

    @property
    def tone(self) -> str:
        """The verdict by whose colour it is shown."""
        return self.verdict if self.verdict in ("valid", "invalid") else "unknown"


@dataclass(frozen=True, slots=True)
class Day:
    """A day of a month, with the nights that began on it in UTC, oldest first."""

    number: int
    nights: tuple[Night, ...]


@dataclass(frozen=True, slots=True)
class Month:
    """A month: its weeks, from Monday to Sunday; None is a day of another month."""

    title: str
    weeks: tuple[tuple[Day | None, ...], ...]


def stored_nights(store: Path) -> list[Night]:
    """The nights of a store, oldest first; those whose plan cannot be read are left out."""
    found = (_night(directory) for directory in nights(store))
    return [night for night in found if night is not None]


def _night(directory: NightDirectory) -> Night | None:
    try:
        day = directory.began().date()
    except (BadInput, ValueError, TypeError):
        return None
    summary = _summary(directory, _changed_ns(directory.path / "summary.json"))
    verdict = str(summary.get("verdict", "")) if summary.get("is_finished") else ""
    return Night(directory.name, day, verdict or "not finished", str(summary.get("headline", "")))


def _changed_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(SUMMARIES_KEPT)
def _summary(directory: NightDirectory, changed_ns: int) -> Mapping[str, object]:
    """What the calendar shows of a summary; read again when the file has changed."""
    summary = stored_summary(directory) if changed_ns else {}
    return {name: summary.get(name) or "" for name in ("verdict", "is_finished", "headline")}


def months(shown: Sequence[Night]) -> list[Month]:
    """The months from the last night back to the first, without those that had none."""
    by_day: dict[date, list[Night]] = {}
    for night in shown:
        by_day.setdefault(night.day, []).append(night)
    return [_month(*month, by_day) for month in sorted({(day.year, day.month) for day in by_day}, reverse=True)]


def _month(year: int, month: int, by_day: Mapping[date, Sequence[Night]]) -> Month:
    weeks = calendar.Calendar().monthdatescalendar(year, month)
    days = [
        [Day(day.day, tuple(by_day.get(day, ()))) if day.month == month else None for day in week] for week in weeks
    ]
    return Month(datetime(year, month, 1).strftime("%B %Y"), tuple(map(tuple, days)))  # noqa: DTZ001 - only a title
