"""What a simulated cluster is: nodes whose time is virtual, so that nothing happens outside `advance`.

    cluster.start(1)
    cluster.advance(5_000)      # returns early, at the moment of a report
    cluster.status(1)           # NodeStatus(State.LEADER, …)

Two kinds of code run so: the core of the reference system (nodes.simulation.reference), and the Raft client of released
Kafka (nodes.simulation.kafka). The same seed and the same calls give the same run, byte by byte, in any process on any
machine.

Contains values and the protocol. Does not contain faults (nemesis), the event loop (loop.py), or any node.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.model import Observation
from harness.model.faults.rpc import RpcRule, RuleCount
from harness.model.hosts import Link
from harness.model.quorum_states import State


@dataclass(frozen=True, slots=True)
class SimulationSpec:
    """The cluster to simulate.

    nodes is their number, voters how many of them vote at first (None: all, and static voters on Kafka). switches are
    each node's properties, by their names in a node's configuration, e.g. controller.quorum.fetch.timeout.ms.
    delay_ms are the bounds of a message's delay, both inclusive. wall_origin_ms is what the nodes' clocks show at the
    beginning, in Unix milliseconds. versions are the releases of nodes that do not run the cluster's, and
    later_versions those that nodes may change to.
    """

    seed: int
    nodes: int
    voters: int | None = None
    cluster_id: str = "simulated"
    switches: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    delay_ms: tuple[int, int] = (1, 5)
    wall_origin_ms: int = 1_700_000_000_000
    versions: Mapping[int, str] = field(default_factory=dict)
    later_versions: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What a node knows of itself. leader and voted are None for none, high_watermark is -1 while unknown.

    voters maps each voter to its log end offset as this node knows it, -1 if unknown; only a leader knows those of
    others. target are the voters that a reassignment will end with (KIP-642). has_committed: it leads and has committed
    a record of its epoch. last_epoch is the epoch of the log's last record. may_campaign: it may begin an election.
    """

    state: State
    epoch: int
    leader: int | None
    voted: int | None
    high_watermark: int
    log_end_offset: int
    voters: Mapping[int, int] = field(default_factory=dict)
    has_committed: bool = False
    target: tuple[int, ...] = ()
    last_epoch: int = 0
    may_campaign: bool = False


def electable(statuses: Mapping[int, NodeStatus]) -> list[int]:
    """The nodes that could be elected if all were connected, by their logs alone.

    statuses are those of the nodes that run. A candidate needs a majority of the voters that it knows, and no node
    votes for one whose log is shorter than its own (Raft, section 5.4.1).
    """

    def votes_for(candidate: NodeStatus) -> int:
        end = candidate.last_epoch, candidate.log_end_offset
        voters = (statuses[voter] for voter in candidate.voters if voter in statuses)
        return sum((voter.last_epoch, voter.log_end_offset) <= end for voter in voters)

    return [
        node for node, status in statuses.items() if status.may_campaign and votes_for(status) > len(status.voters) // 2
    ]


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: its name, what was found, and when, in milliseconds of virtual time."""

    invariant: str
    message: str
    time_ms: int
    node: int | None = None


Observe = Callable[[Observation], None]
"""Receives what a node reports: a transition, a note of its log, or its unexpected end ("process", "exited")."""

Answer = Callable[[Any], None]
"""Receives the response to a client's request; None if the connection broke and there is none."""


class SimulatedCluster(Protocol):
    """Nodes, their disks and the network between them. All methods return at once but advance; nodes begin stopped."""

    @property
    def now_ms(self) -> int:
        """Virtual time since the beginning."""

    @property
    def violations(self) -> Sequence[Violation]:
        """The invariants that were broken so far."""

    def digest(self) -> str:
        """A hash of everything that happened so far: equal for equal runs."""

    def advance(self, until_ms: int) -> None:
        """Let time pass until then, or until a report or an answer was delivered."""

    def status(self, node: int) -> NodeStatus | None:
        """What a node knows now; None if it does not run or is paused."""

    def directory_id(self, node: int) -> uuid.UUID:
        """The id of a node's disk (KIP-853), which AddRaftVoter and RemoveRaftVoter name; a new disk has another."""

    def configure(self, node: int, switches: Mapping[str, str], version: str = "") -> None:
        """From its next start on, a node that does not run has these switches besides its own, and this release.

        Without a version it has the release that it began with. Raises BadInput for what it cannot have.
        """

    def start(self, node: int) -> None:
        """Start a node from what is on its disk."""

    def kill(self, node: int) -> None:
        """End a node at once. Its disk keeps what was written, as after SIGKILL."""

    def stop(self, node: int) -> None:
        """Begin a node's graceful shutdown; status is None once it has ended."""

    def pause(self, node: int) -> None:
        """Stop a node's execution; messages and timers wait."""

    def resume(self, node: int) -> None:
        """Go on with a paused node."""

    def lose_unsynced(self, node: int) -> None:
        """Drop what a stopped node wrote and did not sync, as after a power failure."""

    def lose_disk(self, node: int) -> None:
        """Empty the disk of a stopped node."""

    def lose_quorum_state(self, node: int) -> None:
        """Delete what a stopped node stored of elections; its log stays."""

    def cut(self, links: Iterable[Link]) -> None:
        """Drop all messages on these directed links, beside those that are cut already."""

    def restore(self, links: Iterable[Link] | None = None) -> None:
        """End the cuts of these links, or all."""

    def intercept(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace the rules for messages between nodes; returns the final counters of those that were in place."""

    def rule_counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place."""

    def call(self, node: int, request: Any, answer: Answer) -> bool:
        """A client's request to a node, a kio entity; answer gets the response. False if the node does not listen."""

    def log(self, node: int) -> bytes:
        """The record batches of a node's log, whether it runs or not."""

    def close(self) -> None:
        """End the cluster and free what it uses."""
