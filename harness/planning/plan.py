"""Requests and plans. A request is what a user asks for; a plan is everything that one run needs.

Each field of Request and ReproductionRequest is at once a flag of the command line, a key of a plan file in TOML, a
property in the JSON Schema, and a part of the command that repeats a run (harness.planning.options derives these).
A field's alias is its name as a flag and a key; its description is the flag's help.

A plan is stored in the run's directory: the version that `newest` meant, the story that a schedule's seed drew, the
seed itself. Keys of earlier releases stay readable.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from harness import plugins
from harness.model import BadInput
from harness.model.faults.disks import FileSystem
from harness.model.nemesis_ops import SLEEP
from harness.model.shown_values import plain, shown
from harness.model.suggestions import did_you_mean
from harness.model.validation import Matching, dotted, first_problem, one_of
from harness.planning.story_steps import Story
from harness.text_files import read_json, read_toml
from nemesis.arguments import NODES_MAX

NO_FAULTS = "none"
FEATURE = Matching(r"[a-z]+(\.[a-z]+)*\.version", "the name of a Kafka feature, e.g. transaction.version (KIP-1022)")
LEVEL = Matching(r"[0-9]{1,4}", "a level, a number of up to four digits")
RUN_NAME = Matching(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}",
    "a name of up to 61 letters, digits, dots, dashes and underscores, the first a letter or a digit",
)


def _absolute(path: str) -> str:
    """The path as plans store it, so that a run can be repeated from any folder."""
    return str(Path(path).absolute())


AbsolutePath = Annotated[str, AfterValidator(_absolute)]


def system_name(name: str) -> str:
    """The name. Raises ValueError for what cannot be a system; harness.plugins.system says whether it is installed."""
    family, colon, version = name.partition(":")
    known = plugins.names("systems")
    if not colon and family not in known:
        hint = did_you_mean(family, known)
        raise ValueError(f"expected {', '.join(known)}, kafka:VERSION or MODULE:NAME, found {shown(name)}{hint}")
    if colon and not (family and version):
        raise ValueError(f"expected a name before the colon and a version or a name after it, found {shown(name)}")
    return name


def _enum(names: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"enum": list(names), "type": "string"})


FAULTS = (*plugins.names("faults"), NO_FAULTS)
HOSTS = plugins.names("hosts")
WORKLOADS = plugins.names("workloads")
FaultName = Annotated[str, one_of(FAULTS), _enum(FAULTS)]
HostName = Annotated[str, one_of(HOSTS), _enum(HOSTS)]
WorkloadName = Annotated[str, one_of(WORKLOADS), _enum(WORKLOADS)]
Features = dict[Annotated[str, FEATURE], Annotated[str, LEVEL]]
Weight = Annotated[float, Field(gt=0, le=1000)]

PLAN_BYTES_MAX = 64 << 20
"""Of a stored plan, which has the story that a schedule drew."""
PLAN_FILE_ONLY = ("story", "node_switches", "node_systems", "not_started")
"""The fields of a request that only a plan file can have."""
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
    inventory: AbsolutePath | None = Field(
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
    layout: Literal["controllers", "combined", "zookeeper"] = Field(
        default="controllers",
        description="controllers alone, combined with brokers, or brokers with ZooKeeper on the last node (Kafka).",
    )
    nodes: int = Field(default=3, ge=1, le=NODES_MAX, description="Number of nodes.")
    voters: int | None = Field(
        default=None,
        ge=1,
        le=NODES_MAX,
        description="Number of nodes that are voters; the others observe. Kafka's voters can change then (KIP-853).",
    )
    workload: WorkloadName = Field(default="idle", description="Workload that clients run.")
    workload_options: dict[str, str] = Field(
        default={}, alias="option", description="NAME=VALUE for the workload; can be repeated."
    )
    concurrency: int = Field(default=6, ge=2, le=200, description="Number of client processes.")
    pinned: int = Field(
        default=0, ge=0, le=200, description="Number of client processes that use one node only, whichever node leads."
    )
    rate_per_second: float = Field(
        default=100.0, gt=0, le=100_000, alias="rate", description="Client operations per second."
    )
    burst_seconds: float | None = Field(
        default=None,
        gt=0,
        le=3_600,
        alias="bursts",
        description="Mean length in seconds of the load's pauses, and of the time between them; a burst follows each.",
    )
    floor: int = Field(
        default=0, ge=0, le=NODES_MAX, description="Number of nodes that kills and pauses leave running."
    )
    node_switches: dict[Annotated[int, Field(ge=1, le=NODES_MAX)], dict[str, str]] = Field(
        default={}, description="NAME=VALUE for single nodes, by number (plan files only)."
    )
    node_systems: dict[Annotated[int, Field(ge=1, le=NODES_MAX)], Annotated[str, AfterValidator(system_name)]] = Field(
        default={}, description="Systems of single nodes, by number, such as another release (plan files only)."
    )
    not_started: list[Annotated[int, Field(ge=1, le=NODES_MAX)]] = Field(
        default=[], description="Nodes, by number, that only a step of the story starts (plan files only)."
    )
    record_rpcs: bool = Field(
        default=False, description="Put a proxy between the nodes that records each RPC, even without RPC faults."
    )
    timed: bool = Field(
        default=False, description="Operations at fixed times, as the story's steps are (--hosts simulation only)."
    )

    @field_validator("pinned")
    @classmethod
    def _pinned_processes_exist(cls, pinned: int, info: ValidationInfo) -> int:
        if pinned > info.data.get("concurrency", pinned):
            raise ValueError(f"expected at most --concurrency, {info.data['concurrency']}, found {pinned}")
        return pinned


class Request(Load):
    """What a user asks of `splitbrain run`: a load, and a schedule of faults or a story step by step."""

    name: Annotated[str, RUN_NAME] = Field(default="run", description="Name of the run.")
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
    story: Story = Field(default=[], description="Steps in place of random faults (plan files only).")

    _system_exists = field_validator("system")(system_name)

    @field_validator("node_switches", "node_systems", "not_started")
    @classmethod
    def _nodes_exist(cls, nodes: Collection[int], info: ValidationInfo) -> Collection[int]:
        """The numbers of nodes, or what is given by number."""
        absent = [node for node in nodes if node > info.data.get("nodes", node)]
        if absent:
            raise ValueError(f"expected nodes up to {info.data['nodes']}, found {absent[0]}")
        return nodes

    @field_validator("faults")
    @classmethod
    def _none_stands_alone(cls, faults: list[str]) -> list[str]:
        if NO_FAULTS in faults and len(faults) > 1:
            raise ValueError(f"expected {NO_FAULTS} alone, or faults without {NO_FAULTS}, found {','.join(faults)}")
        return faults

    @field_validator("weights")
    @classmethod
    def _weighted_faults_occur(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        faults = [name for name in info.data.get("faults", weights) if name != NO_FAULTS]
        absent = [name for name in weights if name not in faults]
        if absent:
            expected = f"faults among {', '.join(faults)}" if faults else "no weights without faults"
            raise ValueError(f"expected {expected}, found {absent[0]}")
        return weights


class ReproductionRequest(Target):
    """What a user asks of `splitbrain reproduce`, for one scenario. switches override those of the sides."""

    side: Literal["bad", "good", "both"] = Field(default="both", description="Side to run.")
    each: str | None = Field(
        default=None,
        description="Run once with each value of this switch, in place of both sides, and compare the logs.",
    )
    times: int = Field(default=1, ge=1, le=1000, description="Number of runs of each side.")
    at_once: int | None = Field(
        default=None, ge=1, le=64, description="Runs at a time; as many as the machine allows if not given."
    )
    nodes: int | None = Field(
        default=None, ge=1, le=NODES_MAX, description="Number of nodes; the scenario's own if not given."
    )
    full: bool = Field(default=False, description="Run the story for as long as its document asks, where that is long.")
    seed: int | None = Field(default=None, ge=0, description=SEED)

    _system_exists = field_validator("system")(system_name)


class Plan(Load):
    """A run as it is carried out.

    scenario and side name the scenario that the run belongs to, if any. command repeats the run. drawn_from is the
    coverage of the runs before it from which an exploration drew it (harness.exploration.coverage).
    """

    name: str
    seed: int = Field(ge=0)
    story: Story
    scenario: str | None = None
    side: str | None = None
    versions: dict[str, str] = {}
    command: str = ""
    drawn_from: dict[str, Any] = {}

    @staticmethod
    def read(path: Path) -> Plan:
        """The plan of a run directory. Raises BadInput if it is not one."""
        content = read_json(path, "a run's plan", PLAN_BYTES_MAX)
        if not isinstance(content, dict):
            raise BadInput(f"{path}: expected a run's plan, found {shown(content)}")
        return checked(Plan, content, str(path), flags=())

    @property
    def story_seconds(self) -> float:
        """The sum of the story's pauses: the least that the story takes."""
        return float(sum(step.value for step in self.story if step.f == SLEEP))

    def as_json(self) -> str:
        """The plan as its run's directory stores it."""
        return self.model_dump_json(indent=2, by_alias=True) + "\n"


