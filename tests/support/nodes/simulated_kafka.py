"""Stories on a simulated Kafka cluster: time passes, clients write and read, and what nodes report is collected."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.model import Observation
from harness.model.quorum_states import State
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import KafkaCluster
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.kafka.jars import RaftLibrary, RaftRelease
from workloads.register import read_of, write_of


def in_between(*values: Any) -> Any:
    """Parameters of a release between two others that are tested: `make test-all` has them."""
    return pytest.param(*values, marks=pytest.mark.slow)


VERSIONS = ("3.7.2", in_between("3.8.1"), "3.9.1", in_between("4.0.0"), "4.3.1")
NO_ANSWER = "no answer"


@functools.cache
def release(version: str) -> RaftRelease:
    """The jars of a release; fetched if this machine does not have them."""
    return asyncio.run(RaftLibrary.default().resolve(version))


@functools.cache
def release_with_log(version: str) -> RaftRelease:
    """As release, with what a server's log needs."""
    return asyncio.run(RaftLibrary.default().with_server_log(release(version)))


class Story:
    """A cluster and what was seen of it."""

    def __init__(self, driver: RaftDriver, spec: SimulationSpec) -> None:
        self.seen: list[Observation] = []
        self.cluster = KafkaCluster(driver, spec, self.seen.append)
        self.nodes = range(1, spec.nodes + 1)

    def start(self, *nodes: int) -> None:
        """Start these nodes, or all."""
        for node in nodes or self.nodes:
            self.cluster.start(node)

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        end_ms = self.cluster.now_ms + duration_ms
        while self.cluster.now_ms < end_ms:
            self.cluster.advance(end_ms)

    def until(self, condition: Callable[[], bool], within_ms: int = 20_000) -> None:
        """Let time pass until the condition holds."""
        end_ms = self.cluster.now_ms + within_ms
        while not condition():
            assert self.cluster.now_ms < end_ms, self.seen[-10:]
            self.cluster.advance(min(end_ms, self.cluster.now_ms + 20))

    def leaders(self) -> list[int]:
        """The nodes that lead and have committed a record of their epoch, by epoch, the newest first."""
        found = [
            (status.epoch, node)
            for node in self.nodes
            if (status := self.cluster.status(node)) and status.has_committed
        ]
        return [node for _, node in sorted(found, reverse=True)]

    def leader(self, other_than: int = 0) -> int:
        """Wait for a leader, other than a node, and return it."""
        self.until(lambda: any(node != other_than for node in self.leaders()[:1]))
        return self.leaders()[0]

    def follower(self) -> int:
        """A running node that follows."""
        return next(
            node for node in self.nodes if (status := self.cluster.status(node)) and status.state is State.FOLLOWER
        )

    def isolate(self, *group: int) -> None:
        """Cut all links between these nodes and the others."""
        others = [node for node in self.nodes if node not in group]
        self.cluster.cut([link for node in group for peer in others for link in ((node, peer), (peer, node))])

    def ask(self, node: int, request: Any, within_ms: int = 10_000) -> Any:
        """A request's response; NO_ANSWER if none comes in time."""
        answers: list[Any] = []
        assert self.cluster.call(node, request, answers.append)
        end_ms = self.cluster.now_ms + within_ms
        while not answers and self.cluster.now_ms < end_ms:
            self.cluster.advance(end_ms)
        return answers[0] if answers else NO_ANSWER

    def write(self, node: int, key: str, value: Any) -> tuple[str, str | None]:
        """The error's name and message of a write's response."""
        (result,) = self.ask(node, write_of([key], value)).responses
        return result.error_code.name, result.error_message

    def send_writes(self, node: int, count: int) -> list[Any]:
        """Send writes without waiting; returns the list that gets their responses."""
        answers: list[Any] = []
        for value in range(count):
            assert self.cluster.call(node, write_of(["burst"], value), answers.append)
        return answers

    def read(self, node: int, key: str) -> str | None:
        """The value of a register as a node has it, as JSON."""
        (result,) = self.ask(node, read_of([key])).results
        return result.configs[0].value if result.configs else None

    def transitions(self, node: int) -> Sequence[tuple[str | None, int | None]]:
        """A node's states with their epochs."""
        return [(seen.state, seen.epoch) for seen in self.seen if seen.node == node and seen.kind == "transition"]

    def broken(self) -> set[str]:
        """The names of the invariants that were broken."""
        return {violation.invariant for violation in self.cluster.violations}
