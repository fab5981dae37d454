"""A scenario: a documented situation, the story that brings it about, and the expected outcome on each side.

    PV_01 = Scenario(id="PV-01", …, bad=Side(on(reference={…}, kafka="3.9.1"), shows=(leader_deposed,)), good=…)

An expectation is about a quantity that the checks measure. On the bad side each of `shows` must hold; on the good side
none of `never` may hold. Guarantees are the checks' business: a side that violates one has not gone as documented,
except for the findings that its `breaks` names, each of which must appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.model.story import Step


@dataclass(frozen=True, slots=True)
class Source:
    """Where a scenario is documented, e.g. Source('KIP-996') / 'Motivation'."""

    document: str
    section: str = ""

    def __truediv__(self, section: str) -> Source:
        return Source(self.document, section)

    def __str__(self) -> str:
        return f"{self.document}, {self.section}" if self.section else self.document


@dataclass(frozen=True, slots=True)
class Expectation:
    """A quantity reaches at_least; text says what that means to a reader."""

    text: str
    quantity: str
    at_least: float

    def holds(self, measured: float) -> bool:
        """Whether the measured quantity reaches the bound."""
        return measured >= self.at_least


@dataclass(frozen=True, slots=True)
class Setup:
    """How one system runs a side.

    version is one as a user would ask for it ('3.9.1', 'newest 4'), empty for a system without versions. switches are
    those of all nodes by property name. node_versions names the nodes that run another version.
    """

    version: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)
    node_versions: Mapping[int, str] = field(default_factory=dict)


def on(
    reference: Mapping[str, str] | None = None, kafka: str | None = None, kafka_nodes: Mapping[int, str] | None = None
) -> Mapping[str, Setup]:
    """The setups of the reference system (its switches) and of Kafka (its version); None where a side has none."""
    setups: dict[str, Setup] = {}
    if reference is not None:
        setups["reference"] = Setup(switches=reference)
    if kafka is not None:
        setups["kafka"] = Setup(kafka, node_versions=kafka_nodes or {})
    return setups


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a scenario.

    setups maps a system's name to how it runs this side; the side is not available on other systems. node_switches
    holds properties of single nodes, for every system that knows them. needs_features holds the levels of Kafka's
    features (KIP-1022) that the side needs at least. breaks names findings. workload_options are the workload's own.
    """

    setups: Mapping[str, Setup]
    shows: tuple[Expectation, ...] = ()
    never: tuple[Expectation, ...] = ()
    node_switches: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    needs_features: Mapping[str, int] = field(default_factory=dict)
    breaks: tuple[str, ...] = ()
    workload_options: Mapping[str, str] = field(default_factory=dict)


SideName = Literal["bad", "good"]
SIDE_NAMES: tuple[SideName, ...] = ("bad", "good")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the catalogue that can be run. nodes are controllers, and brokers too where the layout is combined;
    workload is one of the workloads by name.
    """

    id: str
    title: str
    question: str
    source: Source
    nodes: int
    story: tuple[Step, ...]
    bad: Side
    good: Side
    workload: str = "idle"
    layout: Literal["controllers", "combined"] = "controllers"

    def side(self, name: SideName) -> Side:
        """The side of that name."""
        return self.bad if name == "bad" else self.good

    def sides_on(self, system: str) -> tuple[SideName, ...]:
        """The sides that are available on a system."""
        return tuple(name for name in SIDE_NAMES if system in self.side(name).setups)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems on which either side is available."""
        return tuple(dict.fromkeys(system for name in SIDE_NAMES for system in self.side(name).setups))
