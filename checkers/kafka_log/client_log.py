"""Kafka's log as its clients see it: what was sent, polled and finally drained, partition by partition.

The operations are those of workloads/log.py; the names, and what is taken for legal, are those of Jepsen's Kafka
tests. Values are unique in a partition. A value's index is the rank of its offset among all offsets known of the
partition; delta is how much it grows from one record to the next.

    inconsistent-offsets    an offset holds one value: here sends and reads tell two
    duplicate               a value is at one offset: here they tell two
    lost-write              an acknowledged value at or below the highest offset read is read by somebody; one that was
                            read (brokers show what is committed) is in the last drain that began after that
    unseen                  an acknowledged value is read by somebody, once the partition was drained after it
    aborted-read            no value is read whose send failed
    zombie-write            … failed because its producer was fenced; and by the logs (checkers/zombies.py)
    phantom-read            no value is read before somebody began to send it
    poll-skip               from one poll of a process to its next, delta is not above 1; int-: inside an operation
    nonmonotonic-poll       … is not below 1; int-: inside an operation
    nonmonotonic-send       from one acknowledged send of a process to its next, delta is not below 1; int-: inside one
    nonlinearizable-log     a send that begins after another was acknowledged gets the larger offset
    committed-offset-regression, stale-committed-offset (tolerated)    checkers/group_offsets.py
    settled                 (tolerated) what the brokers' own logs say of sends of unknown end
    int-send-skip           (tolerated) records of one send stand together; no producer promises that
    values-not-unique, not-drained, no-progress (unknown): what could not be judged, and why

Where a process left its assignment to its group (`subscribe`), its polls may skip and go back, and that is tolerated;
an `assign` or `subscribe` begins a new count of its polls. A member begins behind what others of its group have polled
and committed, and no rule rests on where polls begin. A read by an operation that did not end in ok counts where
it can only prove too much was told, never where it would excuse. A send without an acknowledgement may be in the log
or not; where an error was certain that it is not, `aborted-read` holds it to that.

Partitions share nothing that these rules speak of, so the key is what events are spread by. What may live here: words
and the way to the kernel (kernels/log.py). What may not: the rules themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.contract import FINDING_SCHEMA, Check, JudgeSettings, finding
from checkers.framework.keyed import whole_keys
from checkers.kafka_log import group_offsets
from checkers.kafka_log.zombies import is_fenced, zombie_writes
from checkers.kernels import log as kernel
from checkers.kernels.rows import NOBODY, Rows
from harness.model.records.finding import Severity
from harness.model.records.tables import FINDINGS

CHECK = "log"
ASSIGNMENTS = ("assign", "subscribe")
STRICT = {"mode": "FAILFAST"}
"""A value that is not what its operation returns ends the check, in one line that says so, and is not passed over."""

MESSAGES = {
    "inconsistent-offsets": "an offset holds one value: {0}, but {1}",
    "duplicate": "a value is at one offset: {0}, but {1}",
    "lost-write": "what was acknowledged or read stays in the log: {0}, but the {reader} went on without it",
    "unseen": "what was acknowledged is in the log: {0}, but nobody read it, and the {reader} went on without it",
    "aborted-read": "a send that failed leaves nothing in the log: {0}, but {1}",
    "zombie-write": "a fenced producer writes nothing more: {0}, but {1}",
    "phantom-read": "reads return only what was sent: nobody had begun to send it, but {0}",
    "int-poll-skip": "one operation reads every record in turn: {0}, then {1}, with a known record between",
    "int-nonmonotonic-poll": "one operation reads records in order: {0}, then {1}",
    "poll-skip": "a process polls every record in turn: {0}, then {1}, with a known record between",
    "nonmonotonic-poll": "a process polls records in order: {0}, then {1}",
    "int-send-skip": "one send's records stand together: {0}, then {1}, with a known record between",
    "int-nonmonotonic-send": "one send's records are in order: {0}, then {1}",
    "nonmonotonic-send": "a process's sends are in order: {0}, then {1}",
    "nonlinearizable-log": "a send that begins after another was acknowledged stands behind it: {0}, before {1} began",
    "values-not-unique": "records are told apart by their values, and a value was sent twice: {0}, and {1}",
    "not-drained": "nothing tells whether what was acknowledged is in the log: no drain began, and returned, after {0}",
}
"""By finding: the guarantee in words, and the two events that break it; reader is the second's operation alone."""

UNKNOWN = frozenset({"values-not-unique", "not-drained"})
TOLERATED = frozenset({"int-send-skip"})
EXCUSED_BY_A_GROUP = frozenset({"poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"})

