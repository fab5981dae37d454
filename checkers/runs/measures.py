"""Evaluates the measures of a scenario's side (harness.model.measures) on the tables of a run.

A measure without evidence is left out: a mark that it names was not reached, its table is empty (RPCs were not
recorded), or the event of After or Between never happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, of_run
from checkers.framework.contract import Check, JudgeSettings, no_findings, quantity
from checkers.framework.timeline import nemesis_ops
from harness.model import Op
from harness.model.measures import After, Between, Count, EpochGrowth, Event, Largest, Measure
from harness.model.nemesis_ops import HEAL
from harness.model.story import MARK, STORY_BEGINS

CHECK = "measures"
MS_NS = 1_000_000
IN_ORDER = ("time_ns", "position")


def quantities(history: DataFrame, observations: DataFrame, rpcs: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every measure for which there is evidence, in one job."""
    marks = times_of(history, settings)
    times = of_run(marks, "map<string, bigint>", settings)
    tables = {"observations": observations, "rpcs": rpcs.withColumn("node", fn.col("source"))}
    empty = quantity(history.limit(0), CHECK, "", fn.lit(0), "")
    rows = [
        quantity(_value(measure, tables, times), CHECK, measure.name, fn.col("value"), measure.unit)
        for measure in settings.measures
        if any(_named(measure) <= reached.keys() for reached in marks.values())
    ]
    return reduce(DataFrame.unionAll, rows, empty)


def _named(measure: Measure) -> set[str]:
    """The marks that a measure needs."""
    return {measure.since, getattr(measure, "until", None) or measure.since}


def times_of(history: DataFrame, settings: JudgeSettings) -> Mapping[int, Mapping[str, int]]:
    """By run: when each mark was first reached, and when the last heal began, in run time."""
    return {run: _times_of(ops, settings) for run, ops in nemesis_ops(history, settings).items()}


def _times_of(operations: Iterable[Op], settings: JudgeSettings) -> Mapping[str, int]:
    """A run without the story's mark counts from its beginning."""
    times: dict[str, int] = {}
    for op in operations:
        if op.f == MARK:
            times.setdefault(op.value, op.time_ns)
        elif op.f in settings.ops.heals and op.error is None:
            times[HEAL] = op.time_ns
    return {STORY_BEGINS: 0} | times


def _value(measure: Measure, tables: Mapping[str, DataFrame], times: Column) -> DataFrame:
    """(run, value): a row for each run that reached the marks, null without evidence."""
    is_known = reduce(and_, (times[name].isNotNull() for name in sorted(_named(measure))))
    tables = {name: table.where(is_known) for name, table in tables.items()}
    match measure:
        case Count(event=event):
            happened = _matches(event) & _within(measure, times)
            seen = (
                tables[event.table]
                .groupBy(RUN)
                .agg(fn.count(fn.when(happened, 1)).alias("times"), fn.count("*").alias("rows"))
            )
            return seen.select(RUN, fn.when(fn.col("rows") > 0, fn.col("times")).alias("value"))
        case Largest(event=event):
            sizes = tables["rpcs"].where(_matches(event) & _within(measure, times))
            return sizes.groupBy(RUN).agg(fn.max("size_bytes").cast("double").alias("value"))
        case After(event=event):
            later = tables[event.table].where(_matches(event) & (fn.col("time_ns") > times[measure.since]))
            return later.groupBy(RUN).agg(((fn.min("time_ns") - times[measure.since]) / MS_NS).alias("value"))
        case Between():
            return _between(measure, tables, times)
        case EpochGrowth():
            return _growth(measure, tables["observations"], times)


def _between(measure: Between, tables: Mapping[str, DataFrame], times: Column) -> DataFrame:
    then = fn.when(_matches(measure.then), fn.col("time_ns"))
    after = Window.partitionBy(RUN, "node").orderBy(*IN_ORDER).rowsBetween(1, Window.unboundedFollowing)
    rows = tables[measure.first.table].withColumn("next", fn.first(then, ignorenulls=True).over(after))
    lengths = rows.where(_matches(measure.first) & _within(measure, times)).select(
        RUN, (fn.col("next") - fn.col("time_ns")).alias("length")
    )
    picked = fn.max("length") if measure.pick == "longest" else fn.min("length")
    return lengths.groupBy(RUN).agg((picked / MS_NS).alias("value"))


def _growth(measure: EpochGrowth, observations: DataFrame, times: Column) -> DataFrame:
    """From the highest epoch at the beginning of the window, or the first one known, to the highest at its end."""
    own = observations if measure.node is None else observations.where(fn.col("node") == measure.node)
    before = fn.max(fn.when(fn.col("time_ns") <= times[measure.since], fn.col("epoch")))
    reached = fn.max(fn.when(fn.col("time_ns") <= _end(measure, times), fn.col("epoch")))
    return own.groupBy(RUN).agg((reached - fn.coalesce(before, fn.min("epoch"))).alias("value"))


def _within(measure: Count | Largest | Between, times: Column) -> Column:
    return (fn.col("time_ns") > times[measure.since]) & (fn.col("time_ns") <= _end(measure, times))


def _end(measure: Count | Largest | Between | EpochGrowth, times: Column) -> Column:
    return fn.lit(1 << 62) if measure.until is None else times[measure.until]


def _matches(event: Event) -> Column:
    """Whether a row of the event's table is such an event."""
    return reduce(and_, (fn.col(name).eqNullSafe(fn.lit(value)) for name, value in event.fields))


MEASURES = Check(no_findings, quantities, reads=("history", "observations", "rpcs"), handles_many_runs=True)
