"""Reads and changes the membership of real Kafka: voters (KIP-853), partition replicas (KIP-455), partition leaders.

Contains requests and the interpretation of their responses. nemesis.faults.membership decides when to send them, and
what follows from a view.

Requests go to the active controller: to its listener in a quorum, to the controller among the brokers with ZooKeeper,
where there are no voters. Controllers of a quorum do not support Metadata, so partitions are requested from the
brokers, one after another until one responds. Voter changes have connections of their own: Kafka handles a connection's
requests one after another, and a leader that cannot commit a change does not answer it for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import Op, PeerFailure
from harness.model.faults.membership import (
    Election,
    MembershipView,
    Partition,
    Reassignment,
    Refused,
    Replicas,
    VoterChange,
)
from harness.model.layouts import CLIENT_PORT
from harness.model.session import Connection
from nodes.observe.describe_quorum import TOPIC

METADATA = 3
ELECT_LEADERS = 43
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
DESCRIBE_QUORUM = 55
ADD_RAFT_VOTER = 80
REMOVE_RAFT_VOTER = 81

TIMEOUT_MS = 10_000
ELECTION_TYPES: Mapping[Election, int] = {"preferred": 0, "unclean": 1}

Connect = Callable[[int, str, int], Connection]
"""A connection to a node: node, client id, port."""


class KafkaMembership:
    """harness.model.faults.membership.Membership of a quorum with brokers, or of brokers with ZooKeeper."""

    def __init__(
        self,
        addresses: Mapping[int, str],
        controllers: Mapping[int, int],
        brokers: Iterable[int],
        connect: Connect,
        leader: Callable[[], int | None],
    ) -> None:
        """addresses are those that nodes use among themselves; controllers are the ports of a quorum's controllers,
        none with ZooKeeper, whose controller is a broker. leader() returns the leader, or None if unknown.
        """
        self._addresses = addresses
        self._ports = controllers
        self._leader = leader
        self._brokers = {node: connect(node, "splitbrain-membership", CLIENT_PORT) for node in brokers}
        ports = controllers or dict.fromkeys(self._brokers, CLIENT_PORT)
        self._controllers = {node: connect(node, "splitbrain-membership", port) for node, port in ports.items()}
        self._changers = {node: connect(node, "splitbrain-voter-changes", port) for node, port in ports.items()}

    async def close(self) -> None:
        """Close every connection."""
        for connections in (self._controllers, self._changers, self._brokers):
            for connection in connections.values():
                await connection.close()

    async def view(self, with_partitions: bool = True) -> MembershipView:
        """The current membership."""
        view = await self._quorum_view()
        if not with_partitions:
            return view
        moves = await self.ongoing()
        partitions = await self._partitions()
        moving = {partition: _with_move(replicas, moves.get(partition)) for partition, replicas in partitions.items()}
        return replace(view, partitions=moving)

    async def ongoing(self) -> Mapping[Partition, Any]:
        """The active controller's ongoing reassignments, as in a ListPartitionReassignments response."""
        listed = await self._call_leader(LIST_PARTITION_REASSIGNMENTS, {"timeout": TIMEOUT_MS, "topics": None})
        _check("listing reassignments", listed.error_code, listed.error_message)
        return {(topic.name, each.partition_index): each for topic in listed.topics for each in topic.partitions}

    async def partitions_at(self, broker: int) -> Mapping[Partition, Replicas]:
        """Users' partitions, as one broker knows them."""
        values = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        response = await self._brokers[broker].call_latest(METADATA, values, TIMEOUT_MS)
        return dict(_replicas(response.topics))

    async def change_voter(self, change: VoterChange) -> None:
        """Request that the leader add or remove a voter, with the directory id that the leader knows."""
        quorum = await self._describe_quorum()
        replica = _replica_of(change, quorum.current_voters, quorum.observers)
        listener = {"name": "CONTROLLER", "host": self._addresses[change.node], "port": self._ports[change.node]}
        values = {
            "cluster_id": None,
            "timeout": TIMEOUT_MS,
            "voter_id": change.node,
            "voter_directory_id": replica.replica_directory_id,
            "listeners": [listener],
        }
        api_key = ADD_RAFT_VOTER if change.joins else REMOVE_RAFT_VOTER
        response = await self._changers[self._require_leader()].call_latest(api_key, values, TIMEOUT_MS)
        _check(f"requesting that {change.text}", response.error_code, response.error_message)

    async def reassign(self, moves: Sequence[Reassignment]) -> None:
        """Request reassignments of partitions."""
        topics = [
            {
                "name": move.partition[0],
                "partitions": [{"partition_index": move.partition[1], "replicas": move.replicas}],
            }
            for move in moves
        ]
        response = await self._call_leader(ALTER_PARTITION_REASSIGNMENTS, {"timeout": TIMEOUT_MS, "topics": topics})
        _check("reassigning partitions", response.error_code, response.error_message)
        for each in (each for topic in response.responses for each in topic.partitions):
            _check("reassigning a partition", each.error_code, each.error_message)

    async def elect(self, partitions: Sequence[Partition], how: Election) -> None:
        """Request elections of partition leaders; a partition that needs none is not an error."""
        topics = [{"topic": topic, "partitions": [partition]} for topic, partition in partitions]
        values = {"election_type": ELECTION_TYPES[how], "topic_partitions": topics, "timeout": TIMEOUT_MS}
        response = await self._call_leader(ELECT_LEADERS, values)
        _check("electing leaders", response.error_code, None)
        for each in (each for topic in response.replica_election_results for each in topic.partition_result):
            if each.error_code is not ErrorCode.election_not_needed:
                _check(f"electing a leader by {how} election", each.error_code, each.error_message)

    async def _quorum_view(self) -> MembershipView:
        if not self._ports:
            return MembershipView((), ())
        quorum = await self._describe_quorum()
        ends = {state.replica_id: state.log_end_offset for state in (*quorum.current_voters, *quorum.observers)}
        log_end = ends[quorum.leader_id]
        return MembershipView(
            _ids(quorum.current_voters),
            _ids(quorum.observers),
            log_end=int(log_end),
            high_watermark=int(quorum.high_watermark),
        )

    async def _describe_quorum(self) -> Any:
        topics = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}]
        response = await self._call_leader(DESCRIBE_QUORUM, {"topics": topics})
        _check("describing the quorum", response.error_code, response.error_message)
        partition = response.topics[0].partitions[0]
        _check("describing the quorum", partition.error_code, partition.error_message)
        return partition

    async def _call_leader(self, api_key: int, values: Mapping[str, Any]) -> Any:
        return await self._controllers[self._require_leader()].call_latest(api_key, values, TIMEOUT_MS)

    def _require_leader(self) -> int:
        leader = self._leader()
        if leader is None:
            raise PeerFailure("calling the active controller: no node claims to be the leader")
        return leader

    async def _partitions(self) -> Mapping[Partition, Replicas]:
        for broker in self._brokers:
            with suppress(PeerFailure):
                return await self.partitions_at(broker)
        raise PeerFailure("requesting the partitions' replicas: no broker responds")