WORDS = {
    kernel.SENT: "send of {value}",
    kernel.ACKED: "send of {value} was acknowledged at offset {offset}",
    kernel.FAILED: "send of {value} failed",
    kernel.FENCED: "send of {value} was refused, as its producer was fenced",
    kernel.UNKNOWN: "send of {value} had an unknown end",
    kernel.POLLED: "poll returned {value} at offset {offset}",
    kernel.POLLED_BADLY: "poll that ended badly returned {value} at offset {offset}",
    kernel.DRAINED: "drain returned {value} at offset {offset}",
}


def findings(history: DataFrame, logged: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every broken guarantee of every partition, and what could not be judged; logged are the records of the brokers'
    own logs, where they were kept."""
    found = [judged(events(history), ["index", "place"], judge), no_progress(history, settings)]
    if not group_offsets.rows(history).isEmpty():
        of_group = partial(group_offsets.judge, check=CHECK)
        found.append(judged(group_offsets.offsets(history), ["index"], of_group))
    if not logged.isEmpty():
        found += [settled(history, logged), zombie_writes(logged, sent(history), CHECK)]
    return reduce(DataFrame.unionAll, found)


def sent(history: DataFrame) -> DataFrame:
    """(key, value, call, end): each value that was sent, and the two ends of its send."""
    ends = events(history).where(fn.col("what").isin(kernel.ACKED, kernel.FAILED, kernel.FENCED, kernel.UNKNOWN))
    each = ends.groupBy("key", fn.col("value").cast("string").alias("value"))
    return each.agg(fn.min("call").alias("call"), fn.min("index").alias("end"))


def settled(history: DataFrame, logged: DataFrame) -> DataFrame:
    """One row that counts how many sends with an unknown end are in the brokers' logs, if there were any."""
    unknown = events(history).where(fn.col("what") == kernel.UNKNOWN).select("key", fn.col("value").cast("string"))
    kept = logged.select(fn.concat_ws("-", "topic", "partition").alias("key"), "value", fn.lit(1).alias("kept"))
    counted = unknown.join(kept.distinct(), ["key", "value"], "left").agg(
        fn.count("*").alias("all"), fn.count("kept").alias("kept")
    )
    words = "of %d sends of which nobody was told how they ended, %d are in the brokers' logs, and %d are in none"
    message = fn.format_string(words, "all", "kept", fn.col("all") - fn.col("kept"))
    return finding(counted.where("all > 0"), CHECK, "settled", message, severity="tolerated")


def no_progress(history: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if a workload that was to do something never read a record: such a run proves nothing."""
    ok = history.where((fn.col("process") >= 0) & (fn.col("type") == "ok"))
    reads = ok.where(fn.col("f").isin("poll", "drain") & fn.col("value").rlike(r"\[\s*\["))
    none = reads.agg(fn.count("*").alias("reads")).where((fn.col("reads") == 0) & fn.lit(not settings.idle))
    return finding(none, CHECK, "no-progress", fn.lit("no record of any partition was ever read"), severity="unknown")


def events(history: DataFrame) -> DataFrame:
    """One row for each record of each operation, and one for a drain that found none."""
    what, own = event(), Window.partitionBy("process").orderBy("index")
    is_assignment = fn.col("f").isin(*ASSIGNMENTS) & (fn.col("type") == "ok")
    began = fn.when(fn.col("type") == "invoke", fn.col("index"))
    told = history.where((fn.col("process") >= 0) & fn.col("f").isin("send", "poll", "drain", *ASSIGNMENTS)).select(
        "*",
        what.alias("what"),
        fn.coalesce(fn.last(began, ignorenulls=True).over(own), "index").alias("call"),
        fn.sum(is_assignment.cast("int")).over(own).alias("assignment"),
        fn.coalesce(
            fn.last(fn.when(is_assignment, fn.col("f") == "subscribe"), ignorenulls=True).over(own), fn.lit(False)
        ).alias("subscribed"),
    )
    own_columns = ("index", "call", "process", "assignment", "subscribed", "what")
    each = told.where("what is not null").select(
        fn.col("key").alias("own_key"), *own_columns, fn.posexplode_outer(records()).alias("place", "record")
    )
    return each.where(fn.col("record").isNotNull() | (fn.col("what") == kernel.DRAINED)).select(
        fn.coalesce("record.key", "own_key").alias("key"),
        *own_columns,
        fn.coalesce("place", fn.lit(0)).alias("place"),
        fn.coalesce("record.offset", fn.lit(kernel.NOTHING)).alias("offset"),
        fn.coalesce("record.value", fn.lit(kernel.NOTHING)).alias("value"),
    )


def event() -> Column:
    """What an operation's row says of its records; null where it says nothing."""
    is_send, is_poll, kind = fn.col("f") == "send", fn.col("f") == "poll", fn.col("type").__eq__
    return (
        fn.when(is_send & kind("invoke"), kernel.SENT)
        .when(is_send & kind("ok"), kernel.ACKED)
        .when(is_send & kind("fail") & is_fenced(fn.col("error")), kernel.FENCED)
        .when(is_send & kind("fail"), kernel.FAILED)
        .when(is_send, kernel.UNKNOWN)
        .when(is_poll & kind("ok"), kernel.POLLED)
        .when(is_poll & ~kind("invoke"), kernel.POLLED_BADLY)
        .when((fn.col("f") == "drain") & kind("ok"), kernel.DRAINED)
    )


def records() -> Column:
    """The records of an operation's value, each with key, offset (null where it tells none) and value."""
    value, key = fn.col("value"), fn.col("key")
    listed = fn.when(value.startswith("["), value).otherwise(fn.concat(fn.lit("["), value, fn.lit("]")))
    bare = fn.transform(
        fn.from_json(listed, "array<bigint>", STRICT), lambda sent: record(key, fn.lit(None).cast("bigint"), sent)
    )
    placed = fn.transform(
        fn.from_json(listed, "array<struct<offset: bigint, value: bigint>>", STRICT),
        lambda sent: record(key, sent["offset"], sent["value"]),
    )
    polled = fn.flatten(
        fn.transform(
            fn.map_entries(fn.from_json(value, "map<string, array<array<bigint>>>", STRICT)),
            lambda entry: fn.transform(entry["value"], lambda pair: record(entry["key"], pair[0], pair[1])),
        )
    )
    drained = fn.transform(
        fn.from_json(value, "array<array<bigint>>", STRICT), lambda pair: record(key, pair[0], pair[1])
    )
    is_placed = (fn.col("f") == "send") & value.contains("{")
    return (
        fn.when(is_placed, placed)
        .when(fn.col("f") == "send", bare)
        .when(fn.col("f") == "poll", polled)
        .otherwise(drained)
    )


def record(key: Column, offset: Column, value: Column) -> Column:
    """One record."""
    return fn.struct(key.alias("key"), offset.alias("offset"), value.alias("value"))


def judged(rows: DataFrame, order: Sequence[str], judge: Callable[[str, pa.Table], pa.RecordBatch]) -> DataFrame:
    """What judge finds in the rows of every key, in this order."""
    spread = rows.repartition("key").sortWithinPartitions("key", *order)
    return spread.mapInArrow(partial(judge_all, judge=judge), FINDING_SCHEMA)


def judge_all(
    batches: Iterator[pa.RecordBatch], judge: Callable[[str, pa.Table], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The findings of every key."""
    for table in whole_keys(batches):
        keys = table.column("key").to_numpy()
        starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
        for start, end in pairwise(starts):
            yield judge(str(keys[start]), table.slice(start, end - start))


def judge(key: str, rows: pa.Table) -> pa.RecordBatch:
    """The findings of one key."""
    columns = {name: rows.column(name).to_numpy() for name in kernel.Events.__slots__}
    told = kernel.Events(**columns)
    found = [row(key, name, told, witnesses) for name, pairs in kernel.breaches(told) for witnesses in pairs]
    return pa.RecordBatch.from_pylist(found, FINDINGS)


def row(key: str, name: str, told: kernel.Events, witnesses: Rows) -> dict:
    """One finding as a row of the contract."""
    ends = [int(at) for at in witnesses if at != NOBODY]
    indexes = {int(index[at]) for at in ends for index in (told.call, told.index)}
    reader = f"{WORDS[int(told.what[ends[-1]])].split()[0]} {span(told, ends[-1])}"
    return {
        "check": CHECK,
        "name": name,
        "severity": severity(name, bool(told.subscribed[ends[-1]])),
        "message": f"key {key}: {MESSAGES[name].format(*(describe(told, at) for at in ends), reader=reader)}",
        "key": key,
        "witnesses": sorted(indexes),
        "count": 1,
    }


def severity(name: str, subscribed: bool) -> Severity:
    """What a finding weighs."""
    if name in TOLERATED or (subscribed and name in EXCUSED_BY_A_GROUP):
        return "tolerated"
    return "unknown" if name in UNKNOWN else "invalid"


def describe(told: kernel.Events, at: int) -> str:
    """An event in words, e.g. `send of 3 was acknowledged at offset 7 (index 4 to 9)`."""
    offset = "none" if told.offset[at] == kernel.NOTHING else told.offset[at]
    return f"{WORDS[int(told.what[at])].format(value=told.value[at], offset=offset)} {span(told, at)}"


def span(told: kernel.Events, at: int) -> str:
    """Where an event's operation is in the history, e.g. `(index 4 to 9)`."""
    call, index = told.call[at], told.index[at]
    return f"(index {call} to {index})" if call != index else f"(index {index})"


LOG_CHECK = Check(findings, reads=("history", "records"))
