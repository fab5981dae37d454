"""Requests and plans. A request is what a user asks for; a plan is everything that one run needs.

Each field of Request and ReproductionRequest is at once a flag of the command line, a key of a plan file in TOML, a
property in the JSON Schema, and a part of the command that repeats a run (harness.planning.options derives these).
A field's alias is its name as a flag and a key; its description is the flag's help.

A plan is stored in the run's directory: the version that `newest` meant, the story that a schedule's seed drew, the
seed itself. Keys of earlier releases stay readable.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from harness import plugins
from harness.model import BadInput
from harness.model.faults.disks import FileSystem
from harness.model.nemesis_ops import SLEEP
from harness.planning.story_steps import StoryStep
from nemesis.arguments import NODES_MAX

SHOWN_CHARACTERS = 200
NO_FAULTS = "none"
FEATURE = r"^[a-z]+(\.[a-z]+)*\.version$"
"""The name of a Kafka feature, whose level a cluster is formatted with, e.g. transaction.version (KIP-1022)."""


def _one_of(names: tuple[str, ...]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return name

    return AfterValidator(check)


def _absolute(path: str) -> str:
    """The path as plans store it, so that a run can be repeated from any folder."""
    return str(Path(path).absolute())


def _enum(names: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"enum": list(names), "type": "string"})


FAULTS = (*plugins.names("faults"), NO_FAULTS)
HOSTS = plugins.names("hosts")
WORKLOADS = plugins.names("workloads")
FaultName = Annotated[str, _one_of(FAULTS), _enum(FAULTS)]
HostName = Annotated[str, _one_of(HOSTS), _enum(HOSTS)]
WorkloadName = Annotated[str, _one_of(WORKLOADS), _enum(WORKLOADS)]
Level = Annotated[str, Field(pattern=r"^[0-9]{1,4}$")]
Features = dict[Annotated[str, Field(pattern=FEATURE)], Level]
Weight = Annotated[float, Field(gt=0, le=1000)]

SEED = "Seed of every random choice; drawn if not given."


class Target(BaseModel):
    """Which system, on which hosts."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    system: str = Field(
        default="reference",
        description="System under test: reference, kafka, kafka:VERSION, a registered name, or MODULE:NAME.",
    )
    switches: dict[str, str] = Field(
        default={}, alias="switch", description="NAME=VALUE for every node; can be repeated."
    )
    features: Features = Field(
        default={},
        alias="feature",
        description="NAME=LEVEL that Kafka is formatted with, e.g. transaction.version=1; can be repeated.",
    )
    hosts: HostName = Field(default="netns", description="Kind of host that nodes run on.")
    inventory: Annotated[str, AfterValidator(_absolute)] | None = Field(
        default=None, description="TOML file that lists the machines for --hosts ssh."
    )


class Load(Target):
    """Which system, on which hosts, and the operations that clients send to it."""

    disk: FileSystem = Field(default="directory", description="File system that nodes keep their logs on.")
    disk_mib: int = Field(default=256, ge=16, le=65_536, description="Size in MiB of a disk that is not a directory.")
    memory_mib: int | None = Field(
        default=None, ge=16, le=1 << 20, description="Memory limit of a node's server in MiB (needs root)."
    )
    cpus: float | None = Field(
        default=None, ge=0.01, le=1024, description="Processor limit of a node's server, e.g. 0.5 (needs root)."
    )
    layout: Literal["controllers", "combined"] = Field(
        default="controllers", description="controllers alone, or combined with brokers (Kafka)."
    )
    nodes: int = Field(default=3, ge=1, le=NODES_MAX, description="Number of nodes.")
    voters: int | None = Field(
        default=None,
        ge=1,
        le=NODES_MAX,
        description="Number of initial voters, for a dynamic quorum (Kafka).",
    )
    workload: WorkloadName = Field(default="idle", description="Workload that clients run.")
    workload_options: dict[str, str] = Field(
        default={}, alias="option", description="NAME=VALUE for the workload; can be repeated."
    )
    concurrency: int = Field(default=6, ge=2, le=200, description="Number of client processes.")
    rate_per_second: float = Field(
        default=100.0, gt=0, le=100_000, alias="rate", description="Client operations per second."
    )
    floor: int = Field(
        default=0, ge=0, le=NODES_MAX, description="Number of nodes that kills and pauses leave running."
    )


