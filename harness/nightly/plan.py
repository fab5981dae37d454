"""The plan of a night, as a TOML file: which scenarios and explorations, on which systems, within which budget.

    plan = read_night_plan(Path("nightly.toml"))
    cells_of(plan)        # each scenario or exploration, with each system and each of the switches

Contains the file's keys and the matrix that they mean. Does not contain a night (harness.nightly.night).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from harness import plugins
from harness.model import BadInput
from harness.model.suggestions import did_you_mean
from harness.planning.plan import RUN_NAME, SEED, AbsolutePath, Features, HostName, checked, system_name
from harness.text_files import read_toml
from nemesis.arguments import NODES_MAX

EXPLORE = "explore"
WILDCARDS = frozenset("*?[")
SystemName = Annotated[str, AfterValidator(system_name)]


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Entry(_Keys):
    """A part of the matrix: its scenarios, or explorations, on each system with each of the switches, `times` times."""

    scenarios: list[str] = Field(
        default=[], description="Scenarios by id, or by a pattern such as PV-*, which leaves out those that cannot run."
    )
    explore: bool = Field(default=False, description="Random runs, as `splitbrain explore` draws them.")
    systems: list[SystemName] = Field(default=["reference"], min_length=1, description="Systems under test.")
    switches: list[dict[str, str]] = Field(
        default=[{}], min_length=1, description="Tables of switches; each is a variant of its own."
    )
    features: Features = Field(default={}, description="Levels that Kafka is formatted with.")
    times: int = Field(default=1, ge=1, le=100_000, description="Runs of each scenario, system and variant.")
    hosts: HostName = Field(default="netns", description="Kind of host that nodes run on.")
    inventory: AbsolutePath | None = Field(default=None, description="TOML file that lists the machines of ssh hosts.")
    nodes: int | None = Field(default=None, ge=1, le=NODES_MAX, description="Number of nodes of scenarios.")
    side: Literal["both", "bad", "good"] = Field(default="both", description="Side of scenarios, or both.")
    run_seconds: float = Field(default=25.0, ge=5, le=3_600, description="Duration of an exploration's faults.")

    @model_validator(mode="after")
    def _is_one_kind(self) -> Entry:
        if bool(self.scenarios) is self.explore:
            raise ValueError("expected either scenarios or explore = true")
        return self


class Keep(_Keys):
    """Which stored runs are kept after a night. Failed runs that nobody has reviewed always are."""

    days: float | None = Field(default=None, ge=0, description="Runs that are younger.")
    runs: int | None = Field(default=None, ge=0, description="The newest runs.")
    gib: float | None = Field(default=None, ge=0, description="The newest runs that take this much together.")


class NightPlan(_Keys):
    """A night: its matrix, its budget, and what the store keeps."""

    name: Annotated[str, RUN_NAME] = Field(default="nightly", description="Name of the nights of this plan.")
    hours: float = Field(default=8.0, gt=0, le=24 * 14, description="No run begins later than this after the start.")
    runs: int | None = Field(default=None, ge=1, description="Most jobs of a night: scenarios, or explored runs.")
    disk_gib: float | None = Field(
        default=None, gt=0, description="No run begins once the night's runs take this much."
    )
    at_once: int | None = Field(
        default=None, ge=1, le=64, description="Runs at a time; as many as the machine allows if not given."
    )
    deadline_seconds: float = Field(default=900.0, ge=1, le=86_400, description="A run that takes longer is ended.")
    seed: int | None = Field(default=None, ge=0, description=SEED)
    entries: list[Entry] = Field(min_length=1, description="The parts of the matrix.")
    keep: Keep = Field(default=Keep(), description="Which stored runs are kept.")


@dataclass(frozen=True, slots=True)
class Cell:
    """One element of the matrix. what is a scenario's id or EXPLORE; is_required: the plan names it, not a pattern."""

    what: str
    system: str
    switches: Mapping[str, str]
    entry: Entry
    is_required: bool = True

    @property
    def variant(self) -> str:
        """The switches as text."""
        return ", ".join(f"{name}={value}" for name, value in sorted(self.switches.items()))

    @property
    def title(self) -> str:
        """E.g. `PV-01 on kafka:4.3.1 with controller.quorum.fetch.timeout.ms=500`."""
        return f"{self.what} on {self.system}" + (f" with {self.variant}" if self.variant else "")


@dataclass(frozen=True, slots=True)
class Job:
    """One repetition of a cell. Its id is unique in a night, and the same when the night resumes."""

    cell: Cell
    repetition: int
    seed: int

    @property
    def id(self) -> str:
        return f"{self.cell.title}, seed {self.seed}"


def read_night_plan(path: Path) -> NightPlan:
    """The plan in a TOML file. Raises BadInput that names file and key, or a scenario that does not exist."""
    plan = checked(NightPlan, read_toml(path, "a night's plan in TOML"), str(path), flags=())
    for number, entry in enumerate(plan.entries, 1):
        for pattern in entry.scenarios:
            if not _matches(pattern):
                known = plugins.scenarios()
                expected = "a scenario's id, or a pattern such as PV-*"
                hint = did_you_mean(pattern, known)
                raise BadInput(
                    f"{path}: entries, number {number}: scenarios: expected {expected}, found {pattern}{hint}"
                )
    return plan


def cells_of(plan: NightPlan) -> list[Cell]:
    """The matrix: each scenario, or exploration, of each entry on each of its systems with each of its switches."""
    cells = (cell for entry in plan.entries for cell in _cells_of(entry))
    return list({cell.title: cell for cell in cells}.values())


def _cells_of(entry: Entry) -> Iterator[Cell]:
    named = [(EXPLORE, True)] if entry.explore else []
    named += [(each, not WILDCARDS & set(pattern)) for pattern in entry.scenarios for each in _matches(pattern)]
    for what, is_required in named:
        for system in entry.systems:
            for switches in entry.switches:
                yield Cell(what, system, switches, entry, is_required)


def _matches(pattern: str) -> list[str]:
    return [each for each in plugins.scenarios() if fnmatchcase(each.upper(), pattern.upper())]


def jobs_of(cells: list[Cell], seed: int) -> list[Job]:
    """Every repetition of every cell: the first of all cells, then the second, so that a short night has some of each.

    The seeds of a cell's repetitions are consecutive and begin with the night's.
    """
    most = max((cell.entry.times for cell in cells), default=0)
    return [Job(cell, number, seed + number) for number in range(most) for cell in cells if number < cell.entry.times]
