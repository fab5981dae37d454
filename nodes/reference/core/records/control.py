"""The control records of the quorum: LeaderChange, which begins a leader's epoch, and those that say who votes.

These are VoterAssignment (KIP-642), or KRaftVersion and Voters (KIP-853) as Kafka writes them.

Contains the conversion between records and the core's values. VoterAssignment's schema is in nodes.wire.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from kio.schema.k_raft_version_record.v0 import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import VotersRecord
from kio.schema.voters_record.v0 import data as voters_v0
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, u16

from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import ReplicaKey, VoterNode
from nodes.reference.core.roles.states import Leader
from nodes.wire import voter_assignment
from nodes.wire.batches import Record, heads, records

_LEADER_CHANGE = struct.pack(">hh", 0, 2)  # a control record's key: version and type
_KRAFT_VERSION = struct.pack(">hh", 0, 5)
_VOTERS = struct.pack(">hh", 0, 6)
_LISTENER = "CONTROLLER"


def leader_change(voters: tuple[int, ...], state: Leader) -> Record:
    """The record with the leader, the voters, and the voters that granted their vote."""
    message = LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(state.leader_id),
        voters=tuple(Voter(voter_id=i32(voter)) for voter in voters),
        granting_voters=tuple(Voter(voter_id=i32(voter)) for voter in sorted(state.granted)),
    )
    return Record(_LEADER_CHANGE, encoded(message))


def encoded(message: Any) -> bytes:
    """The value of a control record."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kraft_version_record() -> Record:
    """The record that says that voters are known by their directories (kraft.version 1)."""
    return Record(_KRAFT_VERSION, encoded(KRaftVersionRecord(version=i16(0), k_raft_version=i16(1))))


def voters_record(nodes: tuple[VoterNode, ...]) -> Record:
    """The record with the voters, their directories and addresses (KIP-853)."""
    return Record(_VOTERS, encoded(VotersRecord(version=i16(0), voters=tuple(map(_voter, nodes)))))


def _voter(node: VoterNode) -> voters_v0.Voter:
    features = voters_v0.KRaftVersionFeature(min_supported_version=i16(0), max_supported_version=i16(1))
    return voters_v0.Voter(
        voter_id=BrokerId(node.key.node_id),
        voter_directory_id=node.key.directory_id,
        endpoints=(voters_v0.Endpoint(name=_LISTENER, host=node.host, port=u16(node.port)),),
        k_raft_version_feature=features,
    )


def assignment_record(cluster_id: str, assignment: Assignment) -> Record:
    """The record with these voters, present and future."""
    return voter_assignment.encode(cluster_id, assignment.current, assignment.target)


def assignments_in(data: bytes) -> Iterator[tuple[int, Assignment]]:
    """The assignments in complete batches, with the offsets of their records."""
    for head in heads(data):
        if head.is_control:
            for offset, record in enumerate(records(data, head), head.base_offset):
                found = voter_assignment.decode(record)
                if found is not None:
                    yield offset, Assignment(found.current, found.target)
                elif record.key == _VOTERS and record.value is not None:
                    yield offset, _assignment_of(entity_reader(VotersRecord)(record.value, 0)[0])


def assignment_with(nodes: Iterable[VoterNode]) -> Assignment:
    """The assignment of these voters, ordered by id."""
    ordered = tuple(sorted(nodes, key=lambda node: node.key.node_id))
    return Assignment(tuple(node.key.node_id for node in ordered), None, ordered)


def _assignment_of(message: VotersRecord) -> Assignment:
    return assignment_with(
        VoterNode(
            ReplicaKey(int(voter.voter_id), voter.voter_directory_id),
            voter.endpoints[0].host if voter.endpoints else "",
            int(voter.endpoints[0].port) if voter.endpoints else 0,
        )
        for voter in message.voters
    )
