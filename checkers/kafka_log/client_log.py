"""Kafka's log as its clients see it: what was sent, polled and finally drained, partition by partition.

The operations are those of workloads/log.py. The names, and what counts as legal, follow Jepsen's Kafka tests. Values
are unique in a partition. A value's index is the rank of its offset among all known offsets of the partition; delta is
the difference of indexes from one record to the next.

    inconsistent-offsets    an offset has one value: sends and reads give it two
    duplicate               a value has one offset: sends and reads give it two
    lost-write              an acknowledged value at or below the highest offset read is read by some operation; a value
                            that was read (brokers return committed records) is in the last drain that began after that
    unseen                  an acknowledged value is read by some operation, once the partition was drained after it
    aborted-read            no value is read whose send failed
    zombie-write            … failed because its producer was fenced; and by the logs (checkers/kafka_log/zombies.py)
    phantom-read            no value is read before its send began
    poll-skip               from one poll of a process to its next, delta is not above 1; int-: inside an operation
    nonmonotonic-poll       … is not below 1; int-: inside an operation
    nonmonotonic-send       from one acknowledged send of a process to its next, delta is not below 1; int-: inside one
    nonlinearizable-log     a send that begins after another was acknowledged gets the larger offset
    committed-offset-regression, stale-committed-offset (tolerated)    checkers/kafka_log/group_offsets.py
    settled                 (tolerated) how many sends with an unknown outcome the brokers' own logs contain
    leader-acknowledged     (tolerated) … how many that the leader alone acknowledged (acks=1)
    int-send-skip           (tolerated) records of one send are adjacent; no producer promises that
    values-not-unique, not-drained, no-progress (unknown): what could not be checked, and why

If a process left its assignment to its group (`subscribe`), its polls may skip and go back, which is tolerated; an
`assign` or `subscribe` starts a new sequence of polls. A member may begin behind what others of its group have polled
and committed, and no rule depends on where polls begin. A read by an operation that did not end in ok counts as
evidence against the log, never in its favour. A send without an acknowledgement may be in the log or not; if an error
proves that it is not, `aborted-read` relies on that. With acks=1 an acknowledged send may be lost, too: Kafka promises
only that it was in the leader's log.

No rule spans partitions, so events are partitioned by key. Contains the messages and the way to the kernel. The rules
are in checkers/kernels/log.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.by_run import RUN, missing
from checkers.framework.contract import FINDINGS_OF_RUNS, Check, JudgeSettings, finding
from checkers.framework.keyed import key_of_run, origin, whole_keys
from checkers.kafka_log import group_offsets
from checkers.kafka_log.zombies import is_fenced, zombie_writes
from checkers.kernels import log as kernel
from checkers.kernels.rows import NOBODY, Rows
from harness.model.records.finding import Severity
from harness.model.records.tables import FINDINGS

CHECK = "log"
ASSIGNMENTS = ("assign", "subscribe")
STRICT = {"mode": "FAILFAST"}
"""A malformed value crashes the check with one line that names it; it is never skipped."""

MESSAGES = {
    "inconsistent-offsets": "an offset has one value: {0}, but {1}",
    "duplicate": "a value has one offset: {0}, but {1}",
    "lost-write": "acknowledged and read values stay in the log: {0}, but the {reader} did not return it",
    "unseen": "acknowledged values are in the log: {0}, but no read returned it, the {reader} included",
    "aborted-read": "a failed send leaves nothing in the log: {0}, but {1}",
    "zombie-write": "a fenced producer writes nothing: {0}, but {1}",
    "phantom-read": "reads return only sent values: {0}, but no send of it had begun",
    "int-poll-skip": "one operation reads every record: {0}, then {1}, with a known record between",
    "int-nonmonotonic-poll": "one operation reads records in order: {0}, then {1}",
    "poll-skip": "a process polls every record: {0}, then {1}, with a known record between",
    "nonmonotonic-poll": "a process polls records in order: {0}, then {1}",
    "int-send-skip": "one send's records are adjacent: {0}, then {1}, with a known record between",
    "int-nonmonotonic-send": "one send's records are in order: {0}, then {1}",
    "nonmonotonic-send": "a process's sends are in order: {0}, then {1}",
    "nonlinearizable-log": "a send that begins after another was acknowledged is after it: {0}, before {1} began",
    "values-not-unique": "records are identified by their values, and a value was sent twice: {0}, and {1}",
    "not-drained": "cannot check whether acknowledged values are in the log: no drain that returned began after {0}",
}
"""By finding: the guarantee, and the two events that break it; reader is the operation of the second."""

UNKNOWN = frozenset({"values-not-unique", "not-drained"})
TOLERATED = frozenset({"int-send-skip"})
EXCUSED_BY_A_GROUP = frozenset({"poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"})

DESCRIPTIONS = {
    kernel.SENT: "send of {value}",
    kernel.ACKED: "send of {value} was acknowledged at offset {offset}",
    kernel.FAILED: "send of {value} failed",
    kernel.FENCED: "send of {value} was refused, as its producer was fenced",
    kernel.UNKNOWN: "send of {value} had an unknown outcome",
    kernel.BY_LEADER: "send of {value} was acknowledged by the leader alone at offset {offset}",
    kernel.POLLED: "poll returned {value} at offset {offset}",
    kernel.POLLED_BADLY: "poll that did not succeed returned {value} at offset {offset}",
    kernel.DRAINED: "drain returned {value} at offset {offset}",
}


def findings(history: DataFrame, logged: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every violated guarantee of every partition, and what could not be checked; logged are the records of the
    brokers' own logs, if they were kept."""
    found = [judged(events(history), ["index", "place"], judge, settings), no_progress(history, settings)]
    if not group_offsets.rows(history).isEmpty():
        of_group = partial(group_offsets.judge, check=CHECK)
        found.append(judged(group_offsets.offsets(history), ["index"], of_group, settings))
    if not logged.isEmpty():
        found += [
            *(resolved_by_logs(history, logged, kind) for kind in RESOLVED),
            zombie_writes(logged, sent(history), CHECK),
        ]
    return reduce(DataFrame.unionAll, found)


