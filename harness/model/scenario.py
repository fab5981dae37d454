"""A scenario: a documented anomaly, the story that provokes it, and the expected outcome on each side.

    PV_01 = Scenario(id="PV-01", …, bad=Side(on(reference={…}, kafka="3.9.1"), shows=(leader_deposed,)), good=…)

An expectation is a bound on a quantity that the checks measure: each of `shows` must hold, none of `never` may hold.
Checks judge guarantees independently of expectations: a side with an invalid finding does not go as documented, unless
its `breaks` names the finding. Each finding in `breaks` must appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.model.errors import BadInput
from harness.model.measures import Measure, needs_rpcs
from harness.model.story import Step


@dataclass(frozen=True, slots=True)
class Source:
    """The document that describes a scenario, e.g. Source('KIP-996') / 'Motivation'."""

    document: str
    section: str = ""

    def __truediv__(self, section: str) -> Source:
        return Source(self.document, section)

    def __str__(self) -> str:
        return f"{self.document}, {self.section}" if self.section else self.document


@dataclass(frozen=True, slots=True)
class Expectation:
    """A quantity is at_least this large; text states what that means. measure is set if no check measures it."""

    text: str
    quantity: str
    at_least: float
    measure: Measure | None = None

    def holds(self, measured: float) -> bool:
        """Whether the measured value reaches the bound."""
        return measured >= self.at_least


Layout = Literal["controllers", "combined", "zookeeper"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """The nodes on which a system plays a story, and the story; the fields are those of Scenario and Side."""

    layout: Layout
    nodes: int
    voters: int | None
    story: tuple[Step, ...]
    node_switches: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    not_started: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Setup:
    """How one system runs a side.

    version is written as on the command line ('3.9.1', 'newest 4'); it is empty for a system without versions. switches
    are properties of all nodes, by name. node_versions maps nodes that run another version to that version. deployment
    is the system's own, where it cannot have the scenario's nodes: brokers with ZooKeeper, for instance.
    """

    version: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)
    node_versions: Mapping[int, str] = field(default_factory=dict)
    deployment: Deployment | None = None


def on(
    reference: Mapping[str, str] | None = None,
    kafka: str | None = None,
    kafka_nodes: Mapping[int, str] | None = None,
    kafka_switches: Mapping[str, str] | None = None,
    reference_deployment: Deployment | None = None,
) -> Mapping[str, Setup]:
    """The setups of the reference system (its switches, its deployment if that differs) and of Kafka (its version,
    versions of single nodes, and switches); None if a side does not support the system.
    """
    setups: dict[str, Setup] = {}
    if reference is not None:
        setups["reference"] = Setup(switches=reference, deployment=reference_deployment)
    if kafka is not None:
        setups["kafka"] = Setup(kafka, kafka_switches or {}, kafka_nodes or {})
    return setups


def alternatives(breaks: str) -> tuple[str, ...]:
    """The findings that an entry of Side.breaks names, of which one must appear."""
    return tuple(breaks.split("|"))


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a scenario.

    setups maps the name of each system that supports this side to its setup. shows are the expectations that must hold,
    never those that must not. node_switches maps nodes to properties of their own; a system ignores properties that it
    does not have. needs_features maps Kafka's features (KIP-1022) to the lowest level that the side supports. breaks
    names the findings that must appear, may_break those that may follow from them. Of findings joined by a bar, e.g.
    "lost-write|non-linearizable", one must appear: a system's registers are judged by what it promises.
    workload_options are options of the workload. story is the side's own, if it differs from the scenario's.
    """

    setups: Mapping[str, Setup]
    shows: tuple[Expectation, ...] = ()
    never: tuple[Expectation, ...] = ()
    node_switches: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    needs_features: Mapping[str, int] = field(default_factory=dict)
    breaks: tuple[str, ...] = ()
    may_break: tuple[str, ...] = ()
    workload_options: Mapping[str, str] = field(default_factory=dict)
    story: tuple[Step, ...] = ()

    @property
    def expected_findings(self) -> tuple[str, ...]:
        """The findings that do not count against the side."""
        return (*(name for each in self.breaks for name in alternatives(each)), *self.may_break)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the side measures itself, each once."""
        measures = (expectation.measure for expectation in (*self.shows, *self.never))
        return tuple(dict.fromkeys(measure for measure in measures if measure is not None))

    @property
    def needs_rpcs(self) -> bool:
        """Whether a measure reads the record of RPCs, so that a proxy has to be between the nodes."""
        return any(map(needs_rpcs, self.measures))


SideName = Literal["bad", "good"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario of the catalogue.

    title states the anomaly in one sentence; question is what the two sides answer. A scenario has one side alone if
    the document describes no anomaly, or if nothing prevents it. nodes is the number of controllers, which are also
    brokers if the layout is "combined"; if it is "zookeeper", the last node is ZooKeeper and the others are brokers.
    sizes are other numbers of nodes on which the same story can be run. voters is the number of nodes that are voters
    at first, where the others are observers; None if all are. Kafka's voters can change then (KIP-853). workload is the
    name of a workload. alone: a bound is so close to what is measured that no other run may take place on the machine.
    full is the story for as long as the document asks, if that is longer than a run by default takes. not_started are
    the nodes that do not start with the run: a step of the story starts them, after the workload was prepared.
    """

    id: str
    title: str
    question: str
    source: Source
    nodes: int
    story: tuple[Step, ...]
    bad: Side | None = None
    good: Side | None = None
    workload: str = "idle"
    layout: Layout = "controllers"
    voters: int | None = None
    sizes: tuple[int, ...] = ()
    alone: bool = False
    full: tuple[Step, ...] = ()
    not_started: tuple[int, ...] = ()

    @property
    def sides(self) -> Mapping[SideName, Side]:
        """The sides that the scenario has, by name."""
        sides: dict[SideName, Side | None] = {"bad": self.bad, "good": self.good}
        return {name: side for name, side in sides.items() if side is not None}

    def side(self, name: str) -> Side:
        """A side by its name. Raises BadInput where the scenario does not have it."""
        found = next((side for own, side in self.sides.items() if own == name), None)
        if found is None:
            raise BadInput(f"scenario {self.id}: expected its {' or '.join(self.sides)} side, found {name or 'none'}")
        return found

    def story_of(self, name: SideName, is_full: bool = False) -> tuple[Step, ...]:
        """The story of a side, in its full length if it has one and that is asked for."""
        return self.side(name).story or (is_full and self.full) or self.story

    def deployment(self, name: SideName, system: str, is_full: bool = False) -> Deployment:
        """The nodes and the story of a side on a system that has it."""
        own = self.side(name).setups[system].deployment
        given = self.side(name).node_switches
        story = self.story_of(name, is_full)
        return own or Deployment(self.layout, self.nodes, self.voters, story, given, self.not_started)

    def sides_on(self, system: str) -> tuple[SideName, ...]:
        """The sides that are available on a system."""
        return tuple(name for name, side in self.sides.items() if system in side.setups)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems on which either side is available."""
        return tuple(dict.fromkeys(system for side in self.sides.values() for system in side.setups))
