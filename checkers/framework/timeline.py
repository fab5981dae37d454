"""The timeline of a run that the nemesis wrote into the history.

Quantities about a disruption are counted from the story's mark on: the row f="mark" with value "story" that stands
before the first deed; a run without it is counted from its beginning. What may live here: such timeline, which are few
enough to come to the driver. What may not: what a check makes of them.
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
    """When the story began (0 where nothing says so), when the last fault was undone (None where none was), and the
    last moment that the tables tell of; all in ns since the run began."""

    story_ns: int
    healed_ns: int | None
    end_ns: int

    def after_heal(self, time_ns: Column) -> Column:
        """The earliest of these timeline that is not before the last heal; null where nothing healed."""
        return fn.min(fn.when(time_ns >= fn.lit(self.healed_ns), time_ns))

    def until_heal(self, time_ns: Column) -> Column:
        """Whether a moment is not after the last heal; null where nothing healed, so that nothing is counted."""
        return time_ns <= fn.lit(self.healed_ns)

    def per(self, number: Column, unit_ns: int) -> Column:
        """The number for each such unit of the time from the story's mark to the end; null where there is none."""
        span = self.end_ns - self.story_ns
        return number * fn.lit(unit_ns / span if span > 0 else None)


def timeline_of(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> RunTimeline:
    """The run's timeline: one job, and one row of it to the driver."""
    is_heal = fn.col("f").isin(*settings.ops.heals) & (fn.col("process") == NEMESIS) & (fn.col("type") == "info")
    is_heal &= fn.col("error").isNull()
    told = history.select(
        "time_ns",
        fn.when(is_mark("story"), fn.col("time_ns")).alias("story_ns"),
        fn.when(is_heal, fn.col("time_ns")).alias("healed_ns"),
    ).unionByName(observations.select("time_ns"), allowMissingColumns=True)
    row = told.agg(fn.min("story_ns"), fn.max("healed_ns"), fn.max("time_ns")).first()
    assert row is not None, "an aggregate over everything has one row"
    story_ns, healed_ns, end_ns = row
    return RunTimeline(story_ns or 0, healed_ns, end_ns or 0)


def is_mark(name: str) -> Column:
    """Whether a row of history is the nemesis's mark of this name."""
    return (fn.col("process") == NEMESIS) & (fn.col("f") == "mark") & (fn.col("value") == json.dumps(name))


def deeds(history: DataFrame) -> Iterator[Op]:
    """The rows of the nemesis, in order: they are few, and come to the driver."""
    rows = history.where(fn.col("process") == NEMESIS).orderBy("index").select(*HISTORY.names)
    for row in rows.toLocalIterator():
        fields = row.asDict()
        yield Op(**fields | {"value": None if fields["value"] is None else json.loads(fields["value"])})
