"""The run store: one directory per run, with the same layout for all.

    20261121T051700Z-PV-01-reference-bad-ab12/
        plan.json       the plan: scenario, seed, versions, hosts
        system.json     the system's label, checks and transition rules
        status.json     the run's status, and when it was entered
        history/        one Parquet row per op event        observations/   one row per observation of a node
        journal.jsonl   undo records of faults              nodes/n1/ …     the nodes' logs and files
        findings.json   verdict.json   junit.xml   report.html   timeline.svg

A reproduction is such a directory with side runs (`bad-1`, `good-1`, …) and its own verdict and report.

Contains names, creation, listing and status. docs/architecture.md describes every file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from errno import EACCES, EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, Final, Literal, get_args

from harness.model import BadInput, EnvironmentFailure
from harness.model.errors import reason_of
from results.files import read_json, write_json

LATEST: Final = "latest"
"""The name of the link to a store's newest run."""

FREE_BYTES_MIN: Final = 128 << 20
"""Less free space than this is refused before a run: Kafka nodes and Spark need it within the first minute."""
SIGNS_OF_A_RUN: Final = ("status.json", "plan.json", "journal.jsonl")
"""A directory with any of these is a run, perhaps a damaged one."""

Status = Literal["created", "running", "recorded", "judged", "interrupted"]
RunKind = Literal["run", "reproduction"]

NEXT_STATUSES: Final[dict[Status, frozenset[Status]]] = {
    "created": frozenset({"running", "interrupted"}),
    "running": frozenset({"recorded", "interrupted"}),
    "recorded": frozenset({"judged"}),
    "interrupted": frozenset({"judged"}),
    "judged": frozenset({"judged"}),
}
"""The statuses that may follow each status. An interrupted run can be judged, and any judged run again."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run's directory and its layout."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def label(self) -> str:
        """A unique name for resources outside the directory; it also distinguishes the sides of a reproduction."""
        return self.name if self.path.parent.name == "runs" else f"{self.path.parent.name}-{self.name}"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def system(self) -> Path:
        return self.path / "system.json"

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
    def batches(self) -> Path:
        return self.path / "batches"

    @property
    def records(self) -> Path:
        return self.path / "records"

    @property
    def rpc_record(self) -> Path:
        return self.path / "rpcs.jsonl"

    @property
    def origin(self) -> Path:
        return self.path / "origin.json"

    @property
    def coverage(self) -> Path:
        return self.path / "coverage.json"

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
        """The directory of a node's logs and files."""
        return self.path / "nodes" / f"n{number}"

    @property
    def kind(self) -> RunKind:
        kind: RunKind = self._record()["kind"]
        return kind

    @property
    def status(self) -> Status:
        status: Status = self._record()["status"]
        return status

    @property
    def times(self) -> dict[Status, str]:
        """When the run entered each status, as ISO 8601 in UTC."""
        times: dict[Status, str] = self._record()["times"]
        return times

    def enter(self, status: Status, now: datetime) -> None:
        """Change the status; NEXT_STATUSES must allow it."""
        record = self._record()
        before: Status = record["status"]
        assert status in NEXT_STATUSES[before], f"{self.path}: a run that is {before} cannot become {status}"
        write_json(self.status_file, record | {"status": status, "times": record["times"] | {status: now.isoformat()}})

    def _record(self) -> dict[str, Any]:
        """What status.json holds. Raises BadInput if the file is missing or damaged."""
        record = read_json(self.status_file)
        found = record if isinstance(record, dict) else {}
        for key, known in (("kind", get_args(RunKind)), ("status", get_args(Status))):
            if found.get(key) not in known:
                raise BadInput(f"{self.status_file}: expected {key}, one of {', '.join(known)}")
        if not isinstance(found.get("times"), dict):
            raise BadInput(f"{self.status_file}: expected times, when the run entered each status")
        return found

    def new_side(self, side: str, now: datetime) -> RunDirectory:
        """Create the next side run of a reproduction: `bad-1`, `bad-2`, …"""
        assert self.kind == "reproduction", f"{self.path}: only a reproduction has side runs"
        count = len([run for run in self.sides() if run.name.rpartition("-")[0] == side])
        return _create(self.path / f"{side}-{count + 1}", "run", now)

    def sides(self) -> list[RunDirectory]:
        """The side runs of a reproduction, by name."""
        return runs(self.path)

    def own_runs(self) -> list[RunDirectory]:
        """The run itself, or the runs of a reproduction. Raises BadInput for a reproduction without any."""
        if self.kind == "run":
            return [self]
        sides = self.sides()
        if not sides:
            raise BadInput(f"{self.path}: expected a reproduction with side runs, found none")
        return sides


