"""The check of transactions: cycles of dependencies, reads of uncommitted writes, partially visible transactions.

T7 is the transaction that was called at index 7. checkers/transactions/events.py describes transactions.

    G0, G1c, G-single, G2      cycles of dependencies; with -process and -realtime (checkers/transactions/cycles.py)
    G1a, aborted-read          a transaction read what a failed one had written; the latter name is for a log
    zombie-write               … one that failed because its producer was fenced; or one that was fenced was committed;
                               and by the logs (checkers/kafka_log/zombies.py)
    G1b                        a transaction read a write that its writer overwrote; not in a log, which keeps both
    precommitted-read          a transaction polled what it had sent itself and not yet committed
    torn-transaction           some records of a transaction are visible, and others are not in the drained log
    lost-write                 a record of a committed transaction is not in the drained log
    phantom-read               a transaction read what no transaction had written
    incompatible-order         the reads of a key give different orders, or positions, of its versions
    internal                   a transaction's own operations contradict each other
    hanging-transaction        no broker's log has a marker after a record, long after its transaction completed
    settled (tolerated)        unknown outcomes resolved by the brokers' logs (checkers/transactions/broker_log.py)
    value-written-twice, no-progress (unknown)    what could not be checked, and why

Kafka does not isolate writes, so a log's cycles that need ww edges are tolerated. A transaction that ended in `info`
may have taken place, as a whole or not at all, unless the brokers' logs resolve it. A poll counts as a read however its
transaction ended, but rules on what must not be read apply only to polls of transactions that ended in `ok`, and to
drains: the others may have seen records of transactions that were still open.

Contains the whole check, and the description of cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.by_run import RUN, missing
from checkers.framework.contract import Check, JudgeSettings, finding, quantity
from checkers.framework.timeline import is_done
from checkers.kafka_log.zombies import zombie_writes
from checkers.kernels.cycles import real_time
from checkers.kernels.rows import Rows
from checkers.transactions.broker_log import (
    ended_records,
    hanging_records,
    hanging_transactions,
    outcomes,
    resolve,
    resolved_outcomes,
    torn_by_logs,
)
from checkers.transactions.cycles import LOG_WW, PROCESS, REALTIME, RW, WR, WW, cycles
from checkers.transactions.edges import edges
from checkers.transactions.events import effects, transactions
from checkers.transactions.rules import CHECK, RULES, RULES_OF_LOGS, not_drained, record_outcomes, sentence
from harness.model.records.evidence import KINDS, Cycle

BEGINS, ENDS = -1, -2
"""Kinds of rows that are not edges: source is a transaction, target the index of its call or completion."""

WRITE_MICRO_OP = r'\[\s*"(append|w|send)"\s*,'
"""Matches the JSON of a transaction that writes."""

EDGE_NAMES = {WW: "ww", LOG_WW: "ww", WR: "wr", RW: "rw", PROCESS: "process", REALTIME: "realtime"}

EDGES = pa.schema([("run", pa.int32()), ("source", pa.int64()), ("target", pa.int64()), ("kind", pa.int32())])
STEPS = pa.schema(
    [("cycle", pa.int32()), ("name", pa.string()), ("severity", pa.string()), ("step", pa.int32()), *EDGES]
)


def findings(history: DataFrame, records: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every violated rule, and what could not be checked; records are those of the brokers' logs, if they were kept."""
    operations = transactions(history).localCheckpoint()
    seen = effects(operations, settings).localCheckpoint()
    by_logs, hanging = [], None
    if not records.isEmpty():
        known = ended_records(seen, records).localCheckpoint()
        ends, hanging = outcomes(known).localCheckpoint(), hanging_records(known, history).localCheckpoint()
        seen = resolve(seen, ends).localCheckpoint()
        by_logs = [
            torn_by_logs(ends),
            hanging_transactions(hanging),
            resolved_outcomes(ends),
            by_zombies(known, records),
        ]
    sent = record_outcomes(seen).localCheckpoint()
    found = [*by_logs, *(rule(seen) for rule in RULES), *(rule(sent) for rule in RULES_OF_LOGS)]
    # No drain gets past a hanging transaction.
    found.append(not_drained(sent if hanging is None else sent.join(hanging, [RUN, "key"], "left_anti")))
    cycles_found = cyclic(operations, edges(operations, seen).localCheckpoint(), settings)
    return reduce(DataFrame.unionAll, [cycles_found, *found, no_progress(operations, settings)])


def by_zombies(known: DataFrame, records: DataFrame) -> DataFrame:
    """Writes of fenced producers in the brokers' logs."""
    sent = known.select(RUN, "key", "value", fn.col("writer").alias("call"), fn.col("writer_end").alias("end"))
    return zombie_writes(records, sent, CHECK)


