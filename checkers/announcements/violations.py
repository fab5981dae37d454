"""The shape of what the rules on announcements return, and the operations that witness it.

Contains no rule.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from harness.model import NEMESIS
from harness.model.nemesis_ops import NemesisOps

WITNESSES = 4
"""How many of the nemesis's operations a finding names."""


def broken(rows: DataFrame, name: str, message: Column, time_ns: Column | None = None) -> DataFrame:
    """(run, name, message, node, time_ns): a violation for each row, which has the rest unless time_ns is given."""
    time_ns = fn.col("time_ns") if time_ns is None else time_ns
    return rows.select(
        RUN,
        fn.lit(name).alias("name"),
        message.alias("message"),
        fn.col("node").cast("int").alias("node"),
        time_ns.cast("bigint").alias("time_ns"),
    )


def with_operations(found: DataFrame, history: DataFrame, ops: NemesisOps) -> DataFrame:
    """The rows with `witnesses`: the nemesis's last operations that ended or began before them."""
    idle = sorted(ops.waits | ops.momentary)
    done = history.where((fn.col("process") == NEMESIS) & ~fn.col("f").isin(*idle))
    done = done.select(fn.col(RUN).alias("of_run"), "index", fn.col("time_ns").alias("done_ns"))
    is_before = (fn.col("of_run") == fn.col(RUN)) & (fn.col("done_ns") <= fn.col("time_ns"))
    before = found.join(done, on=is_before, how="left")
    latest_first = fn.sort_array(fn.collect_set("index"), asc=False)
    witnesses = fn.sort_array(fn.slice(latest_first, 1, WITNESSES)).alias("witnesses")
    return before.groupBy(*found.columns).agg(witnesses)
