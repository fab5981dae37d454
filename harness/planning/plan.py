"""A plan: all that one run needs to know, settled before it starts, stored in its directory, enough to repeat it.

A user's request (flags, or a TOML file with the same names) is checked here and turned into a plan, in which nothing is
open any more: the version that `newest` meant, the story that a schedule's seed drew, the seed itself.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from harness.model import BadInput
from harness.model.faults.disks import FileSystem
from harness.model.hosts import HostKind
from harness.planning.story_steps import StoryStep
from nemesis.arguments import NODES_MAX
from nemesis.registry import BY_NAME

SHOWN_CHARACTERS = 200
WorkloadName = Literal["idle", "kafka-17754", "kafka-20734", "log", "register", "transactions"]
NO_FAULTS = "none"
FEATURE = r"^[a-z]+(\.[a-z]+)*\.version$"
"""The name of a feature of Kafka's, whose level a cluster is formatted with, e.g. transaction.version (KIP-1022)."""


def _is_fault(name: str) -> str:
    if name not in BY_NAME and name != NO_FAULTS:
        raise ValueError(f"expected {', '.join(BY_NAME)} or {NO_FAULTS}")
    return name


FaultName = Annotated[str, AfterValidator(_is_fault), WithJsonSchema({"enum": [*BY_NAME, NO_FAULTS]})]


class Load(BaseModel):
    """Which system, on which hosts, and what clients ask of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    hosts: HostKind = "netns"
    inventory: str | None = None
    disk: FileSystem = "directory"
    disk_mib: int = Field(default=256, ge=16, le=65_536)
    memory_mib: int | None = Field(default=None, ge=16, le=1 << 20)
    cpus: float | None = Field(default=None, ge=0.01, le=1024)
    system: str = "reference"
    switches: dict[str, str] = {}
    features: dict[Annotated[str, Field(pattern=FEATURE)], Annotated[str, Field(pattern=r"^[0-9]{1,4}$")]] = {}
    layout: Literal["controllers", "combined"] = "controllers"
    nodes: int = Field(default=3, ge=1, le=NODES_MAX)
    voters: int | None = Field(default=None, ge=1, le=NODES_MAX)
    workload: WorkloadName = "idle"
    workload_options: dict[str, str] = {}
    concurrency: int = Field(default=6, ge=2, le=200)
    rate_per_second: float = Field(default=100.0, gt=0, le=100_000)
    floor: int = Field(default=0, ge=0, le=NODES_MAX)


class Request(Load):
    """What a user asks of `splitbrain run`: a load, and a schedule of faults or a story step by step."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")
    seed: int | None = Field(default=None, ge=0)
    faults: list[FaultName] = ["partition"]
    weights: dict[FaultName, Annotated[float, Field(gt=0, le=1000)]] = {}
    at_once: int = Field(default=1, ge=1, le=8)
    interval_seconds: float = Field(default=8.0, ge=0.1, le=86_400)
    time_limit_seconds: float = Field(default=60.0, gt=0, le=86_400)
    story: list[StoryStep] = []


class Plan(Load):
    """A run as it is carried out. scenario and side say which scenario it plays, if one.

    node_switches are those of single nodes; node_systems names the nodes that run another system than the plan's.
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
        """The plan of a run directory. Raises BadInput where it is not one."""
        try:
            return Plan.model_validate_json(path.read_text())
        except FileNotFoundError as error:
            raise BadInput(f"{path}: expected a run's plan, there is no such file") from error
        except ValidationError as error:
            raise BadInput(f"{path}: {_first_problem(error)}") from error


def read_request(path: Path, overrides: dict[str, Any]) -> Request:
    """The request of a TOML file, with what flags say in its place. Raises BadInput naming file and key."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: expected a plan in TOML, {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: expected TOML: {error}") from error
    return _checked(Request, {**content, **overrides}, str(path))


def request(values: dict[str, Any]) -> Request:
    """The request that flags alone make. Raises BadInput naming the flag."""
    return _checked(Request, values, "flags")


def settled(**values: Any) -> Plan:
    """The plan of these values. Raises BadInput naming the one that cannot be."""
    return _checked(Plan, values, "flags")


Model = TypeVar("Model", bound=BaseModel)


def _checked(model: type[Model], values: dict[str, Any], place: str) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{place}: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "top level"
    known = f"; known keys are {', '.join(Request.model_fields)}" if first["type"] == "extra_forbidden" else ""
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg'].removeprefix('Value error, ')}, came {_short(first['input'])}{known}{more}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