def _replicas(topics: Iterable[Any]) -> Iterable[tuple[Partition, Replicas]]:
    for topic in topics:
        if not topic.is_internal:
            for each in topic.partitions:
                leader = None if each.leader_id < 0 else int(each.leader_id)
                yield (
                    (topic.name, each.partition_index),
                    Replicas(_numbers(each.replica_nodes), _numbers(each.isr_nodes), leader),
                )


def _with_move(replicas: Replicas, move: Any) -> Replicas:
    if move is None:
        return replicas
    return replace(replicas, adding=_numbers(move.adding_replicas), removing=_numbers(move.removing_replicas))


def _replica_of(change: VoterChange, voters: Sequence[Any], observers: Sequence[Any]) -> Any:
    """The node's replica that joins or leaves, of those in a DescribeQuorum response. Raises PeerFailure without one.

    A node whose disk was replaced has two: the old one is a voter until it is removed, and an observer for some minutes
    after that. The new one fetches.
    """
    known = [state for state in (*voters, *observers) if state.replica_id == change.node]
    if not known:
        raise PeerFailure(f"requesting that {change.text}: the leader knows no n{change.node}")
    leaving = [state for state in voters if state.replica_id == change.node and not change.joins]
    return leaving[0] if leaving else max(known, key=lambda state: int(state.last_fetch_timestamp))


def _ids(states: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted(int(state.replica_id) for state in states))


def _numbers(nodes: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(node) for node in nodes)


def _check(what: str, error: ErrorCode, message: str | None) -> None:
    if error is not ErrorCode.none:
        raise Refused(f"{what}: {error.name}{f' ({message})' if message else ''}", error.name.upper())


class SingleChanges:
    """nodes.probe.voter_session.Changes of a quorum whose voters change one at a time (KIP-853)."""

    def __init__(self, addresses: Mapping[int, str], port: int, connect: Callable[[int], Connection]) -> None:
        """addresses are those by which controllers reach each other, at this port; connect makes a connection."""
        self._leader: int | None = None
        self._membership = KafkaMembership(
            addresses,
            dict.fromkeys(addresses, port),
            (),
            lambda node, _client_id, _port: connect(node),
            lambda: self._leader,
        )

    async def change(self, leader: int, op: Op) -> None:
        """Request that the leader add or remove the voter that the operation's key names."""
        self._leader = leader
        await self._membership.change_voter(VoterChange(int(str(op.key)[1:]), op.f == "add_voter"))

    async def close(self) -> None:
        """Close every connection."""
        await self._membership.close()
