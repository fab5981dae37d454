"""Whether each server ran until the run ended it: a server that exits or crashes by itself is a finding.

    server-cannot-start     a server exited before it answered or logged a state: at its start
    server-exited           a server exited, or crashed with a signal such as SIGSEGV, later than that

Both are tolerated on a node whose disk had a fault before, since a server may halt when its disk fails; not after a
slow disk or a power failure, which it has to survive. They are unknown if something outside the run ended the server,
e.g. the kernel when memory is short (SIGKILL), or changed its program so that it cannot be loaded. The processes
themselves record whether an end was requested (nodes/hosts/processes.py), so kills and stops of the nemesis are never
findings.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN, of_run
from checkers.framework.contract import Check, JudgeSettings, finding
from checkers.framework.timeline import nemesis_ops
from harness.model import Op
from harness.model.quorum_states import State
from harness.model.records.observation import SHOWS_STATE

CHECK = "servers"
OUTSIDE_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FROM_OUTSIDE = (
    *(each.name for each in OUTSIDE_SIGNALS),
    *(f"exit {128 + each}" for each in OUTSIDE_SIGNALS),
    "connection lost",
)
"""How a server ends that something outside the run has ended; Java exits with 128 plus the signal's number."""

NOT_LOADED = (
    r"^exit \d+: (ImportError|ModuleNotFoundError|SyntaxError|IndentationError|java\.lang\.NoClassDefFoundError"
    r"|Error: Could not find or load main class)\b"
)
"""How a server ends whose program is not what it was when the run began: files of Python, or jars."""

ANY_NODE = "any"


def findings(history: DataFrame, observations: DataFrame, settings: JudgeSettings) -> DataFrame:
    """Every end of a server that was not requested."""
    exited = exits(observations)
    message = fn.concat(
        fn.format_string("a server runs until it is told to end: node %d", "node"),
        fn.when(
            fn.col("last.state") == State.LEADER.value, fn.format_string(", leader of epoch %d,", "last.epoch")
        ).otherwise(fn.lit("")),
        fn.when(fn.col("answered"), fn.lit(" ended: ")).otherwise(fn.lit(" ended at its start: ")),
        fn.col("detail"),
    )
    severity = (
        fn.when(is_from_outside(), "unknown")
        .when(after_disk_fault(history, settings), "tolerated")
        .otherwise("invalid")
    )
    name = fn.when(fn.col("answered"), "server-exited").otherwise("server-cannot-start")
    return finding(exited, CHECK, name, message, severity, node=fn.col("node"), time_ns=fn.col("time_ns"))


def exits(observations: DataFrame) -> DataFrame:
    """(run, node, time_ns, detail, answered, last): the ends that were not requested.

    answered: whether the server had answered or logged a state since its start. last: its last logged state and epoch.
    """
    kinds = ("started", "exited", *SHOWS_STATE)
    seen = observations.where(fn.col("kind").isin(*kinds)).select(
        RUN, "node", "time_ns", "position", "kind", "state", "epoch", "detail"
    )
    in_order = ("time_ns", "position")
    so_far = Window.partitionBy(RUN, "node").orderBy(*in_order).rowsBetween(Window.unboundedPreceding, 0)
    starts = fn.sum((fn.col("kind") == "started").cast("int")).over(so_far)
    own = Window.partitionBy(RUN, "node", "start").orderBy(*in_order).rowsBetween(Window.unboundedPreceding, 0)
    state = fn.when(fn.col("kind") == "transition", fn.struct("state", "epoch"))
    of_server = (
        seen.withColumn("start", starts)
        .withColumn("answered", fn.max(fn.col("kind").isin(*SHOWS_STATE)).over(own))
        .withColumn("last", fn.last(state, ignorenulls=True).over(own))
    )
    return of_server.where("kind = 'exited'").select(RUN, "node", "time_ns", "detail", "answered", "last")


def is_from_outside() -> Column:
    """Whether an end is one that something outside the run causes."""
    how = fn.split("detail", ":", 2)[0]
    return how.isin(*FROM_OUTSIDE) | fn.col("detail").rlike(NOT_LOADED)


def after_disk_fault(history: DataFrame, settings: JudgeSettings) -> Column:
    """Whether the node's disk had a fault before. A fault that failed names no nodes and may have hit any."""
    first_ns = {run: first_disk_faults(ops, settings) for run, ops in nemesis_ops(history, settings).items()}
    if not any(first_ns.values()):
        return fn.lit(False)
    since = of_run(first_ns, "map<string, bigint>", settings)
    of_node, of_any = since[fn.col("node").cast("string")], since[ANY_NODE]
    return fn.coalesce(fn.col("time_ns") >= fn.least(of_node, of_any), fn.lit(False))


def first_disk_faults(operations: Iterable[Op], settings: JudgeSettings) -> dict[str, int]:
    """When the first fault of each node's disk began, by node as text; ANY_NODE for one that does not say whose."""
    begun_ns = 0
    first_ns: dict[str, int] = {}
    for op in operations:
        if op.f in settings.ops.harms_disk:
            for node in [ANY_NODE] if op.error else op.value.get("nodes", []):
                first_ns.setdefault(str(node), begun_ns)
        begun_ns = op.time_ns
    return first_ns


SERVERS = Check(findings, handles_many_runs=True)
