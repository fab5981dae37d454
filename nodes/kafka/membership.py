"""Asks a real Kafka who belongs to it, and changes that, over the wire: voters (KIP-853), copies (KIP-455), leaders.

What may live here: requests and what their answers mean. What may not: when to ask, and what to make of a view.

All but the partitions is asked of the active controller; a controller knows no Metadata request, so partitions are
asked of brokers, one after another until one answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.faults.membership import Election, MembershipView, Partition, Reassignment, Replicas, VoterChange
from harness.model.session import Connection
from harness.model.systems import CONTROLLER_PORT
from nodes.kafka.configuration import CLIENT_PORT
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
    """harness.model.faults.membership.Membership of combined nodes."""

    def __init__(self, addresses: Mapping[int, str], connect: Connect, leader: Callable[[], int | None]) -> None:
        """addresses are those that nodes dial each other at; leader tells who leads, None while nobody does."""
        self._addresses = addresses
        self._leader = leader
        self._controllers = {node: connect(node, "splitbrain-membership", CONTROLLER_PORT) for node in addresses}
        self._brokers = {node: connect(node, "splitbrain-membership", CLIENT_PORT) for node in addresses}

    async def close(self) -> None:
        """Close every connection."""
        for connection in (*self._controllers.values(), *self._brokers.values()):
            await connection.close()

    async def view(self) -> MembershipView:
        """Who belongs to it now."""
        quorum = await self._describe_quorum()
        moves = await self._ask(LIST_PARTITION_REASSIGNMENTS, {"timeout": TIMEOUT_MS, "topics": None})
        _check("listing reassignments", moves.error_code, moves.error_message)
        moving = {(topic.name, each.partition_index): each for topic in moves.topics for each in topic.partitions}
        placed = await self._partitions()
        return MembershipView(
            _ids(quorum.current_voters),
            _ids(quorum.observers),
            {partition: _moving(replicas, moving.get(partition)) for partition, replicas in placed.items()},
        )

    async def change_voter(self, change: VoterChange) -> None:
        """Ask the leader to add or remove a voter, in the incarnation that the leader sees."""
        quorum = await self._describe_quorum()
        # A node whose disk was replaced is both, until its old incarnation is removed.
        asked = quorum.observers if change.joins else quorum.current_voters
        known = {state.replica_id: state.replica_directory_id for state in asked}
        if change.node not in known:
            kind = "observer" if change.joins else "voter"
            raise PeerFailure(f"asking that {change.words}: the leader knows no {kind} n{change.node}")
        listener = {"name": "CONTROLLER", "host": self._addresses[change.node], "port": CONTROLLER_PORT}
        values = {
            "cluster_id": None,
            "timeout": TIMEOUT_MS,
            "voter_id": change.node,
            "voter_directory_id": known[change.node],
            "listeners": [listener],
        }
        answer = await self._ask(ADD_RAFT_VOTER if change.joins else REMOVE_RAFT_VOTER, values)
        _check(f"asking that {change.words}", answer.error_code, answer.error_message)

    async def reassign(self, moves: Sequence[Reassignment]) -> None:
        """Ask the active controller to move partitions."""
        topics = [
            {
                "name": move.partition[0],
                "partitions": [{"partition_index": move.partition[1], "replicas": move.replicas}],
            }
            for move in moves
        ]
        answer = await self._ask(ALTER_PARTITION_REASSIGNMENTS, {"timeout": TIMEOUT_MS, "topics": topics})
        _check("reassigning partitions", answer.error_code, answer.error_message)
        for each in (each for topic in answer.responses for each in topic.partitions):
            _check("reassigning a partition", each.error_code, each.error_message)

    async def elect(self, partitions: Sequence[Partition], how: Election) -> None:
        """Ask the active controller for elections; a partition that needs none is passed over."""
        asked = [{"topic": topic, "partitions": [partition]} for topic, partition in partitions]
        values = {"election_type": ELECTION_TYPES[how], "topic_partitions": asked, "timeout": TIMEOUT_MS}
        answer = await self._ask(ELECT_LEADERS, values)
        _check("electing leaders", answer.error_code, None)
        for each in (each for topic in answer.replica_election_results for each in topic.partition_result):
            if each.error_code is not ErrorCode.election_not_needed:
                _check(f"electing a leader by {how} election", each.error_code, each.error_message)

    async def _describe_quorum(self) -> Any:
        topics = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}]
        answer = await self._ask(DESCRIBE_QUORUM, {"topics": topics})
        _check("describing the quorum", answer.error_code, answer.error_message)
        partition = answer.topics[0].partitions[0]
        _check("describing the quorum", partition.error_code, partition.error_message)
        return partition

    async def _ask(self, api_key: int, values: Mapping[str, Any]) -> Any:
        leader = self._leader()
        if leader is None:
            raise PeerFailure("asking the active controller: no node claims to lead just now")
        return await self._controllers[leader].call_latest(api_key, values, TIMEOUT_MS)

    async def _partitions(self) -> Mapping[Partition, Replicas]:
        values = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        for broker in self._brokers.values():
            with suppress(PeerFailure):
                answer = await broker.call_latest(METADATA, values, TIMEOUT_MS)
                return dict(_placed(answer.topics))
        raise PeerFailure("asking where partitions are: no broker answers")


def _placed(topics: Iterable[Any]) -> Iterable[tuple[Partition, Replicas]]:
    for topic in topics:
        if not topic.is_internal:
            for each in topic.partitions:
                leader = None if each.leader_id < 0 else int(each.leader_id)
                yield (
                    (topic.name, each.partition_index),
                    Replicas(_numbers(each.replica_nodes), _numbers(each.isr_nodes), leader),
                )


def _moving(replicas: Replicas, move: Any) -> Replicas:
    if move is None:
        return replicas
    return replace(replicas, adding=_numbers(move.adding_replicas), removing=_numbers(move.removing_replicas))


def _ids(states: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted(int(state.replica_id) for state in states))


def _numbers(nodes: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(node) for node in nodes)


def _check(what: str, error: ErrorCode, message: str | None) -> None:
    if error is not ErrorCode.none:
        raise PeerFailure(f"{what}: {error.name}{f' ({message})' if message else ''}")
