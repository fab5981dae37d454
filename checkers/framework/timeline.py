"""The timeline of a run: the times that the nemesis wrote into the history.

Quantities about a disruption count from the story's mark on, the row f="mark" with value "story" before the first
fault; without it, from the run's beginning. Contains these times, which are few enough for the driver. Checks interpret
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.framework.contract import JudgeSettings
from harness.model import NEMESIS, Op
from harness.model.records.tables import HISTORY


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """When the story began (0 without a mark), when the last fault was healed (None without a heal), and the latest
    time in the tables; all in ns since the run began."""

    story_ns: int
    healed_ns: int | None
    end_ns: int

    def after_heal(self, time_ns: Column) -> Column:
        """The earliest of these times that is not before the last heal; null without a heal."""
        return fn.min(fn.when(time_ns >= fn.lit(self.healed_ns), time_ns))

    def until_heal(self, time_ns: Column) -> Column:
        """Whether a time is not after the last heal; null without a heal, so that nothing is counted."""
        return time_ns <= fn.lit(self.healed_ns)

    def per(self, number: Column, unit_ns: int) -> Column:
        """The number per unit of the time from the story's mark to the end; null if that is no time."""
        span = self.end_ns - self.story_ns
        return number * fn.lit(unit_ns / span if span > 0 else None)


def timeline_of(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> RunTimeline:
    """The run's timeline, by one job that returns one row."""
    is_heal = fn.col("f").isin(*settings.ops.heals) & (fn.col("process") == NEMESIS) & (fn.col("type") == "info")
    is_heal &= fn.col("error").isNull()
    times = history.select(
        "time_ns",
        fn.when(is_mark("story"), fn.col("time_ns")).alias("story_ns"),
        fn.when(is_heal, fn.col("time_ns")).alias("healed_ns"),
    ).unionByName(observations.select("time_ns"), allowMissingColumns=True)
    row = times.agg(fn.min("story_ns"), fn.max("healed_ns"), fn.max("time_ns")).first()
    assert row is not None, "a global aggregate has one row"
    story_ns, healed_ns, end_ns = row
    return RunTimeline(story_ns or 0, healed_ns, end_ns or 0)


def is_mark(name: str) -> Column:
    """Whether a row of history is the nemesis's mark of this name."""
    return (fn.col("process") == NEMESIS) & (fn.col("f") == "mark") & (fn.col("value") == json.dumps(name))


def nemesis_ops(history: DataFrame) -> Iterator[Op]:
    """The nemesis's rows, in order: they are few, and come to the driver."""
    rows = history.where(fn.col("process") == NEMESIS).orderBy("index").select(*HISTORY.names)
    for row in rows.toLocalIterator():
        fields = row.asDict()
        yield Op(**fields | {"value": None if fields["value"] is None else json.loads(fields["value"])})
