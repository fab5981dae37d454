"""Many runs in one query: each table has the column `run`, the number of the row's run among those judged together.

A query takes longer to build than a small run takes to read, so a check builds its queries once for all the runs. It
groups, partitions and joins by `run` besides its own columns. Three things need more than that:

    missing(rows, settings)         an aggregate over nothing is a row, a group without rows is none: the runs that
                                    have no row of a kind
    of_run(values, type, settings)  what follows from a run's few rows in the driver, e.g. from the nemesis's
                                    operations, comes back as a column
    runs_with(rows, settings)       which runs have any row

of_run is an array indexed by the run's number, which Spark evaluates once; for a single run it is a constant.

Contains these three. Reading the tables of many runs is in tables.py, running checks on them in checkers/run_checks.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from checkers.framework.contract import JudgeSettings

RUN: Final = "run"


def numbers(spark: SparkSession, settings: JudgeSettings) -> DataFrame:
    """(run): a row for each run that is judged."""
    if len(settings.runs) == 1:
        return spark.range(1).select(fn.lit(settings.runs[0]).alias(RUN))
    listed = fn.from_json(fn.lit(json.dumps(settings.runs)), "array<int>")
    return spark.range(0, 1, 1, 1).select(fn.explode(listed).alias(RUN))


def missing(rows: DataFrame, settings: JudgeSettings) -> DataFrame:
    """(run): the runs without any of these rows."""
    if len(settings.runs) == 1:
        # One row is enough, and avoids reading a large table to its end.
        none = rows.limit(1).agg(fn.count("*").alias("rows")).where("rows = 0")
        return none.select(fn.lit(settings.runs[0]).alias(RUN))
    return numbers(rows.sparkSession, settings).join(rows.select(RUN), on=RUN, how="left_anti").select(RUN)


def runs_with(rows: DataFrame, settings: JudgeSettings) -> frozenset[int]:
    """The runs that have any of these rows, by one job."""
    if len(settings.runs) == 1:
        return frozenset() if rows.isEmpty() else frozenset(settings.runs)
    return frozenset(row[RUN] for row in rows.select(RUN).distinct().collect())


def of_run(values: Mapping[int, Any], kind: str, settings: JudgeSettings) -> Column:
    """The value of a row's run; values has one for each run that is judged, in JSON's types, kind is Spark's."""
    if len(settings.runs) == 1:
        return fn.get(_array([values[settings.runs[0]]], kind), fn.lit(0))
    return fn.get(_array([values.get(run) for run in range(max(settings.runs) + 1)], kind), fn.col(RUN))


def _array(values: list[Any], kind: str) -> Column:
    """A constant: one call of Java, however many values there are."""
    return fn.from_json(fn.lit(json.dumps(values)), f"array<{kind}>")
