"""The dependencies between transactions: joins on Spark over their effects.

    ww  the writers of a version and of the next one of its key
    wr  the writer of the version that the other's read ends with
    rw  a read ends with a version whose successor the other wrote; not in a log, which is read in pieces
    process, realtime  the order on one process, and among all

The order of versions is given: by an element's position in a list, by positions, by offsets. A failed transaction wrote
nothing, so it has no edges; if its writes are seen, that is a finding of its own.

Contains edges, with the columns that describe them.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.transactions.cycles import LOG_WW, PROCESS, RW, WR, WW
from checkers.transactions.events import NOWHERE

VERSION = (RUN, "form", "key", "value")


def writes(effects: DataFrame) -> DataFrame:
    """(run, form, key, value, writer, writer_end, writer_status, was_fenced, is_last): each value written once.

    The writer of a value that was written twice is ambiguous.
    """
    grouped = effects.where("what = 'wrote'").groupBy(*VERSION)
    ends = {"end": "writer_end", "status": "writer_status", "fenced": "was_fenced"}
    first = {"txn": "writer", **ends, "last": "is_last"}
    alone = grouped.agg(*(fn.first(name).alias(alias) for name, alias in first.items()), fn.count("*").alias("times"))
    return alone.where("times = 1").drop("times")


def positions(effects: DataFrame) -> DataFrame:
    """(run, form, key, value, position, observer): each version's positions, and the first observer of each."""
    known = effects.where("value is not null and position >= 0")
    return known.groupBy(*VERSION, "position").agg(fn.min("txn").alias("observer"))


def versions(effects: DataFrame) -> DataFrame:
    """(run, form, key, value, position, writer, following, following_writer, is_first), in order."""
    committed_writes = writes(effects).where("writer_status != 'fail'")
    in_order = Window.partitionBy(RUN, "form", "key").orderBy("position", "value")
    return (
        agreed(positions(effects))
        .join(committed_writes, [*VERSION], "inner")
        .select(
            *VERSION,
            "position",
            "writer",
            fn.lead("value").over(in_order).alias("following"),
            fn.lead("writer").over(in_order).alias("following_writer"),
            (fn.row_number().over(in_order) == 1).alias("is_first"),
        )
    )


def agreed(positions: DataFrame) -> DataFrame:
    """The positions of keys on whose order all reads agree; other keys yield no edges."""
    of_version, of_place, of_key = (
        Window.partitionBy(*own) for own in (VERSION, (RUN, "form", "key", "position"), (RUN, "form", "key"))
    )
    counted = positions.withColumn("most", fn.greatest(fn.count("*").over(of_version), fn.count("*").over(of_place)))
    return counted.withColumn("most", fn.max("most").over(of_key)).where("most = 1").drop("most", "observer")


def edges(transactions: DataFrame, effects: DataFrame) -> DataFrame:
    """(run, source, target, kind, key, value, following): every edge but those of real time."""
    known = versions(effects).localCheckpoint()
    reads = effects.where("what = 'saw' and last and status != 'fail'")
    kinds = [ww(known), wr(effects, reads), rw(known, reads), rw_of_nothing(known, reads), process(transactions)]
    return reduce(DataFrame.unionAll, kinds)


def ww(known: DataFrame) -> DataFrame:
    """From a version's writer to its successor's."""
    kind = fn.when(fn.col("form") == "log", LOG_WW).otherwise(WW)
    return edge(known, "writer", "following_writer", kind)


def wr(effects: DataFrame, reads: DataFrame) -> DataFrame:
    """From a version's writer to its readers."""
    committed_writes = writes(effects).where("writer_status != 'fail'")
    read = reads.select(*VERSION, "txn").join(committed_writes, [*VERSION], "inner")
    return edge(read.withColumn("following", fn.lit(None)), "writer", "txn", fn.lit(WR))


def rw(known: DataFrame, reads: DataFrame) -> DataFrame:
    """From a version's readers to its successor's writer."""
    read = reads.where("form != 'log'").select(*VERSION, "txn").join(known, [*VERSION], "inner")
    return edge(read, "txn", "following_writer", fn.lit(RW))


def rw_of_nothing(known: DataFrame, reads: DataFrame) -> DataFrame:
    """From readers that saw no version yet to the first version's writer."""
    nothing = reads.where((fn.col("position") == NOWHERE) & (fn.col("form") != "log")).select(RUN, "form", "key", "txn")
    first = known.where("is_first").select(RUN, "form", "key", fn.col("value").alias("following"), "writer")
    read = nothing.join(first, [RUN, "form", "key"], "inner").withColumn("value", fn.lit(None))
    return edge(read, "txn", "writer", fn.lit(RW))


def process(transactions: DataFrame) -> DataFrame:
    """From each transaction of a process to its next."""
    own = Window.partitionBy(RUN, "process").orderBy("txn")
    took_place = transactions.where("f = 'txn' and status != 'fail'")
    pairs = took_place.select(
        RUN,
        "txn",
        fn.lead("txn").over(own).alias("after"),
        fn.col("process").cast("string").alias("key"),
        *(fn.lit(None).cast("string").alias(name) for name in ("value", "following")),
    )
    return edge(pairs, "txn", "after", fn.lit(PROCESS))


def edge(frame: DataFrame, source: str, target: str, kind: Column) -> DataFrame:
    """One edge for each row with two different ends."""
    ends = fn.col(source).alias("source"), fn.col(target).alias("target")
    description = (fn.col(name).cast("string").alias(name) for name in ("key", "value", "following"))
    edges = frame.select(RUN, *ends, kind.cast("int").alias("kind"), *description)
    return edges.where("source is not null and target is not null and source != target")
