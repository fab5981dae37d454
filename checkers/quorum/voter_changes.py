"""Whether changes of a quorum's voters, and moves of partitions, hold: the history of the workload `reassignment`.

    lost-change         a leader reports voters or replicas as they were before an acknowledged change
    refused-change      a leader reports a change that was refused, or that nobody requested
    no-convergence      after the last fault, a change, or a leader whose log is committed, is not reached in the time
                        that final operations have
    no-progress         (unknown) no change was acknowledged, or no leader reported the voters

Leaders report voters that are not committed, and a deposed leader reports old ones. So a report is compared with the
acknowledged changes that a leader of its epoch must know: those that had ended before it began, and after which a
leader of this epoch or an earlier one was seen. A report is right if it shows the state before all changes, or what a
change wanted that may have taken effect: one that was not refused, began before the report ended, and did not end
before the last of those acknowledged changes began. With one change after the other, as the workload makes them, this
is the regular register of Lamport (1986), whose writes may also stay without an answer.

What is compared is whether one node votes (KIP-853), or what the voters will be once a reassignment ends (KIP-642), or
where a partition will be once a reassignment ends (KIP-455). A report without replicas and target shows nothing.

Quantities: voter_changes_acknowledged, _refused and _unknown, and voter_change_ms_max, the longest acknowledged one;
the same of partition_moves if there are any.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, missing
from checkers.framework.contract import Check, JudgeSettings, finding, quantities_of
from checkers.framework.timeline import is_mark
from harness.model.story import FINAL_READS

CHECK = "voter-changes"
REASSIGN, ADD, REMOVE, MOVE = "reassign", "add_voter", "remove_voter", "move"
OF_VOTERS, OF_PARTITIONS = ("voters", "settle"), ("partition", "moved")
READS = (*OF_VOTERS, *OF_PARTITIONS)
ONE_ATTEMPT = ("voters", "partition")
"""Reads that do not wait for anything."""
CHANGES = (REASSIGN, ADD, REMOVE, MOVE)
MS_NS = 1_000_000
REPORT = "struct<epoch: int, voters: array<int>, replicas: array<int>, target: array<int>>"
NEVER = 1 << 62


def findings(history: DataFrame, _observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """The reports that no possible change explains, and what did not come to an end."""
    ops = operations(history)
    wrong = unexplained(ops)
    shown = fn.format_string(
        "leader n%d of epoch %d reports %s for %s", "node", "epoch", fn.col("shown"), fn.col("key")
    )
    is_old = fn.col("was_possible")
    change = fn.when(is_partition(fn.col("key")), "move of a partition").otherwise("change of the voters")
    text = fn.when(is_old, fn.format_string("an acknowledged %s holds on every later leader: ", change)).otherwise(
        fn.format_string("a %s that was refused or not requested has no effect: ", change)
    )
    broken = finding(
        wrong,
        CHECK,
        fn.when(is_old, "lost-change").otherwise("refused-change"),
        fn.concat(text, shown),
        key=fn.col("key"),
        node=fn.col("node"),
        time_ns=fn.col("end_ns"),
        witnesses=fn.array_compact(fn.array("acknowledged", "begin", "end")),
    )
    return broken.unionAll(not_converged(history, ops)).unionAll(no_progress(ops, settings))


def quantities(history: DataFrame, _observations: DataFrame, _settings: JudgeSettings) -> DataFrame:
    """How the changes ended."""
    changes = operations(history).where(fn.col("f").isin(*CHANGES))
    of_voters = _ended(changes.where(fn.col("f") != MOVE), "voter_change")
    return of_voters.unionAll(_ended(changes.where(fn.col("f") == MOVE), "partition_move"))


def _ended(changes: DataFrame, name: str) -> DataFrame:
    """How these changes ended: quantities whose names begin so."""
    ended = {"ok": "acknowledged", "fail": "refused", "info": "unknown"}
    counts = [fn.count(fn.when(fn.col("type") == kind, 1)).alias(f"{name}s_{word}") for kind, word in ended.items()]
    longest = fn.max(fn.when(fn.col("type") == "ok", (fn.col("end_ns") - fn.col("begin_ns")) / MS_NS))
    row = changes.groupBy(RUN).agg(*counts, longest.alias(f"{name}_ms_max"))
    units = {f"{name}s_{word}": "ops" for word in ended.values()}
    return quantities_of(row, CHECK, units | {f"{name}_ms_max": "ms"})


def is_partition(key: Column) -> Column:
    """Whether a key names a partition, e.g. log-2."""
    return key.rlike(r"-\d+$")


def operations(history: DataFrame) -> DataFrame:
    """(run, f, key, node, begin, end, begin_ns, end_ns, type, wanted, value): clients' operations on voters.

    begin and end are indexes; an operation without a completion has type info and no end. wanted is what a change asks
    for, value what the operation returned.
    """
    clients = history.where((fn.col("process") >= 0) & fn.col("f").isin(*CHANGES, *READS))
    following = Window.partitionBy(RUN, "process").orderBy("index")

    def after(column: str) -> Column:
        return fn.lead(column).over(following)

    sorted_list = fn.to_json(fn.array_sort(fn.from_json("value", "array<int>")))
    wanted = (
        fn.when(fn.col("f").isin(REASSIGN, MOVE), sorted_list)
        .when(fn.col("f") == ADD, "true")
        .when(fn.col("f") == REMOVE, "false")
    )
    paired = clients.select(
        RUN,
        "f",
        "key",
        "type",
        fn.col("index").alias("begin"),
        fn.col("time_ns").alias("begin_ns"),
        after("index").alias("end"),
        after("time_ns").alias("end_ns"),
        fn.coalesce(after("type"), fn.lit("info")).alias("ended"),
        after("node").alias("node"),
        wanted.alias("wanted"),
        after("value").alias("value"),
    )
    return paired.where("type = 'invoke'").drop("type").withColumnRenamed("ended", "type")


def unexplained(ops: DataFrame) -> DataFrame:
    """(reports) with acknowledged, the last change that a report must show, and was_possible, whether a change that
    may have taken effect, or the first report, once wanted what it shows."""
    changes = ops.where(fn.col("f").isin(*CHANGES))
    reports = reports_by_key(ops, changes.select(RUN, "key").distinct())
    known = fn.from_json("value", REPORT)["epoch"]
    acknowledged = changes.where("type = 'ok'").select(
        RUN, "key", fn.col("begin").alias("change_begin"), fn.col("end").alias("change_end"), known.alias("known_in")
    )
    is_known = (
        (acknowledged[RUN] == reports[RUN])
        & (acknowledged["key"] == reports["key"])
        & (fn.col("change_end") < fn.col("begin"))
        & (fn.col("known_in") <= fn.col("epoch"))
    )
    last = reports.join(acknowledged, is_known, "left").select(reports["*"], "change_begin")
    placed = last.groupBy(*reports.columns).agg(fn.max("change_begin").alias("acknowledged"))
    possible = changes.where("type != 'fail'").select(
        RUN,
        "key",
        fn.col("wanted").alias("shown"),
        fn.col("begin").alias("possible_begin"),
        fn.when(fn.col("type") == "ok", fn.col("end")).otherwise(fn.lit(NEVER)).alias("possible_end"),
    )
    sources = possible.unionAll(initial_states(reports, changes))
    joined = placed.join(sources, on=[RUN, "key", "shown"], how="left")
    began = fn.coalesce(fn.col("possible_begin") < fn.col("end"), fn.lit(False))
    explains = began & (fn.col("possible_end") >= fn.coalesce("acknowledged", fn.lit(-1)))
    found = joined.groupBy(*placed.columns).agg(
        fn.max(explains).alias("is_explained"), fn.max(began).alias("was_possible")
    )
    return found.where("not is_explained")


def reports_by_key(ops: DataFrame, keys: DataFrame) -> DataFrame:
    """(run, key, node, begin, end, end_ns, epoch, shown): what reports show of each key that changes name."""
    seen = ops.where(fn.col("f").isin(*READS) & (fn.col("type") == "ok")).select(
        RUN,
        fn.when(fn.col("f").isin(*OF_PARTITIONS), fn.col("key")).alias("of"),
        *("node", "begin", "end", "end_ns"),
        fn.from_json("value", REPORT).alias("report"),
    )
    each = seen.join(fn.broadcast(keys), on=RUN).where(
        fn.when(is_partition(fn.col("key")), fn.col("of").eqNullSafe(fn.col("key"))).otherwise(fn.col("of").isNull())
    )
    voter = fn.regexp_extract("key", r"^n(\d+)$", 1)
    votes = fn.array_contains("report.voters", voter.cast("int")).cast("string")
    future = fn.to_json(fn.array_sort(fn.coalesce("report.target", "report.voters", "report.replicas")))
    shown = fn.when(voter != "", votes).otherwise(future)
    columns = (RUN, "key", "node", "begin", "end", "end_ns", "report.epoch", shown.alias("shown"))
    return each.select(*columns).where("shown is not null")


def initial_states(reports: DataFrame, changes: DataFrame) -> DataFrame:
    """What the first report shows of each key if it ended before any change began, as a change before all others."""
    first_change = changes.groupBy(RUN).agg(fn.min("begin").alias("first_change"))
    early = reports.join(fn.broadcast(first_change), on=RUN).where("end < first_change")
    first = early.groupBy(RUN, "key").agg(fn.min_by("shown", "end").alias("shown"))
    return first.select(
        RUN, "key", "shown", fn.lit(-1).alias("possible_begin").cast("bigint"), fn.lit(-1).cast("bigint")
    )


def not_converged(history: DataFrame, ops: DataFrame) -> DataFrame:
    """The final operations that never ended in ok."""
    final = history.where(is_mark(FINAL_READS)).groupBy(RUN).agg(fn.max("index").alias("final"))
    late = ops.join(fn.broadcast(final), on=RUN).where(
        (fn.col("begin") > fn.col("final")) & ~fn.col("f").isin(*ONE_ATTEMPT)
    )
    asked = late.groupBy(RUN, "f", "key").agg(
        fn.max(fn.col("type") == "ok").alias("is_done"),
        fn.count("*").alias("attempts"),
        fn.max("end_ns").alias("end_ns"),
        fn.array_compact(fn.array(fn.min("begin"), fn.max("end"))).alias("witnesses"),
    )
    text = "voters and partitions come to rest after the last fault: %s of %s did not succeed in %d attempts"
    message = fn.format_string(text, "f", "key", "attempts")
    return finding(
        asked.where("not is_done"),
        CHECK,
        "no-convergence",
        message,
        key=fn.col("key"),
        time_ns=fn.col("end_ns"),
        witnesses=fn.col("witnesses"),
    )


def no_progress(ops: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Of a run with such operations: one unknown if no change was acknowledged, and one if nothing was reported."""
    parts = [
        (fn.col("f").isin(REASSIGN, ADD, REMOVE), "no change of the voters was acknowledged"),
        (fn.col("f").isin(*OF_VOTERS), "no leader reported the voters"),
        (fn.col("f") == MOVE, "no move of a partition was acknowledged"),
        (fn.col("f").isin(*OF_PARTITIONS), "no leader reported where a partition is"),
    ]
    is_of_voters = fn.col("f").isin(REASSIGN, ADD, REMOVE, *OF_VOTERS)
    tried = [ops.where(is_of_voters).select(RUN).distinct(), ops.where(~is_of_voters).select(RUN).distinct()]
    unknown = [
        finding(
            missing(ops.where(is_kind & (fn.col("type") == "ok")), settings).join(tried[at // 2], RUN, "left_semi"),
            CHECK,
            "no-progress",
            fn.lit(text),
            severity="unknown",
        )
        for at, (is_kind, text) in enumerate(parts)
    ]
    return reduce(DataFrame.unionAll, unknown)


VOTER_CHANGES = Check(findings, quantities, judges="operation", handles_many_runs=True)
