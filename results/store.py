"""The run store: one directory a run, with the same names in each, that outlives the process and the version.

    20261121T051700Z-PV-01-reference-bad-ab12/
        plan.json       what was to be done: scenario, seed, versions, hosts
        status.json     how far it came, and when
        history/        one Parquet row an operation        observations/   one row a thing seen of a node
        journal.jsonl   undo records of faults              nodes/n1/ …     what the nodes left: logs, files
        findings.json   verdict.json   junit.xml   report.html   timeline.svg

A reproduction is such a directory that holds side runs (`bad-1`, `good-1`, …) and a verdict and report of its own.

What may live here: names, creation, listing and status. What may not: what is in the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from harness.model import BadInput
from results.files import read_json, write_json

Status = Literal["created", "running", "recorded", "judged", "interrupted"]
RunKind = Literal["run", "reproduction"]

MAY_FOLLOW: Final[dict[Status, frozenset[Status]]] = {
    "created": frozenset({"running", "interrupted"}),
    "running": frozenset({"recorded", "interrupted"}),
    "recorded": frozenset({"judged"}),
    "interrupted": frozenset({"judged"}),
    "judged": frozenset({"judged"}),
}
"""Which status may follow which. What an interrupted run recorded can be judged; any run can be judged again."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run's directory and the names in it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def label(self) -> str:
        """A name for what the run makes elsewhere: unique to it, a reproduction's sides told apart."""
        return self.name if self.path.parent.name == "runs" else f"{self.path.parent.name}-{self.name}"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    @property
    def history(self) -> Path:
        return self.path / "history"

    @property
    def observations(self) -> Path:
        return self.path / "observations"

    @property
    def rpc_record(self) -> Path:
        return self.path / "rpcs.jsonl"

    @property
    def rpcs(self) -> Path:
        return self.path / "rpcs"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def findings(self) -> Path:
        return self.path / "findings.json"

    @property
    def verdict(self) -> Path:
        return self.path / "verdict.json"

    @property
    def junit(self) -> Path:
        return self.path / "junit.xml"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def timeline(self) -> Path:
        return self.path / "timeline.svg"

    def node(self, number: int) -> Path:
        """Where a node's logs and files are kept."""
        return self.path / "nodes" / f"n{number}"

    @property
    def kind(self) -> RunKind:
        kind: RunKind = read_json(self.status_file)["kind"]
        return kind

    @property
    def status(self) -> Status:
        status: Status = read_json(self.status_file)["status"]
        return status

    @property
    def times(self) -> dict[Status, str]:
        """When the run entered each status, as ISO 8601 in UTC."""
        times: dict[Status, str] = read_json(self.status_file)["times"]
        return times

    def enter(self, status: Status, now: datetime) -> None:
        """Move on to a status, which must be one that may follow the present one."""
        record = read_json(self.status_file)
        before: Status = record["status"]
        assert status in MAY_FOLLOW[before], f"{self.path}: a run that is {before} cannot become {status}"
        write_json(self.status_file, record | {"status": status, "times": record["times"] | {status: now.isoformat()}})

    def new_side(self, side: str, now: datetime) -> RunDirectory:
        """The next side run of a reproduction: `bad-1`, `bad-2`, …"""
        assert self.kind == "reproduction", f"{self.path}: only a reproduction holds side runs"
        count = len([run for run in self.sides() if run.name.rpartition("-")[0] == side])
        return _create(self.path / f"{side}-{count + 1}", "run", now)

    def sides(self) -> list[RunDirectory]:
        """The side runs of a reproduction, by name."""
        return runs(self.path)


def new_run(store: Path, name: str, now: datetime, kind: RunKind = "run") -> RunDirectory:
    """A new directory, in order of time by name; store is made if need be. now must be in UTC."""
    assert now.tzinfo is not None, "expected a time with its zone"
    stem = f"{now:%Y%m%dT%H%M%SZ}-{name}"
    for attempt in range(1000):
        # The suffix keeps runs of one second apart, whichever process they belong to: mkdir decides who was first.
        suffix = hashlib.sha256(f"{stem} {now.microsecond} {attempt}".encode()).hexdigest()[:4]
        try:
            return _create(store / f"{stem}-{suffix}", kind, now)
        except FileExistsError:
            continue
    raise BadInput(f"{store}: expected room for one more run named {stem}, found a thousand")


def _create(path: Path, kind: RunKind, now: datetime) -> RunDirectory:
    path.mkdir(parents=True)
    run = RunDirectory(path)
    write_json(run.status_file, {"kind": kind, "status": "created", "times": {"created": now.isoformat()}})
    return run


def runs(store: Path) -> list[RunDirectory]:
    """The runs of a store, the oldest first; empty if there is no store."""
    return sorted(_runs(store), key=lambda run: run.name)


def _runs(store: Path) -> Iterator[RunDirectory]:
    for status_file in store.glob("*/status.json"):
        yield RunDirectory(status_file.parent)
