"""A check of etcd: the term that a node reports never goes back. It has a module of its own because it needs Spark."""

from pyspark.sql import Window
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, finding


def findings(_history, observations, _settings):
    """term-went-back: a node reported a lower term than before."""
    before = fn.max("epoch").over(
        Window.partitionBy("node").orderBy("time_ns").rowsBetween(Window.unboundedPreceding, -1)
    )
    lower = observations.where("source = 'status'").withColumn("before", before).where("epoch < before")
    message = fn.format_string("n%d reported term %d after term %d", "node", "epoch", "before")
    return finding(lower, "etcd-terms", "term-went-back", message, node=fn.col("node"), time_ns=fn.col("time_ns"))


TERMS = Check(findings, judges="observation")