def sent(history: DataFrame) -> DataFrame:
    """(run, key, value, call, end): each value that was sent, and the indexes of its send."""
    kinds = (kernel.ACKED, kernel.FAILED, kernel.FENCED, kernel.UNKNOWN, kernel.BY_LEADER)
    ends = events(history).where(fn.col("what").isin(*kinds))
    each = ends.groupBy(RUN, "key", fn.col("value").cast("string").alias("value"))
    return each.agg(fn.min("call").alias("call"), fn.min("index").alias("end"))


RESOLVED = {
    kernel.UNKNOWN: ("settled", "sends with an unknown outcome"),
    kernel.BY_LEADER: ("leader-acknowledged", "sends that the leader alone acknowledged"),
}
"""Sends that may be in the log or not: the finding that counts them, and what it calls them."""


def resolved_by_logs(history: DataFrame, logged: DataFrame, kind: int) -> DataFrame:
    """One finding that counts how many sends of this kind the brokers' logs contain; none without such, and none for a
    run without logs."""
    name, sends = RESOLVED[kind]
    unknown = events(history).where(fn.col("what") == kind).select(RUN, "key", fn.col("value").cast("string"))
    kept = logged.select(RUN, fn.concat_ws("-", "topic", "partition").alias("key"), "value", fn.lit(1).alias("kept"))
    of_logged = unknown.join(logged.select(RUN).distinct(), RUN, "left_semi")
    counted = (
        of_logged.join(kept.distinct(), [RUN, "key", "value"], "left")
        .groupBy(RUN)
        .agg(fn.count("*").alias("all"), fn.count("kept").alias("kept"))
    )
    words = f"of %d {sends}, %d are in the brokers' logs and %d are not"
    message = fn.format_string(words, "all", "kept", fn.col("all") - fn.col("kept"))
    return finding(counted.where("all > 0"), CHECK, name, message, severity="tolerated")


