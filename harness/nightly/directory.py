"""A night on disk: its plan, its ledger of jobs, and its summary.

    results/nights/20261120T020000Z-nightly/
        plan.json       the plan, with its seed and when it began
        ledger.jsonl    one line per event: a job began, a job ended
        summary.txt     summary.md      summary.html      summary.json      junit.xml

A line of the ledger is on disk before anything depends on it, so a night resumes after any crash. The runs are in the
store, where every command finds them; a run's origin.json names its night.

Contains the files. Does not contain what a night does (harness.nightly.night).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.model import BadInput
from harness.model.errors import reason_of
from harness.nightly.plan import NightPlan
from harness.planning.plan import checked
from results.files import read_json, write_json

FOLDER: Final = "nights"
ATTEMPTS_MAX: Final = 3
"""A job that was interrupted so often may be what interrupts the night; it is not tried again."""


@dataclass(slots=True)
class JobState:
    """What the ledger says of a job: the runs or reproductions of its attempts, and how it ended, if it has."""

    runs: list[str] = field(default_factory=list)
    outcome: str | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class NightDirectory:
    """A night's directory."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def _plan_file(self) -> Path:
        return self.path / "plan.json"

    def plan(self) -> NightPlan:
        """The plan, with its seed. Raises BadInput for a damaged file."""
        return checked(NightPlan, self._stored()["plan"], str(self._plan_file), flags=())

    def asked(self) -> Any:
        """The plan as the user's file had it, by which a night is recognized when it resumes."""
        return self._stored()["asked"]

    def began(self) -> datetime:
        """When the night began, in UTC."""
        return datetime.fromisoformat(self._stored()["began"])

    def _stored(self) -> dict[str, Any]:
        stored = read_json(self._plan_file)
        if not isinstance(stored, dict) or not {"plan", "asked", "began"} <= stored.keys():
            raise BadInput(f"{self._plan_file}: expected a night's plan")
        return stored

    def record(self, event: str, **values: object) -> None:
        """Append an event to the ledger, with the time; it is on disk when this returns."""
        line = json.dumps({"event": event, "time": datetime.now(UTC).isoformat(), **values}, ensure_ascii=False)
        with self.ledger.open("ab") as file:
            if file.tell() and not self._ends_with_a_line():
                file.write(b"\n")  # the line before was cut off by a crash
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _ends_with_a_line(self) -> bool:
        with self.ledger.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def events(self) -> Iterator[dict[str, Any]]:
        """The events, oldest first. A line that a crash cut off is left out."""
        if not self.ledger.exists():
            return
        for line in self.ledger.read_bytes().splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    yield event

    def jobs(self) -> dict[str, JobState]:
        """The jobs that have begun, by id."""
        jobs: dict[str, JobState] = {}
        for event in self.events():
            if "job" not in event:
                continue
            state = jobs.setdefault(event["job"], JobState())
            if event["event"] == "began":
                state.runs.append(event["run"])
            elif event["event"] == "ended":
                state.outcome, state.error = event["outcome"], event.get("error", "")
        return jobs

    @property
    def is_finished(self) -> bool:
        """Whether the night went to its end."""
        return any(event["event"] == "finished" for event in self.events())


@contextmanager
def locked(night: NightDirectory) -> Iterator[None]:
    """Hold the night, so that no other process resumes it. Raises BadInput if one does already."""
    with (night.path / "lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInput(f"{night.path}: expected a night that is not running, found that it is") from error
        yield


def nights(store: Path) -> list[NightDirectory]:
    """The nights of a store, oldest first."""
    folder = folder_of(store)
    return sorted((NightDirectory(path.parent) for path in folder.glob("*/plan.json")), key=lambda night: night.name)


def folder_of(store: Path) -> Path:
    """The folder of a store's nights, beside the runs."""
    return store.absolute().parent / FOLDER


def new_night(store: Path, plan: NightPlan, asked: Mapping[str, Any], now: datetime) -> NightDirectory:
    """Create the directory of a night that begins now (in UTC). Raises BadInput where nothing can be created."""
    stem = f"{now:%Y%m%dT%H%M%SZ}-{plan.name}"
    try:
        for name in (stem, *(f"{stem}-{number}" for number in range(2, 1000))):
            path = folder_of(store) / name
            with suppress(FileExistsError):
                path.mkdir(parents=True)
                document = {"began": now.isoformat(), "asked": asked, "plan": plan.model_dump(mode="json")}
                write_json(path / "plan.json", document)
                return NightDirectory(path)
    except OSError as error:
        raise BadInput(
            f"{folder_of(store)}: expected a folder in which nights can be created: {reason_of(error)}"
        ) from error
    raise BadInput(f"{folder_of(store)}: cannot create a night named {stem}: there are already a thousand")


def unfinished_night(store: Path, asked: Mapping[str, Any]) -> NightDirectory | None:
    """The newest night of this plan, if it was interrupted; None if it went to its end, or there is none."""
    of_plan = [night for night in nights(store) if _readable(night) and night.asked() == asked]
    return of_plan[-1] if of_plan and not of_plan[-1].is_finished else None


def _readable(night: NightDirectory) -> bool:
    try:
        night.plan()
    except BadInput:
        return False
    return True
