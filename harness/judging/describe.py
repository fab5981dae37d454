"""What was run, from a run's plan, tables and journal.

Contains the counting. results.description has the value and its wording.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from harness import plugins
from harness.chunks import chunk_files, read_table, rows_in
from harness.model import NEMESIS
from harness.model.records.fault_intervals import injections
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS
from harness.model.story import MARK
from harness.planning.plan import Plan
from harness.recovery.remains import open_faults
from results.description import Judged, RunDescription
from results.reading.rows import ops_of
from results.store import RunDirectory


def describe(run: RunDirectory, plan: Plan, label: str, judges: Mapping[str, str | None]) -> RunDescription:
    """The description of a recorded run; judges maps each of its checks to what it judges, if that has a number.

    Raises BadInput where a table cannot be read.
    """
    history = read_table(run.history, HISTORY)
    is_nemesis = pc.equal(history["process"], NEMESIS)
    clients, nemesis = history.filter(pc.invert(is_nemesis)), list(ops_of(history.filter(is_nemesis)))
    ops = plugins.ops()
    numbers = _numbers(run, clients, sum(op.f != MARK for op in nemesis) // 2)
    keys = len(clients["key"].drop_null().unique())
    outcomes = {each["values"]: each["counts"] for each in pc.value_counts(clients["type"]).to_pylist()}
    return RunDescription(
        workload=plan.workload,
        system=label,
        nodes=plan.nodes,
        hosts=plan.hosts,
        seed=plan.seed,
        started=run.times.get("running", run.times["created"]),
        seconds=_last_ns(run, history) / 1e9,
        scenario=plan.scenario,
        side=plan.side,
        operations={kind: outcomes.get(kind, 0) for kind in ("ok", "fail", "info")},
        judged=tuple(_judged(check, what, numbers, keys) for check, what in judges.items()),
        faults=injections(nemesis, ops),
        failed_heals=sum(op.f in ops.heals and op.error is not None for op in nemesis),
        open_faults=open_faults(run),
    )


def _numbers(run: RunDirectory, clients: pa.Table, fault_actions: int) -> Mapping[str, int]:
    """How many there are of what checks judge."""
    return {
        "operation": pc.sum(pc.equal(clients["type"], "invoke")).as_py() or 0,
        "fault action": fault_actions,
        "observation": rows_in(chunk_files(run.observations, OBSERVATIONS)),
        "record batch": rows_in(chunk_files(run.batches, BATCHES)),
    }


def _judged(check: str, what: str | None, numbers: Mapping[str, int], keys: int) -> Judged:
    if what is None:
        return Judged(check)
    return Judged(check, what, numbers[what], keys if what == "operation" else 0)


def _last_ns(run: RunDirectory, history: pa.Table) -> int:
    """The time of the run's last record."""
    observed = read_table(run.observations, OBSERVATIONS)["time_ns"]
    return max(pc.max(history["time_ns"]).as_py() or 0, pc.max(observed).as_py() or 0)
