"""The runs of a store with what a person looks for: system, workload, faults, duration, verdict.

    rows = listed(store, RunFilter(system="kafka", verdict="invalid"))

Contains reading and filtering. Does not print (harness.commands.runs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness import plugins
from harness.model import SplitbrainError
from harness.planning.plan import Plan
from results.run_verdict import read_verdict
from results.store import RunDirectory, Status, runs

UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run or reproduction; faults are names with commas, seconds is None for one that has not recorded anything."""

    run: str
    kind: str
    system: str
    workload: str
    faults: str
    seconds: float | None
    status: str
    verdict: str


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list: those that match everything that is given, at most the newest `limit`."""

    system: str | None = None
    workload: str | None = None
    fault: str | None = None
    verdict: str | None = None
    status: str | None = None
    limit: int | None = None

    def matches(self, row: RunRow) -> bool:
        """Whether a run is one of them; a system also by its name without the version."""
        return (
            self.system in (None, row.system, row.system.partition(":")[0])
            and self.workload in (None, row.workload)
            and (self.fault is None or self.fault in row.faults.split(","))
            and self.verdict in (None, row.verdict)
            and self.status in (None, row.status)
        )


def listed(store: Path, wanted: RunFilter) -> list[RunRow]:
    """The runs of a store, oldest first."""
    rows = [row for row in map(row_of, runs(store)) if wanted.matches(row)]
    return rows if wanted.limit is None else rows[max(0, len(rows) - wanted.limit) :]


def row_of(run: RunDirectory) -> RunRow:
    """A run's row; what cannot be read is shown as `-`, and the status then is `damaged`."""
    try:
        status, kind, seconds = run.status, run.kind, _seconds(run.times)
        verdict = read_verdict(run.verdict).verdict.value if run.verdict.exists() else UNKNOWN
        plan = _plan(run)
    except (SplitbrainError, OSError, KeyError, TypeError, ValueError):
        return RunRow(run.name, "run", UNKNOWN, UNKNOWN, UNKNOWN, None, "damaged", UNKNOWN)
    if plan is None:
        return RunRow(run.name, kind, UNKNOWN, UNKNOWN, UNKNOWN, seconds, status, verdict)
    faults = ",".join(sorted(_faults(plan))) or "none"
    return RunRow(run.name, kind, plan.system, plan.scenario or plan.workload, faults, seconds, status, verdict)


def _plan(run: RunDirectory) -> Plan | None:
    """The run's plan, or that of a reproduction's first side; None if there is none yet."""
    sides = run.sides() if run.kind == "reproduction" else [run]
    return Plan.read(sides[0].plan) if sides and sides[0].plan.exists() else None


def _faults(plan: Plan) -> Iterator[str]:
    actions = plugins.actions()
    return (name for name in dict.fromkeys(actions[step.f].name for step in plan.story if step.f in actions))


def _seconds(times: Mapping[Status, str]) -> float | None:
    """From the start of the run until everything was recorded, in seconds."""
    end = times.get("recorded") or times.get("interrupted")
    begin = times.get("running")
    if end is None or begin is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
