"""Single requests to simulated nodes, which have no brokers: a topic is as many records of registers.

    await SimulatedRequests(cluster).create_topic(1, "burst", partitions=1000, is_answered=False)     # 1000

The quorum does not look into the records of its log, so what follows from their number is the same: a log that is
longer than the others', or truncated. They are not one atomic batch: each is a request of its own.

Contains harness.model.faults.requests.Requests, as far as it needs no broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.faults.membership import Partition
from harness.model.faults.requests import Acks
from nodes.simulation.cluster import SimulatedCluster
from workloads.register import write_of

TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.01
NO_BROKERS = "brokers are not simulated"
UNAVAILABLE = dict.fromkeys(("create_partition", "produce"), NO_BROKERS)


class SimulatedRequests:
    """harness.model.faults.requests.Requests."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def create_topic(self, node: int, topic: str, partitions: int, is_answered: bool) -> int:
        """Write as many registers at the controller; returns how many offsets its log grew by. Raises PeerFailure."""
        what, before, answers = f"creating the topic {topic} at n{node}", self._log_end(node), list[Any]()
        for partition in range(partitions):
            if not self._cluster.call(node, write_of([f"{topic}-{partition}"], None), answers.append):
                raise PeerFailure(f"{what}: expected a node that listens, found none")
        deadline = asyncio.get_running_loop().time() + TIMEOUT_SECONDS
        while self._log_end(node) < before + partitions or (is_answered and len(answers) < partitions):
            problem = next(filter(None, map(_problem, answers)), None)
            if problem is not None:
                raise PeerFailure(f"{what}: {problem}")
            if asyncio.get_running_loop().time() > deadline:
                raise PeerFailure(f"{what}: expected {partitions} records, found {self._log_end(node) - before}")
            await asyncio.sleep(POLL_SECONDS)
        return self._log_end(node) - before

    async def create_partition(self, topic: str, replicas: Sequence[int], configs: Mapping[str, str]) -> NoReturn:  # noqa: ARG002
        """Not possible: actions that are unavailable are refused before."""
        raise AssertionError(NO_BROKERS)

    async def produce(self, node: int, partition: Partition, records: int, acks: Acks, key: str | None) -> NoReturn:  # noqa: ARG002
        """Not possible: actions that are unavailable are refused before."""
        raise AssertionError(NO_BROKERS)

    def _log_end(self, node: int) -> int:
        status = self._cluster.status(node)
        if status is None:
            raise PeerFailure(f"creating a topic at n{node}: expected a node that executes, found it down or paused")
        return status.log_end_offset


def _problem(answer: Any) -> str | None:
    """Why a write failed; None if it did not."""
    if answer is None:
        return "no answer"
    (result,) = answer.responses
    error = result.error_code
    return None if error is ErrorCode.none else f"{error.name} ({result.error_message})"