def no_progress(history: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if a workload that should do something never read a record: such a run proves nothing."""
    ok = history.where((fn.col("process") >= 0) & (fn.col("type") == "ok"))
    reads = ok.where(fn.col("f").isin("poll", "drain") & fn.col("value").rlike(r"\[\s*\["))
    none = missing(reads, settings).where(fn.lit(not settings.idle))
    return finding(none, CHECK, "no-progress", fn.lit("no record of any partition was ever read"), severity="unknown")


def events(history: DataFrame) -> DataFrame:
    """One row for each record of each operation, and one for a drain of an empty log."""
    what, own = event(), Window.partitionBy(RUN, "process").orderBy("index")
    is_assignment = fn.col("f").isin(*ASSIGNMENTS) & (fn.col("type") == "ok")
    began = fn.when(fn.col("type") == "invoke", fn.col("index"))
    operations = history.where(
        (fn.col("process") >= 0) & fn.col("f").isin("send", "poll", "drain", *ASSIGNMENTS)
    ).select(
        "*",
        what.alias("what"),
        fn.coalesce(fn.last(began, ignorenulls=True).over(own), "index").alias("call"),
        fn.sum(is_assignment.cast("int")).over(own).alias("assignment"),
        fn.coalesce(
            fn.last(fn.when(is_assignment, fn.col("f") == "subscribe"), ignorenulls=True).over(own), fn.lit(False)
        ).alias("subscribed"),
    )
    own_columns = (RUN, "index", "call", "process", "assignment", "subscribed", "what")
    each = operations.where("what is not null").select(
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
    """The kind of event that an operation's row is for its records; null for none."""
    is_send, is_poll, kind = fn.col("f") == "send", fn.col("f") == "poll", fn.col("type").__eq__
    return (
        fn.when(is_send & kind("invoke"), kernel.SENT)
        .when(is_send & kind("ok") & fn.col("value").contains('"acks"'), kernel.BY_LEADER)
        .when(is_send & kind("ok"), kernel.ACKED)
        .when(is_send & kind("fail") & is_fenced(fn.col("error")), kernel.FENCED)
        .when(is_send & kind("fail"), kernel.FAILED)
        .when(is_send, kernel.UNKNOWN)
        .when(is_poll & kind("ok"), kernel.POLLED)
        .when(is_poll & ~kind("invoke"), kernel.POLLED_BADLY)
        .when((fn.col("f") == "drain") & kind("ok"), kernel.DRAINED)
    )


def records() -> Column:
    """The records of an operation's value, each with key, offset (null if unknown) and value."""
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


def judged(
    rows: DataFrame, order: Sequence[str], judge: Callable[[str, pa.Table], pa.RecordBatch], settings: JudgeSettings
) -> DataFrame:
    """The findings of judge about each key's rows, sorted by order."""
    keyed = rows.withColumn("key", key_of_run(fn.col("key"), settings))
    spread = keyed.drop(RUN).repartition("key").sortWithinPartitions("key", *order)
    of_keys = partial(judge_all, judge=judge, settings=settings)
    return spread.mapInArrow(of_keys, from_arrow_schema(FINDINGS_OF_RUNS))


def judge_all(
    batches: Iterator[pa.RecordBatch], judge: Callable[[str, pa.Table], pa.RecordBatch], settings: JudgeSettings
) -> Iterator[pa.RecordBatch]:
    """The findings about every key."""
    for table in whole_keys(batches):
        keys = table.column("key").to_numpy()
        starts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(keys)]
        for start, end in pairwise(starts):
            run, key = origin(str(keys[start]), settings)
            found = judge(key, table.slice(start, end - start))
            runs = pa.array([run] * found.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([runs, *found.columns], schema=FINDINGS_OF_RUNS)


def judge(key: str, rows: pa.Table) -> pa.RecordBatch:
    """The findings about one key."""
    columns = {name: rows.column(name).to_numpy() for name in kernel.Events.__slots__}
    events = kernel.Events(**columns)
    found = [row(key, name, events, witnesses) for name, pairs in kernel.breaches(events) for witnesses in pairs]
    return pa.RecordBatch.from_pylist(found, FINDINGS)


def row(key: str, name: str, events: kernel.Events, witnesses: Rows) -> dict:
    """One finding as a row of the contract."""
    ends = [int(at) for at in witnesses if at != NOBODY]
    indexes = {int(index[at]) for at in ends for index in (events.call, events.index)}
    reader = f"{DESCRIPTIONS[int(events.what[ends[-1]])].split()[0]} {span(events, ends[-1])}"
    return {
        "check": CHECK,
        "name": name,
        "severity": severity(name, bool(events.subscribed[ends[-1]])),
        "message": f"key {key}: {MESSAGES[name].format(*(describe(events, at) for at in ends), reader=reader)}",
        "key": key,
        "witnesses": sorted(indexes),
        "count": 1,
    }


def severity(name: str, subscribed: bool) -> Severity:
    """The severity of a finding."""
    if name in TOLERATED or (subscribed and name in EXCUSED_BY_A_GROUP):
        return "tolerated"
    return "unknown" if name in UNKNOWN else "invalid"


def describe(events: kernel.Events, at: int) -> str:
    """An event in words, e.g. `send of 3 was acknowledged at offset 7 (index 4 to 9)`."""
    offset = "none" if events.offset[at] == kernel.NOTHING else events.offset[at]
    return f"{DESCRIPTIONS[int(events.what[at])].format(value=events.value[at], offset=offset)} {span(events, at)}"


def span(events: kernel.Events, at: int) -> str:
    """The history indexes of an event's operation, e.g. `(index 4 to 9)`."""
    call, index = events.call[at], events.index[at]
    return f"(index {call} to {index})" if call != index else f"(index {index})"


LOG_CHECK = Check(findings, reads=("history", "records"), judges="operation", handles_many_runs=True)
