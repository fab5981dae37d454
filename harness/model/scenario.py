"""A scenario: a documented context, the story that brings it about, and the outcome expected on either side.

    PV_01 = Scenario(id="PV-01", …, bad=Side(…, shows=(leader_deposed,)), good=Side(…, never=(leader_deposed,)))

An expectation speaks of a quantity that the checks measure. On the bad side each of `shows` must hold; on the good side
none of `never` may. Guarantees are the checks' business, not an expectation's: a side that breaks one has not gone as
documented, but for those that its `breaks` names, each of which it must break.
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
    """A quantity reaches at_least; words say what that means to a reader."""

    words: str
    quantity: str
    at_least: float

    def holds(self, measured: float) -> bool:
        """Whether the measured quantity reaches the bound."""
        return measured >= self.at_least


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a scenario.

    reference holds the switches of the reference system by their property names, kafka a version as one asks for it
    ('3.9.1', 'newest 4'); either is None where the side cannot be had on that system. of_node holds properties of
    single nodes by Kafka's names, for either system, and switches of the reference's nodes; kafka_of_node the nodes
    that run another version than the others; needs_features the levels of Kafka's features (KIP-1022) below which the
    side cannot be played. breaks are names of findings. workload_options are the scenario's workload's own.
    """

    reference: Mapping[str, str] | None = field(default_factory=dict)
    kafka: str | None = None
    shows: tuple[Expectation, ...] = ()
    never: tuple[Expectation, ...] = ()
    of_node: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    kafka_of_node: Mapping[int, str] = field(default_factory=dict)
    needs_features: Mapping[str, int] = field(default_factory=dict)
    breaks: tuple[str, ...] = ()
    workload_options: Mapping[str, str] = field(default_factory=dict)


SideName = Literal["bad", "good"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the catalogue that can be played. nodes are controllers, and brokers too where the layout is
    combined; workload is one of the workloads by name."""

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
