"""The table of a store: one row per run, per reproduction, and per run of a reproduction.

    rows = index(store)          # for lists, nights, comparisons and pages

A row comes from a run's plan, status and verdict. Reading these files for thousands of runs takes minutes, so the rows
are kept in INDEX_FILE in the store, as Parquet with the columns of harness.model.records.tables.RUNS; a row is read
again when one of its run's files has changed. The file is a cache: it can be removed at any time.

Contains reading and keeping the rows. Does not contain filters (harness.judging.listing) or comparison.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as parquet

from harness import plugins
from harness.model import BadInput, SplitbrainError
from harness.model.errors import one_line
from harness.model.records.tables import COMPARED, RUNS
from harness.planning.plan import Plan
from harness.recovery.heal import damaged_journal
from results.files import read_json, write_bytes
from results.headline import tone_of
from results.kinds import kinds_of
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory, Status, runs

INDEX_FILE: Final = "runs.parquet"
PRUNED_FILE: Final = "pruned.parquet"
"""The rows of runs that were removed from the store; this file is no cache."""
UNKNOWN: Final = "-"
DAMAGED: Final = "damaged"
STAMPED: Final = ("status.json", "verdict.json", "plan.json", "journal.jsonl")
"""The files of a run that its row comes from."""
FRESHNESS_COLUMNS: Final = ("run", "kind", "status", "stamp")
"""The columns that tell whether a row is still that of its run."""
OUTCOMES: Final = {"valid": "passed", "invalid": "failed", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something for which a run did not pass: a finding by its name, or an expectation that was not met."""

    name: str
    severity: str
    count: int
    message: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of the table; see harness.model.records.tables.RUNS. What a run does not have, or not yet, is `-` or None.

    outcome is None for a run that was not judged. quantities are by name.
    """

    run: str
    kind: str
    part_of: str | None = None
    night: str | None = None
    case: str = UNKNOWN
    variant: str = ""
    system: str = UNKNOWN
    workload: str = UNKNOWN
    scenario: str | None = None
    side: str | None = None
    nodes: int | None = None
    hosts: str | None = None
    seed: int | None = None
    faults: tuple[str, ...] | None = None
    created: str = ""
    seconds: float | None = None
    status: str = DAMAGED
    verdict: str = UNKNOWN
    outcome: str | None = None
    problems: tuple[Problem, ...] = ()
    quantities: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    damage: str = ""
    stamp: str = ""

    @property
    def family(self) -> str:
        """The system without its version."""
        return self.system.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Origin:
    """The night that began a run, and the switches that the night's plan gave it, as text."""

    night: str
    variant: str = ""


def index(store: Path, with_pruned: bool = False, columns: Sequence[str] = RUNS.names) -> list[RunRow]:
    """The rows of all runs of a store, oldest first; the runs of a reproduction follow it. Empty without a store.

    with_pruned: also those of runs that were removed to save space. columns: those that are needed; other fields may
    be missing from the rows.
    """
    if with_pruned:
        by_name = {**_pruned(store, columns), **{row.run: row for row in index(store, columns=columns)}}
        return sorted(by_name.values(), key=lambda row: row.run)
    file = store / INDEX_FILE
    needed = list(dict.fromkeys((*columns, *FRESHNESS_COLUMNS)))
    kept = _kept(file, needed)
    found = [(_name(run, part_of), _stamp(run), run, part_of) for run, part_of in _all_runs(store, kept)]
    if {name: stamp for name, stamp, *_ in found} == {name: row.stamp for name, row in kept.items()}:
        return list(kept.values())
    kept, rows = kept if len(needed) == len(RUNS.names) else _kept(file), []
    for name, stamp, run, part_of in found:
        row = kept.get(name)
        if row is None or row.stamp != stamp:
            row = replace(row_of(run, part_of), run=name, stamp=stamp)
        rows.append(row)
    with suppress(OSError):  # a store that cannot be written is read without a cache
        _keep(file, rows)
    return rows


def keep_pruned(store: Path, names: Collection[str]) -> None:
    """Keep the rows of runs that are about to be removed, with their parts, for comparisons over a long time."""
    rows = {row.run: row for row in index(store) if row.run in names or row.part_of in names}
    _keep(store / PRUNED_FILE, list({**_pruned(store), **rows}.values()))


