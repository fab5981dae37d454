"""What the nemesis wrote into the histories: the timelines of runs, and the disks that were emptied.

Quantities about a disruption count from the story's mark on, the row f="mark" with value "story" before the first
fault; without it, from the run's beginning. These times are few enough for the driver. Checks interpret them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from operator import itemgetter

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, of_run
from checkers.framework.contract import JudgeSettings
from harness.model import NEMESIS, Op
from harness.model.records.tables import HISTORY
from harness.model.story import MARK, STORY_BEGINS


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When the story of a run began (0 without a mark), when the last fault was healed (None without a heal), and the
    latest time in the tables; all in ns since the run began."""

    story_ns: int = 0
    healed_ns: int | None = None
    end_ns: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """The times of each run, and of a row's run as columns."""

    of: Mapping[int, RunTimes]
    story_ns: Column
    healed_ns: Column
    end_ns: Column

    def after_heal(self, time_ns: Column) -> Column:
        """The earliest of these times that is not before the last heal; null without a heal."""
        return fn.min(fn.when(time_ns >= self.healed_ns, time_ns))

    def until_heal(self, time_ns: Column) -> Column:
        """Whether a time is not after the last heal; null without a heal, so that nothing is counted."""
        return time_ns <= self.healed_ns

    def per(self, number: Column, unit_ns: int) -> Column:
        """The number per unit of the time from the story's mark to the end; null if that is no time."""
        span = self.end_ns - self.story_ns
        return number * fn.when(span > 0, fn.lit(unit_ns) / span)


def timeline_of(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> Timeline:
    """The runs' timelines, by one job that returns a row for each."""
    times = history.select(
        RUN,
        "time_ns",
        fn.when(is_mark(STORY_BEGINS), fn.col("time_ns")).alias("story_ns"),
        fn.when(is_done(settings.ops.heals), fn.col("time_ns")).alias("healed_ns"),
    ).unionByName(observations.select(RUN, "time_ns"), allowMissingColumns=True)
    rows = times.groupBy(RUN).agg(fn.min("story_ns"), fn.max("healed_ns"), fn.max("time_ns")).collect()
    found = {run: RunTimes(story_ns or 0, healed_ns, end_ns or 0) for run, story_ns, healed_ns, end_ns in rows}
    known = {run: found.get(run, RunTimes()) for run in settings.runs}
    kind = "struct<story_ns: bigint, healed_ns: bigint, end_ns: bigint>"
    times_of_run = of_run({run: asdict(each) for run, each in known.items()}, kind, settings)
    return Timeline(known, *(times_of_run[each.name] for each in fields(RunTimes)))


def is_mark(name: str) -> Column:
    """Whether a row of history is the nemesis's mark of this name."""
    return (fn.col("process") == NEMESIS) & (fn.col("f") == MARK) & (fn.col("value") == json.dumps(name))


def is_done(fs: Iterable[str]) -> Column:
    """Whether a row of history is of a nemesis operation with one of these f, and has no error."""
    is_op = (fn.col("process") == NEMESIS) & (fn.col("type") == "info") & fn.col("f").isin(*fs)
    return is_op & fn.col("error").isNull()


def with_disks(rows: DataFrame, history: DataFrame, erasing: Iterable[str], order: str, *ties: str) -> DataFrame:
    """The rows with `disk`: how many of the operations `erasing` the nemesis had done before on the row's node.

    order is a column of the rows and of history; ties are columns of the rows that order those of equal order.
    """
    nodes = fn.from_json(fn.get_json_object("value", "$.nodes"), "array<int>")
    done = history.where(is_done(erasing))
    erasures = done.select(RUN, fn.explode(nodes).alias("node"), order, fn.lit(1).alias("erased"))
    events = rows.withColumn("erased", fn.lit(0)).unionByName(erasures, allowMissingColumns=True)
    so_far = Window.partitionBy(RUN, "node").orderBy(order, *ties).rowsBetween(Window.unboundedPreceding, 0)
    return events.withColumn("disk", fn.sum("erased").over(so_far)).where("erased = 0").drop("erased")


def nemesis_ops(history: DataFrame, settings: JudgeSettings) -> Mapping[int, Sequence[Op]]:
    """The nemesis's rows of each run, in order: they are few, and come to the driver."""
    rows = history.where(fn.col("process") == NEMESIS).select(RUN, *HISTORY.names).collect()
    found: Mapping[int, list[Op]] = {run: [] for run in settings.runs}
    for row in sorted(rows, key=itemgetter(RUN, "index")):
        columns = row.asDict()
        value = columns["value"]
        found[columns.pop(RUN)].append(Op(**columns | {"value": None if value is None else json.loads(value)}))
    return found
