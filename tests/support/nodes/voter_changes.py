"""Simulated quorums whose voters change one at a time (KIP-853): each node has a directory, voters are formatted."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    ReplicaKey,
    VoterNode,
    VoterResponse,
)
from tests.support.nodes.quorum_simulation import Operation, Simulation

PORT = 9093


def key(node: int, disk: int = 1) -> ReplicaKey:
    """A node's replica with its first disk, or a later one."""
    return ReplicaKey(node, uuid.UUID(int=100 * node + disk))


def voter_node(replica: ReplicaKey) -> VoterNode:
    """The replica, at its node's address."""
    return VoterNode(replica, f"n{replica.node_id}", PORT)


def formatted(size: int = 3, observers: int = 3, seed: int = 3, **switches: Any) -> Simulation:
    """Voters 1..size, each formatted with all of them, then observers, formatted with none."""
    per_node = switches.pop("per_node", {})
    voters = tuple(voter_node(key(node)) for node in range(1, size + 1))
    own = {
        node: {
            "directory_id": key(node).directory_id,
            "initial_voters": voters if node <= size else (),
            "advertised": (f"n{node}", PORT),
            "bootstrap_servers": tuple((each.host, each.port) for each in voters),
            **per_node.get(node, {}),
        }
        for node in range(1, size + observers + 1)
    }
    return Simulation(seed=seed, size=size, observers=observers, voter_changes="kip-853", per_node=own, **switches)


def add(quorum: Simulation, leader: int, replica: ReplicaKey, timeout_ms: int = 5_000) -> Operation:
    """A client's request that a replica become a voter."""
    return quorum.invoke(leader, AddVoterRequest("test", voter_node(replica), timeout_ms))


def remove(quorum: Simulation, leader: int, replica: ReplicaKey) -> Operation:
    """A client's request that a replica no longer be a voter."""
    return quorum.invoke(leader, RemoveVoterRequest("test", replica, 5_000))


def outcome(quorum: Simulation, operation: Operation) -> ErrorCode:
    """The error of a response, once there is one."""
    quorum.run_until(lambda: operation.response is not None)
    response: VoterResponse = operation.response
    return response.error


def replace_disk(quorum: Simulation, node: int, disk: int = 2) -> ReplicaKey:
    """Give a node that is down an empty disk, formatted for an observer; returns its new replica."""
    quorum.lose_disk(node)
    member, replica = quorum.members[node], key(node, disk)
    member.settings = dataclasses.replace(member.settings, directory_id=replica.directory_id, initial_voters=())
    return replica


def voter_keys(quorum: Simulation, node: int) -> tuple[ReplicaKey, ...]:
    """The voters of a node's log."""
    return quorum.node(node).voters.last.assignment.keys


def run_until_voters(quorum: Simulation, *replicas: ReplicaKey) -> None:
    """Run until these are the voters in the logs of all nodes that run."""
    live = [node for node, member in quorum.members.items() if member.is_up]
    quorum.run_until(lambda: all(voter_keys(quorum, node) == replicas for node in live))