def no_progress(operations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """One unknown if a workload that should do something never wrote: such a run proves nothing."""
    done = operations.where("f = 'txn' and status = 'ok'").where(fn.col("value").rlike(WRITE_MICRO_OP))
    none = missing(done, settings).where(fn.lit(not settings.idle))
    return finding(none, CHECK, "no-progress", fn.lit("no transaction with a write ended in ok"), severity="unknown")


def quantities(history: DataFrame, records: DataFrame, settings: JudgeSettings) -> DataFrame:  # noqa: ARG001
    """writers_open_at_heal: how many transactions with writes were open when faults were healed."""
    heals = history.where(is_done(settings.ops.heals)).select(
        fn.col(RUN).alias("of_run"), fn.col("index").alias("heal")
    )
    writers = transactions(history).where(fn.col("f") == "txn").where(fn.col("value").rlike(WRITE_MICRO_OP))
    is_open = (fn.col("txn") < fn.col("heal")) & (fn.coalesce("end", fn.col("heal") + 1) > fn.col("heal"))
    is_open &= fn.col(RUN) == fn.col("of_run")
    counted = (
        heals.join(writers, is_open, "left")
        .groupBy(fn.col("of_run").alias(RUN))
        .agg(fn.countDistinct("txn").alias("open"), fn.count("*").alias("heals"))
    )
    return quantity(counted.where("heals > 0"), CHECK, "writers_open_at_heal", fn.col("open"), "transactions")


def cyclic(operations: DataFrame, dependencies: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The shortest cycle of each class in each component."""
    took_place = operations.where("f = 'txn' and status != 'fail'")
    begins = took_place.select(RUN, "txn", fn.col("txn").alias("at"), fn.lit(BEGINS).alias("kind"))
    ends = took_place.where("status = 'ok'").select(RUN, "txn", "end", fn.lit(ENDS))
    rows = dependencies.select(RUN, "source", "target", "kind").distinct().unionAll(begins).unionAll(ends)
    # A cycle may span all keys of a run, so one worker gets all its edges, as four numbers each.
    whole = rows.coalesce(1) if len(settings.runs) == 1 else rows.repartition(RUN)
    steps = whole.mapInArrow(_cycles, from_arrow_schema(STEPS)).localCheckpoint()
    described = [fn.min_by(name, "key").alias(name) for name in ("key", "value", "following")]
    words = dependencies.groupBy(RUN, "source", "target", "kind").agg(*described)
    ends_of = took_place.select(RUN, fn.col("txn").alias("source"), "end")
    described_steps = steps.join(words, [RUN, "source", "target", "kind"], "left").join(
        ends_of, [RUN, "source"], "left"
    )
    by_step = fn.array_sort(
        fn.collect_list(fn.struct("step", in_words().alias("words"), as_evidence().alias("evidence")))
    )
    evidence_steps = fn.transform(by_step, lambda step: step["evidence"])
    cycle = described_steps.groupBy(RUN, "cycle", "name", "severity").agg(
        fn.concat_ws("; ", fn.transform(by_step, lambda step: step["words"])).alias("words"),
        fn.to_json(fn.struct(fn.lit(KINDS[Cycle]).alias("kind"), evidence_steps.alias("steps"))).alias("evidence"),
        fn.array_sort(fn.array_compact(fn.flatten(fn.collect_list(fn.array("source", "end"))))).alias("witnesses"),
    )
    message = sentence("transactions have an order: {words}")
    witnesses, evidence = fn.col("witnesses"), fn.col("evidence")
    return finding(cycle, CHECK, fn.col("name"), message, fn.col("severity"), witnesses=witnesses, evidence=evidence)


def as_evidence() -> Column:
    """A step of a cycle as a harness.model.records.evidence.CycleStep, without its null fields."""
    edge = fn.coalesce(*(fn.when(fn.col("kind") == kind, name) for kind, name in EDGE_NAMES.items()))
    return fn.struct("source", "target", edge.alias("edge"), "key", "value", "following")


def in_words() -> Column:
    """A step of a cycle in words: why the target comes after the source."""
    kind, nothing = fn.col("kind"), fn.col("value").isNull()
    return (
        fn.when(
            kind.isin(WW, LOG_WW), sentence("T{source} wrote {key}={value} before T{target} wrote {key}={following}")
        )
        .when(kind == WR, sentence("T{target} read {key}={value}, which T{source} wrote"))
        .when((kind == RW) & nothing, sentence("T{source} read no {key} before T{target} wrote {key}={following}"))
        .when(kind == RW, sentence("T{source} read {key}={value} before T{target} wrote {key}={following}"))
        .when(kind == PROCESS, sentence("T{source} came before T{target} on process {key}"))
        .otherwise(sentence("T{source} ended before T{target} began"))
    )


def _cycles(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The steps of all cycles, from all edges, begins and ends of whole runs."""
    table = pa.Table.from_batches([batch.cast(EDGES) for batch in batches], EDGES)
    run, *columns = (column.to_numpy() for column in table.columns)
    rows: list[tuple] = []
    for each in np.unique(run).tolist():
        rows += _cycles_of(each, *(column[run == each] for column in columns))
    arrays = list(zip(*rows, strict=True)) or [()] * len(STEPS)
    yield pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(arrays, STEPS, strict=True)], schema=STEPS
    )


def _cycles_of(run: int, source: Rows, target: Rows, kind: Rows) -> Iterator[tuple]:
    """The steps of a run's cycles, as rows of STEPS."""
    names, source = np.unique(source, return_inverse=True)
    is_edge = kind > 0
    at = np.flatnonzero(~is_edge)
    at = at[np.argsort(target[at], kind="stable")]
    before, after = real_time(source[at], kind[at] == BEGINS, len(names))
    sources = np.concatenate([source[is_edge], before])
    targets = np.concatenate([np.searchsorted(names, target[is_edge]), after])
    kinds = np.concatenate([kind[is_edge].astype(np.int64), np.full(len(before), REALTIME)])
    for number, cycle in enumerate(cycles(len(names), sources, targets, kinds)):
        nodes = [int(names[node]) for node in cycle.nodes]
        steps = zip(nodes, [*nodes[1:], nodes[0]], cycle.kinds, strict=True)
        yield from ((number, cycle.name, cycle.severity, step, run, *edge) for step, edge in enumerate(steps))


TRANSACTIONS = Check(findings, quantities, reads=("history", "records"), judges="operation", handles_many_runs=True)
