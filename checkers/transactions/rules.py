"""Rules on transactions other than cycles: functions from their effects, or from outcomes of records, to findings.

checkers/transactions/isolation.py defines the names, checkers/transactions/events.py the effects. A log's drains show
whether a record is in it: those that began after the record's transaction had ended.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import finding
from checkers.kafka_log import zombies
from checkers.transactions.edges import VERSION, positions, writes
from harness.model.records.finding import Severity

CHECK = "transactions"
Rule = Callable[[DataFrame], DataFrame]


def sentence(words: str) -> Column:
    """A text with columns' names in braces."""
    pieces = [piece for part in words.split("{") for piece in part.split("}")]
    return fn.concat(*(fn.col(piece) if at % 2 else fn.lit(piece) for at, piece in enumerate(pieces)))


def transaction_finding(
    frame: DataFrame, name: str | Column, words: str, *indexes: str, severity: Severity = "invalid"
) -> DataFrame:
    """A finding for each row; indexes are columns of history indexes, its witnesses."""
    witnesses = fn.array_sort(fn.array_distinct(fn.array_compact(fn.array(*indexes))))
    return finding(frame, CHECK, name, sentence(words), severity, key=fn.col("key"), witnesses=witnesses)


def reads(effects: DataFrame, *whats: str) -> DataFrame:
    """The versions read by operations that ended in ok."""
    return effects.where(fn.col("what").isin(*whats) & fn.col("value").isNotNull()).where("status = 'ok'")


def aborted_reads(effects: DataFrame) -> DataFrame:
    """What a failed transaction wrote is never read."""
    failed = writes(effects).where("writer_status = 'fail'")
    seen = reads(effects, "saw", "drained").groupBy(*VERSION)
    first = seen.agg(fn.min("txn").alias("txn"), fn.min_by("end", "txn").alias("end"), fn.count("*").alias("times"))
    found = first.join(failed, [*VERSION], "inner")
    name = fn.when(fn.col("form") != "log", "G1a").when(fn.col("was_fenced"), zombies.NAME).otherwise("aborted-read")
    failed_so = found.withColumn("so", fn.when(fn.col("was_fenced"), " as its producer was fenced").otherwise(""))
    words = (
        "what a failed transaction wrote is never read: T{writer} wrote {key}={value} and failed{so}, and it was read "
        "{times} times, first by T{txn}"
    )
    return transaction_finding(failed_so, name, words, "txn", "end", "writer", "writer_end")


def zombie_commits(effects: DataFrame) -> DataFrame:
    """A transaction whose producer was fenced before its commit is never committed."""
    words = "a fenced producer commits nothing: T{txn} was committed, though a newer producer had fenced its producer"
    return transaction_finding(effects.where("what = 'fence' and status = 'ok'"), zombies.NAME, words, "txn", "end")


def intermediate_reads(effects: DataFrame) -> DataFrame:
    """Only the last of a transaction's writes to a key is read."""
    seen = reads(effects, "saw").where("last and form != 'log'").join(writes(effects), [*VERSION], "inner")
    words = "only the last write of a transaction is read: T{txn} read {key}={value}, which T{writer} overwrote"
    return transaction_finding(
        seen.where("not is_last and writer != txn"), "G1b", words, "txn", "end", "writer", "writer_end"
    )


def own_reads(effects: DataFrame) -> DataFrame:
    """Records are read once they are committed."""
    words = "records are read once committed: T{txn} polled {key}={value}, which it had sent itself"
    return transaction_finding(effects.where("what = 'own'"), "precommitted-read", words, "txn", "end")


def phantom_reads(effects: DataFrame) -> DataFrame:
    """Reads return written values."""
    written = effects.where("what = 'wrote'").select(*VERSION)
    found = reads(effects, "saw", "drained").join(written, [*VERSION], "left_anti")
    return transaction_finding(
        found,
        "phantom-read",
        "reads return written values: T{txn} read {key}={value}, which no transaction wrote",
        "txn",
        "end",
    )


def contradictions(effects: DataFrame) -> DataFrame:
    """A transaction sees its own writes, and what it read before."""
    words = "a transaction sees its own writes, and what it read before: T{txn} of {key} {value}"
    return transaction_finding(effects.where("what = 'against'"), "internal", words, "txn", "end")