class Request(Load):
    """What a user asks of `splitbrain run`: a load, and a schedule of faults or a story step by step."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$", description="Name of the run.")
    seed: int | None = Field(default=None, ge=0, description=SEED)
    faults: list[FaultName] = Field(default=["partition"], description="Faults to inject, with commas, or none.")
    weights: dict[FaultName, Weight] = Field(
        default={}, alias="weight", description="FAULT=NUMBER: relative frequency, 1 by default; can be repeated."
    )
    at_once: int = Field(default=1, ge=1, le=8, description="Most faults that may be in place together.")
    interval_seconds: float = Field(
        default=8.0, ge=0.1, le=86_400, alias="interval", description="Mean time between faults in seconds."
    )
    time_limit_seconds: float = Field(
        default=60.0, gt=0, le=86_400, alias="time_limit", description="Duration of faults and load in seconds."
    )
    story: list[StoryStep] = Field(default=[], description="Steps in place of random faults (plan files only).")


class ReproductionRequest(Target):
    """What a user asks of `splitbrain reproduce`, for one scenario. switches override those of the sides."""

    side: Literal["bad", "good", "both"] = Field(default="both", description="Side to run.")
    times: int = Field(default=1, ge=1, le=1000, description="Number of runs of each side.")
    seed: int | None = Field(default=None, ge=0, description=SEED)


class Plan(Load):
    """A run as it is carried out.

    node_switches are those of single nodes; node_systems names the nodes that run another system than the plan's.
    scenario and side name the scenario that the run belongs to, if any. command repeats the run.
    """

    name: str
    seed: int = Field(ge=0)
    story: list[StoryStep]
    node_switches: dict[int, dict[str, str]] = {}
    node_systems: dict[int, str] = {}
    scenario: str | None = None
    side: str | None = None
    versions: dict[str, str] = {}
    command: str = ""

    @staticmethod
    def read(path: Path) -> Plan:
        """The plan of a run directory. Raises BadInput if it is not one."""
        try:
            return Plan.model_validate_json(path.read_text())
        except FileNotFoundError as error:
            raise BadInput(f"{path}: expected a run's plan, there is no such file") from error
        except ValidationError as error:
            raise BadInput(f"{path}: {_first_problem(error, Plan)}") from error

    @property
    def story_seconds(self) -> float:
        """The sum of the story's pauses: the least that the story takes."""
        return float(sum(step.value for step in self.story if step.f == SLEEP))

    def as_json(self) -> str:
        """The plan as its run's directory stores it."""
        return self.model_dump_json(indent=2, by_alias=True) + "\n"


def read_request(path: Path, overrides: Mapping[str, Any]) -> Request:
    """The request in a TOML file; overrides, by key, take precedence. Raises BadInput naming file and key."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: expected a plan in TOML, {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: expected TOML: {error}") from error
    by_alias = {_alias(Request, key): value for key, value in content.items()}
    return checked(Request, {**by_alias, **overrides}, str(path))


Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], values: Mapping[str, Any], place: str = "") -> Model:
    """A model of these values. Raises BadInput that names the file, or else the flag, and what was expected there."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = _first_problem(error, model)
        raise BadInput(f"{place}: {problem}" if place else f"--{problem}") from error


def _alias(model: type[BaseModel], key: str) -> str:
    """The key's spelling as a flag; keys of earlier releases are the fields' own names."""
    field = model.model_fields.get(key)
    return field.alias if field and field.alias else key


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a model, as files and flags spell them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "top level"
    known = f"; known keys are {', '.join(keys_of(model))}" if first["type"] == "extra_forbidden" else ""
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg'].removeprefix('Value error, ')}, found {_short(first['input'])}{known}{more}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