def _all_runs(store: Path, kept: Mapping[str, RunRow]) -> Iterator[tuple[RunDirectory, RunDirectory | None]]:
    """Runs, and those of reproductions with what they are part of. A run that was one before has no parts."""
    for run in runs(store):
        yield run, None
        row = kept.get(run.name)
        if row is None or row.kind != "run" or row.status == DAMAGED:
            yield from ((side, run) for side in run.sides())


def _name(run: RunDirectory, part_of: RunDirectory | None) -> str:
    return f"{part_of.name}/{run.name}" if part_of else run.name


def _stamp(run: RunDirectory) -> str:
    """When the files changed that a row comes from."""
    folder = str(run.path)  # a path object for each of 40,000 files would take most of the time
    return " ".join(str(_changed_ns(f"{folder}/{name}")) for name in STAMPED)


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def row_of(run: RunDirectory, part_of: RunDirectory | None = None) -> RunRow:
    """A run's row, read from its files; one that cannot be read is damaged, with the reason."""
    name = part_of.name if part_of else None
    try:
        return _read(run, part_of)
    except (SplitbrainError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        damage = one_line(str(error)) if isinstance(error, SplitbrainError) else f"{run.path}: cannot be read"
        return RunRow(run.name, "run", name, damage=damage)


def _read(run: RunDirectory, part_of: RunDirectory | None) -> RunRow:
    times, kind = run.times, run.kind
    plan, origin = plan_of(run), read_origin(part_of or run)
    if problem := damaged_journal(run):
        raise BadInput(problem)
    row = RunRow(
        run=run.name,
        kind=kind,
        part_of=part_of.name if part_of else None,
        night=origin.night if origin else None,
        variant=origin.variant if origin else "",
        created=times.get("created", ""),
        seconds=_seconds(times),
        status=run.status,
    )
    if plan is not None:
        row = _with_plan(row, plan)
    return with_verdict(row, plan, read_verdict(run.verdict)) if run.verdict.exists() else row


def _with_plan(row: RunRow, plan: Plan) -> RunRow:
    return replace(
        row,
        case=case_of(plan) if row.kind == "run" else plan.scenario or UNKNOWN,
        system=plan.system,
        workload=plan.workload,
        scenario=plan.scenario,
        side=plan.side if row.kind == "run" else None,
        nodes=plan.nodes,
        hosts=plan.hosts,
        seed=plan.seed,
        faults=tuple(sorted(_faults(plan))),
        command=plan.command,
    )


def with_verdict(row: RunRow, plan: Plan | None, verdict: RunVerdict) -> RunRow:
    """The row with this verdict."""
    outcome = OUTCOMES[tone_of(verdict.headline or verdict.verdict.value).value]
    return replace(
        row,
        verdict=verdict.verdict.value,
        outcome=outcome,
        problems=() if outcome == "passed" else tuple(_problems(plan, verdict)),
        quantities={each.name: each.value for each in verdict.quantities},
        command=verdict.command or row.command,
    )


def _problems(plan: Plan | None, verdict: RunVerdict) -> Iterator[Problem]:
    """The findings that the run was not expected to have, by name, and the expectations that were not met."""
    expected = _expected_findings(plan)
    for kind in kinds_of(verdict.findings):
        if kind.severity != "tolerated" and kind.name not in expected:
            yield Problem(kind.name, kind.severity, kind.count, kind.findings[0].message)
    for each in verdict.expectations:
        if not each.met:
            severity = "unknown" if each.met is None else "invalid"
            yield Problem(f"expected: {each.text}", severity, 1, each.measured_text)


def _expected_findings(plan: Plan | None) -> Sequence[str]:
    """Those of the run's side of its scenario, if that is still installed; of a reproduction, those of its sides."""
    if plan is None or plan.scenario is None or plan.scenario not in plugins.scenarios():
        return ()
    sides = plugins.scenario(plan.scenario).sides
    return [name for side, each in sides.items() if plan.side in (side, None) for name in each.expected_findings]


def case_of(plan: Plan) -> str:
    """What a run's plan plays, as comparisons name it: `PV-01 good`, `explore`, `register with kill,partition`."""
    if plan.scenario:
        usual = plugins.scenario(plan.scenario).nodes if plan.scenario in plugins.scenarios() else plan.nodes
        size = "" if plan.nodes == usual else f", {plan.nodes} nodes"
        return f"{plan.scenario} {plan.side}{size}"
    if plan.name != "run":
        return plan.name
    return f"{plan.workload} with {','.join(sorted(_faults(plan))) or 'no faults'}"


def plan_of(run: RunDirectory) -> Plan | None:
    """The run's plan, or that of a reproduction's first run; None if there is none yet."""
    own = run.sides() if run.kind == "reproduction" else [run]
    if not own or (own[0].status == "created" and not own[0].plan.exists()):
        return None
    return Plan.read(own[0].plan)


def _faults(plan: Plan) -> set[str]:
    actions = plugins.actions()
    return {actions[step.f].name for step in plan.story if step.f in actions}


def _seconds(times: Mapping[Status, str]) -> float | None:
    """From the start of the run until everything was recorded, in seconds."""
    end = times.get("recorded") or times.get("interrupted")
    begin = times.get("running")
    if end is None or begin is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def read_origin(run: RunDirectory) -> Origin | None:
    """The night that began a run or reproduction; None for one that a command of its own began. Raises BadInput."""
    if not run.origin.exists():
        return None
    try:
        return Origin(**read_json(run.origin))
    except TypeError as error:
        raise BadInput(f"{run.origin}: expected the night and the variant of a run") from error


def _kept(file: Path, columns: Sequence[str] = RUNS.names) -> dict[str, RunRow]:
    """The rows of an earlier call, by run; none where there is no file, or one of another release."""
    try:
        with parquet.ParquetFile(file) as table:
            return _rows(table, columns) if table.schema_arrow.equals(RUNS) else {}
    except (OSError, pa.ArrowInvalid):
        return {}


def _pruned(store: Path, columns: Sequence[str] = RUNS.names) -> dict[str, RunRow]:
    """The rows of removed runs, by run. A file of an earlier release gets the columns of this one.

    Raises BadInput for a damaged file: nothing else has its rows, so it must not be replaced.
    """
    file = store / PRUNED_FILE
    if not file.exists():
        return {}
    try:
        with parquet.ParquetFile(file) as table:
            if table.schema_arrow.equals(RUNS):
                return _rows(table, columns)
            rows = _rows(table, [name for name in table.schema_arrow.names if name in RUNS.names])
    except (OSError, KeyError, pa.ArrowException) as error:
        reason = one_line(str(error))
        raise BadInput(f"{file}: expected a Parquet file with the rows of removed runs: {reason}") from error
    with suppress(OSError):  # in a store that cannot be written the file stays as it is
        _keep(file, list(rows.values()))
    return rows


def _rows(table: parquet.ParquetFile, columns: Sequence[str]) -> dict[str, RunRow]:
    return {row["run"]: row_from_columns(row) for row in table.read(list(columns)).to_pylist()}


def row_from_columns(row: dict[str, Any]) -> RunRow:
    """The row of a dictionary by column, as Arrow and Spark return it; columns but `run` and `kind` may be left out.

    Without the column `quantities`, the row has those that are columns of their own.
    """
    if "problems" in row:
        row["problems"] = tuple(Problem(**each) for each in row["problems"])
    compared = {name: row.pop(name) for name in COMPARED if name in row}
    if "quantities" in row:
        row["quantities"] = {each["name"]: each["value"] for each in row["quantities"]}
    elif compared:
        row["quantities"] = {name: value for name, value in compared.items() if value is not None}
    if row.get("faults") is not None:
        row["faults"] = tuple(row["faults"])
    return RunRow(**row)


def _keep(file: Path, rows: Sequence[RunRow]) -> None:
    """Replace the file atomically."""
    content = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist([_columns(row) for row in rows], RUNS), content)
    write_bytes(file, content.getvalue().to_pybytes())


def _columns(row: RunRow) -> dict[str, Any]:
    quantities = [{"name": name, "value": value} for name, value in row.quantities.items()]
    compared = {name: row.quantities.get(name) for name in COMPARED}
    return {**asdict(row), "quantities": quantities, **compared}
