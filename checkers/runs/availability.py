"""How well clients were served: how many operations succeeded, how fast, and the longest time without success.

Counted from the story's mark on, over clients' operations: ok_count, fail_count, info_count; ok_per_second;
unavailable_ms_max, the longest time without an ok; clients_recovered and clients_recover_ms, the first ok after the
last heal; latency_F_ms_p50, _p95, _p99, _max of the operations of each f that ended in ok. Percentiles are exact. If
faults were in place for a while, also latency_F_in_faults_ms_* of the operations open during them, and
latency_F_out_of_faults_ms_* of the others.

Finding: `no-progress` (unknown), a workload that should do something never got an ok, so the run proves nothing. The
checks of the workload judge what operations returned.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, missing, of_run
from checkers.framework.contract import Check, JudgeSettings, finding, quantities_of, quantity
from checkers.framework.timeline import Timeline, nemesis_ops, timeline_of
from harness.model.records.fault_intervals import fault_intervals, spans_of

CHECK = "availability"
MS_NS = 1_000_000
SECOND_NS = 1_000_000_000
SPANS = "array<array<bigint>>"
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """Whether any operation succeeded."""
    done = history.where((fn.col("process") >= 0) & (fn.col("type") == "ok"))
    none = missing(done, settings).where(fn.lit(not settings.idle))
    return finding(none, CHECK, "no-progress", fn.lit("no operation of any client succeeded"), severity="unknown")


def quantities(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The quantities above; none for a run without clients."""
    timeline = timeline_of(history, observations.limit(0), settings)
    ends = completions(history).where(fn.col("time_ns") > timeline.story_ns)
    parts = [counts(ends, timeline), gaps(ends, timeline), latencies(ends, fn.lit(""))]
    spans = {
        run: spans_of(fault_intervals(ops, timeline.of[run].end_ns, settings.ops))
        for run, ops in nemesis_ops(history, settings).items()
    }
    if any(spans.values()):
        of_row = of_run(spans, SPANS, settings)
        place = fn.when(is_during(of_row), "_in_faults").otherwise("_out_of_faults")
        parts.append(latencies(ends.where(fn.size(of_row) > 0), place))
    return reduce(DataFrame.unionAll, parts)


def is_during(spans: Column) -> Column:
    """Whether an operation was open during any of these spans, pairs of a begin and an end."""
    begun = fn.col("time_ns") - fn.col("latency_ns")
    return fn.exists(spans, lambda span: (begun <= span[1]) & (fn.col("time_ns") >= span[0]))


def completions(history: DataFrame) -> DataFrame:
    """Clients' completions with latency: a process has one open operation, so its previous row is the invocation."""
    clients = history.where(fn.col("process") >= 0)
    own = Window.partitionBy(RUN, "process").orderBy("index")
    latency = fn.when(fn.lag("type").over(own) == "invoke", fn.col("time_ns") - fn.lag("time_ns").over(own))
    return clients.select(RUN, "index", "time_ns", "type", "f", latency.alias("latency_ns")).where("type != 'invoke'")


def counts(ends: DataFrame, timeline: Timeline) -> DataFrame:
    """How operations ended, throughput, and the first ok after the last heal."""
    numbers = [fn.count(fn.when(fn.col("type") == kind, 1)).alias(f"{kind}_count") for kind in ("ok", "fail", "info")]
    back = timeline.after_heal(fn.when(fn.col("type") == "ok", fn.col("time_ns"))).alias("back_ns")
    row = ends.groupBy(RUN).agg(fn.count("*").alias("ended"), *numbers, back).where("ended > 0")
    recovered = fn.when(timeline.healed_ns.isNotNull(), fn.col("back_ns").isNotNull().cast("int"))
    measured = row.withColumns(
        {
            "ok_per_second": timeline.per(fn.col("ok_count"), SECOND_NS),
            "clients_recovered": recovered,
            "clients_recover_ms": (fn.col("back_ns") - timeline.healed_ns) / MS_NS,
        }
    )
    units = {"ok_count": "ops", "fail_count": "ops", "info_count": "ops", "ok_per_second": "ops/s"}
    return quantities_of(measured, CHECK, units | {"clients_recovered": "runs", "clients_recover_ms": "ms"})


def gaps(ends: DataFrame, timeline: Timeline) -> DataFrame:
    """The longest time without an ok, from the mark to the first and from the last to the end included."""
    ok = fn.col("type") == "ok"
    before = Window.partitionBy(RUN).orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    last_ok = fn.coalesce(fn.max(fn.when(ok, fn.col("time_ns"))).over(before), timeline.story_ns)
    gap = fn.when(ok, fn.col("time_ns") - last_ok)
    tail = timeline.end_ns - fn.coalesce(fn.max(fn.when(ok, fn.col("time_ns"))), timeline.story_ns)
    row = (
        ends.withColumn("gap", gap)
        .groupBy(RUN)
        .agg(fn.when(fn.count("*") > 0, fn.greatest(fn.max("gap"), tail) / MS_NS).alias("unavailable_ms_max"))
    )
    return quantities_of(row, CHECK, {"unavailable_ms_max": "ms"})


def latencies(ends: DataFrame, place: Column) -> DataFrame:
    """Latency percentiles of successful operations, by f and place; both are part of the quantity's name."""
    ok = ends.where((fn.col("type") == "ok") & fn.col("latency_ns").isNotNull())
    percentiles = fn.percentile("latency_ns", list(PERCENTILES.values()))
    names = fn.array(*map(fn.lit, PERCENTILES))
    each = ok.groupBy(RUN, "f", place.alias("place")).agg(percentiles.alias("ns"))
    rows = each.select(RUN, "f", "place", fn.explode(fn.arrays_zip(names.alias("name"), "ns")).alias("row"))
    name = fn.format_string("latency_%s%s_ms_%s", "f", "place", fn.col("row.name"))
    return quantity(rows, CHECK, name, fn.col("row.ns") / MS_NS, "ms")


AVAILABILITY = Check(findings, quantities, judges="operation", handles_many_runs=True)