def record_outcomes(effects: DataFrame) -> DataFrame:
    """Each record sent to a log, whether it was read, and whether its log was drained after it."""
    known = reads(effects, "saw", "own", "drained").select(*VERSION).distinct().withColumn("seen", fn.lit(True))
    drains = effects.where("what = 'drained' and value is null").groupBy(RUN, "key").agg(fn.max("txn").alias("drain"))
    sent = writes(effects).where("form = 'log'").join(known, [*VERSION], "left").join(drains, [RUN, "key"], "left")
    drained_after = fn.col("drain") > fn.coalesce("writer_end", "writer")
    return sent.select(
        *(RUN, "key", "value", "writer", "writer_end", "writer_status", "drain"),
        fn.col("seen").isNotNull().alias("was_read"),
        fn.coalesce(drained_after, fn.lit(False)).alias("was_drained"),
    )


def torn_transactions(record_outcomes: DataFrame) -> DataFrame:
    """A transaction is visible as a whole or not at all."""
    record = fn.concat("key", fn.lit("="), "value")
    missing = fn.col("was_drained") & ~fn.col("was_read")
    each = record_outcomes.groupBy(RUN, "writer", "writer_end").agg(
        fn.min(fn.when(fn.col("was_read"), record)).alias("here"), fn.min(fn.when(missing, record)).alias("gone")
    )
    torn = each.where("here is not null and gone is not null").withColumn("key", fn.lit(None))
    words = "a transaction is visible as a whole or not at all: of T{writer} {here} was read, and {gone} is missing"
    return transaction_finding(torn, "torn-transaction", words, "writer", "writer_end")


def lost_writes(record_outcomes: DataFrame) -> DataFrame:
    """Committed records are in the log."""
    lost = record_outcomes.where("writer_status = 'ok' and was_drained and not was_read")
    words = (
        "committed records are in the log: T{writer} wrote {key}={value}, and no read returned it, T{drain} included"
    )
    return transaction_finding(lost, "lost-write", words, "writer", "writer_end", "drain")


def not_drained(record_outcomes: DataFrame) -> DataFrame:
    """Without a drain it is unknown which records a log lacks."""
    open_keys = record_outcomes.where("writer_status = 'ok' and not was_drained").groupBy(RUN, "key")
    words = "cannot check whether T{writer} and later transactions are in the log of {key}: no drain began after it"
    frame = open_keys.agg(fn.min("writer").alias("writer"))
    return transaction_finding(frame, "not-drained", words, "writer", severity="unknown")


def positions_differ(effects: DataFrame) -> DataFrame:
    """A version has one position; for lists values_differ covers this."""
    conflicting = (
        positions(effects)
        .where("form != 'list'")
        .groupBy(*VERSION)
        .agg(*_ends("position"), fn.count("*").alias("times"))
    )
    words = "a version has one position: {key}={value} is at {low} for T{one}, at {high} for T{other}"
    return transaction_finding(conflicting.where("times > 1"), "incompatible-order", words, "one", "other")


def values_differ(effects: DataFrame) -> DataFrame:
    """A position has one version."""
    at = positions(effects).groupBy(RUN, "form", "key", "position").agg(*_ends("value"), fn.count("*").alias("times"))
    words = "a position has one version: at {position} of {key} T{one} has {low}, T{other} has {high}"
    return transaction_finding(at.where("times > 1"), "incompatible-order", words, "one", "other")


def _ends(column: str) -> tuple[Column, ...]:
    """The minimum and the maximum of a column, and the transaction that observed each."""
    least, most = fn.min_by("observer", column), fn.max_by("observer", column)
    return fn.min(column).alias("low"), fn.max(column).alias("high"), least.alias("one"), most.alias("other")


def values_written_twice(effects: DataFrame) -> DataFrame:
    """Versions are identified by their values."""
    twice = effects.where("what = 'wrote'").groupBy(*VERSION)
    counted = twice.agg(fn.min("txn").alias("one"), fn.max("txn").alias("other"), fn.count("*").alias("times"))
    words = "versions are identified by their values, and T{one} and T{other} both wrote {key}={value}"
    return transaction_finding(
        counted.where("times > 1"), "value-written-twice", words, "one", "other", severity="unknown"
    )


RULES: tuple[Rule, ...] = (
    aborted_reads,
    zombie_commits,
    intermediate_reads,
    own_reads,
    phantom_reads,
    contradictions,
    positions_differ,
    values_differ,
    values_written_twice,
)
"""Functions from effects to findings."""

RULES_OF_LOGS: tuple[Rule, ...] = (torn_transactions, lost_writes)
"""Functions from record outcomes to findings."""
