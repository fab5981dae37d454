"""The control records of the quorum: LeaderChange, which begins a leader's epoch, and VoterAssignment (KIP-642).

Contains the conversion between records and the core's values. VoterAssignment's schema is in nodes.wire.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from nodes.reference.core.events import Assignment
from nodes.reference.core.roles.states import Leader
from nodes.wire import voter_assignment
from nodes.wire.batches import Record, heads, records

_LEADER_CHANGE = struct.pack(">hh", 0, 2)  # a control record's key: version and type


def leader_change(voters: tuple[int, ...], state: Leader) -> Record:
    """The record with the leader, the voters, and the voters that granted their vote."""
    message = LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(state.leader_id),
        voters=tuple(Voter(voter_id=i32(voter)) for voter in voters),
        granting_voters=tuple(Voter(voter_id=i32(voter)) for voter in sorted(state.granted)),
    )
    buffer = io.BytesIO()
    entity_writer(LeaderChangeMessage)(buffer, message)
    return Record(_LEADER_CHANGE, buffer.getvalue())


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