def request_of(plan: Plan) -> Request:
    """The request that makes this plan, without its scenario."""
    values = {name: getattr(plan, name) for name in Load.model_fields}
    name = "run" if plan.scenario else plan.name
    return Request(**values, name=name, seed=plan.seed, story=plan.story)


def read_request(path: Path, overrides: Mapping[str, Any]) -> Request:
    """The request in a TOML file; overrides, by key, take precedence. Raises BadInput naming file and key, or flag.

    Weights of faults that the overrides leave out are left out too.
    """
    content = read_toml(path, "a plan in TOML")
    values = {_alias(Request, key): value for key, value in content.items()}
    if "faults" in overrides and isinstance(values.get("weight"), dict):
        values["weight"] = {name: each for name, each in values["weight"].items() if name in overrides["faults"]}
    return checked(Request, {**values, **overrides}, str(path), overrides)


Model = TypeVar("Model", bound=BaseModel)


def checked(
    model: type[Model], values: Mapping[str, Any], file: str = "", flags: Container[str] | None = None
) -> Model:
    """A model of these values, by key. Raises BadInput that names the place and what was expected there.

    The place is the flag for keys among flags, which are all keys unless given, and file and key for the others.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, model)
        key, *rest = problem.path or ("top level",)
        if flags is None or key in flags:
            words = [flag_of(str(key)), *(plain(part) for part in rest if isinstance(part, str))]
            raise BadInput(f"{' '.join(words)}: {problem}") from error
        raise BadInput(f"{file}: {dotted((key, *rest))}: {problem}") from error
    except (RecursionError, ValueError) as error:  # deeper, or of more digits, than a plan can be stored
        raise BadInput(f"{file or 'flags'}: expected values that can be stored as JSON") from error


def flag_of(key: str) -> str:
    """The flag of a key, e.g. `--time-limit`."""
    return f"--{key.replace('_', '-')}"


def _alias(model: type[BaseModel], key: str) -> str:
    """The key's spelling as a flag; keys of earlier releases are the fields' own names."""
    field = model.model_fields.get(key)
    return field.alias if field and field.alias else key
