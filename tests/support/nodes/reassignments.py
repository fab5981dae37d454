"""Simulated quorums that are reassigned as a whole (KIP-642): led ones, and what to wait for."""

from __future__ import annotations

from typing import Any

from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import ReassignResponse
from tests.support.nodes.quorum_simulation import Operation, Simulation

SWITCHES: dict[str, Any] = {"voter_changes": "kip-642"}


def led(seed: int = 3, size: int = 3, observers: int = 3, **switches: Any) -> tuple[Simulation, int]:
    """A quorum whose nodes all follow a leader, and the leader."""
    quorum = Simulation(seed=seed, size=size, observers=observers, **SWITCHES, **switches)
    leader = quorum.elect()
    quorum.run(1_000)
    return quorum, leader


def led_by_1(**switches: Any) -> Simulation:
    """A quorum that node 1 leads."""
    slow = {node: {"election_timeout_ms": 3_000} for node in range(2, 8)}
    quorum, leader = led(per_node=slow, **switches)
    assert leader == 1
    return quorum


def completed(quorum: Simulation, operation: Operation) -> ReassignResponse:
    """The response, once there is one."""
    quorum.run_until(lambda: operation.response is not None)
    response: ReassignResponse = operation.response
    return response


def crash_for_long(quorum: Simulation, *nodes: int) -> None:
    """Crash nodes, and let time pass until they no longer count as caught up."""
    for node in nodes:
        quorum.crash(node)
    quorum.run(2_000)


def run_until_voters(quorum: Simulation, *voters: int) -> None:
    """Run until all live nodes know that these are the voters, and that no reassignment is pending."""
    reached = Assignment(voters)
    quorum.run_until(lambda: all(m.node.voters.last.assignment == reached for m in quorum.members.values() if m.node))