def new_run(store: Path, name: str, now: datetime, kind: RunKind = "run") -> RunDirectory:
    """Create a run directory, whose name sorts by time; creates the store if necessary. now must be in UTC.

    Raises BadInput for a store in which nothing can be created, EnvironmentFailure for one that is full.
    """
    assert now.tzinfo is not None, "expected a time with a time zone"
    stem = f"{now:%Y%m%dT%H%M%SZ}-{name}"
    with _creating_in(store):
        for attempt in range(1000):
            # The suffix distinguishes runs of the same second; mkdir fails if another process has made the directory.
            suffix = hashlib.sha256(f"{stem} {now.microsecond} {attempt}".encode()).hexdigest()[:4]
            with suppress(FileExistsError):
                run = _create(store / f"{stem}-{suffix}", kind, now)
                _link_latest(run)
                return run
    raise BadInput(f"{store}: cannot create a run named {stem}: there are already a thousand")


def require_new_runs(store: Path) -> None:
    """Create the store if necessary; for a command that creates its runs later. Raises as new_run does."""
    with _creating_in(store):
        store.mkdir(parents=True, exist_ok=True)
        if not os.access(store, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))


@contextmanager
def _creating_in(store: Path) -> Iterator[None]:
    try:
        _require_space(store)
        yield
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            raise
        problem = reason_of(error)
        raise BadInput(f"{store}: expected a folder in which runs can be created: {problem}") from error


def _create(path: Path, kind: RunKind, now: datetime) -> RunDirectory:
    path.mkdir(parents=True)
    run = RunDirectory(path)
    write_json(run.status_file, {"kind": kind, "status": "created", "times": {"created": now.isoformat()}})
    return run


def _link_latest(run: RunDirectory) -> None:
    """Let `latest` lead to a run; the link is replaced atomically. A name that the user has given away stays."""
    latest = run.path.parent / LATEST
    if latest.exists() and not latest.is_symlink():
        return
    link = run.path.parent / f".{LATEST}-{run.name}"
    link.symlink_to(run.name)
    link.replace(latest)


def _require_space(store: Path) -> None:
    """Raise EnvironmentFailure unless the store's file system has room for a run. Creates nothing."""
    existing = next(each for each in (store.absolute(), *store.absolute().parents) if each.is_dir())
    status = os.statvfs(existing)
    free = status.f_bavail * status.f_frsize
    if status.f_blocks and free < FREE_BYTES_MIN:
        found = f"found {free >> 20} MiB; free some, or use another --store"
        raise EnvironmentFailure(f"{store}: expected at least {FREE_BYTES_MIN >> 20} MiB of free space, {found}")


def require_store(store: Path) -> None:
    """Raise BadInput unless this is a folder that can be listed."""
    try:
        next(store.iterdir(), None)
    except OSError as error:
        problem = "no such folder" if isinstance(error, FileNotFoundError) else reason_of(error)
        raise BadInput(f"{store}: expected a folder of stored runs, found {problem}") from error


def runs(store: Path) -> list[RunDirectory]:
    """The runs of a store, oldest first, also those whose status is missing or damaged; empty if there is no store."""
    return sorted(_runs(store), key=lambda run: run.name)


def _runs(store: Path) -> Iterator[RunDirectory]:
    with suppress(OSError), os.scandir(store) as entries:
        for entry in entries:
            # A name with a dot is that of a run that is being imported or removed.
            may_be_run = entry.name != LATEST and not entry.name.startswith(".") and entry.is_dir()
            if may_be_run and is_run(entry.path):
                yield RunDirectory(Path(entry.path))


def is_run(path: str | Path) -> bool:
    """Whether a folder is a stored run, also one whose status is missing or damaged."""
    return any(os.path.exists(f"{path}/{name}") for name in SIGNS_OF_A_RUN)
