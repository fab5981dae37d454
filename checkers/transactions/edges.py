"""Which transaction depends on which, and how: joins on Spark over the effects of transactions.

    ww  a version and the next one of its key have these two writers
    wr  the one wrote the version that the other's read ends with
    rw  the one's read ends with a version whose successor the other wrote; not in a log, which is read in pieces
    process, realtime  who ran before whom, on one process and among all

The order of versions is given: by the place of an element in a list, by positions, by offsets. A transaction that
failed wrote nothing, so it has no edges; what it is seen to have written is a finding of its own.

What may live here: edges, with what it takes to tell them in words. What may not: cycles.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.transactions.cycles import LOG_WW, PROCESS, RW, WR, WW
from checkers.transactions.events import NOWHERE

VERSION = ("form", "key", "value")


def writes(effects: DataFrame) -> DataFrame:
    """(form, key, value, writer, writer_end, writer_status, was_fenced, is_last): each value that was written once.

    Where a value was written twice, nobody can say by whom what was read was written.
    """
    grouped = effects.where("what = 'wrote'").groupBy(*VERSION)
    ends = {"end": "writer_end", "status": "writer_status", "fenced": "was_fenced"}
    first = {"txn": "writer", **ends, "last": "is_last"}
    alone = grouped.agg(*(fn.first(name).alias(alias) for name, alias in first.items()), fn.count("*").alias("times"))
    return alone.where("times = 1").drop("times")


def positions(effects: DataFrame) -> DataFrame:
    """(form, key, value, position, teller): every position that a version was told to have, and who told it first."""
    told = effects.where("value is not null and position >= 0")
    return told.groupBy(*VERSION, "position").agg(fn.min("txn").alias("teller"))


def versions(effects: DataFrame) -> DataFrame:
    """(form, key, value, position, writer, following, following_writer, is_first), in order."""
    theirs = writes(effects).where("writer_status != 'fail'")
    in_order = Window.partitionBy("form", "key").orderBy("position", "value")
    return (
        agreed(positions(effects))
        .join(theirs, [*VERSION], "inner")
        .select(
            *VERSION,
            "position",
            "writer",
            fn.lead("value").over(in_order).alias("following"),
            fn.lead("writer").over(in_order).alias("following_writer"),
            (fn.row_number().over(in_order) == 1).alias("is_first"),
        )
    )


def agreed(told: DataFrame) -> DataFrame:
    """The positions of keys on whose order all who read them agree: of the others nothing follows."""
    of_version, of_place, of_key = (
        Window.partitionBy(*own) for own in (VERSION, ("form", "key", "position"), ("form", "key"))
    )
    counted = told.withColumn("most", fn.greatest(fn.count("*").over(of_version), fn.count("*").over(of_place)))
    return counted.withColumn("most", fn.max("most").over(of_key)).where("most = 1").drop("most", "teller")


def edges(transactions: DataFrame, effects: DataFrame) -> DataFrame:
    """(source, target, kind, key, value, following): every edge but those of real time."""
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
    theirs = writes(effects).where("writer_status != 'fail'")
    read = reads.select(*VERSION, "txn").join(theirs, [*VERSION], "inner")
    return edge(read.withColumn("following", fn.lit(None)), "writer", "txn", fn.lit(WR))


def rw(known: DataFrame, reads: DataFrame) -> DataFrame:
    """From a version's readers to its successor's writer."""
    read = reads.where("form != 'log'").select(*VERSION, "txn").join(known, [*VERSION], "inner")
    return edge(read, "txn", "following_writer", fn.lit(RW))


def rw_of_nothing(known: DataFrame, reads: DataFrame) -> DataFrame:
    """From who saw that there was no version yet to the first one's writer."""
    nothing = reads.where((fn.col("position") == NOWHERE) & (fn.col("form") != "log")).select("form", "key", "txn")
    first = known.where("is_first").select("form", "key", fn.col("value").alias("following"), "writer")
    read = nothing.join(first, ["form", "key"], "inner").withColumn("value", fn.lit(None))
    return edge(read, "txn", "writer", fn.lit(RW))


def process(transactions: DataFrame) -> DataFrame:
    """From each transaction of a process to its next."""
    own = Window.partitionBy("process").orderBy("txn")
    took_place = transactions.where("f = 'txn' and status != 'fail'")
    pairs = took_place.select(
        "txn",
        fn.lead("txn").over(own).alias("after"),
        fn.col("process").cast("string").alias("key"),
        *(fn.lit(None).cast("string").alias(name) for name in ("value", "following")),
    )
    return edge(pairs, "txn", "after", fn.lit(PROCESS))


def edge(frame: DataFrame, source: str, target: str, kind: Column) -> DataFrame:
    """One edge for each row whose ends are two."""
    ends = fn.col(source).alias("source"), fn.col(target).alias("target")
    told = (fn.col(name).cast("string").alias(name) for name in ("key", "value", "following"))
    edges = frame.select(*ends, kind.cast("int").alias("kind"), *told)
    return edges.where("source is not null and target is not null and source != target")
