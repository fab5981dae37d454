"""The LeaderChange control record, which begins a leader's epoch; encoded with kio's schemas."""

from __future__ import annotations

import io
import struct

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from nodes.reference.core.roles.states import Leader
from nodes.reference.core.settings import NodeSettings
from nodes.wire.batches import Record

_LEADER_CHANGE = struct.pack(">hh", 0, 2)  # a control record's key: version and type


def leader_change(settings: NodeSettings, state: Leader) -> Record:
    """The record with the leader, the voters, and the voters that granted their vote."""
    message = LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(state.leader_id),
        voters=tuple(Voter(voter_id=i32(voter)) for voter in settings.voters),
        granting_voters=tuple(Voter(voter_id=i32(voter)) for voter in sorted(state.granted)),
    )
    buffer = io.BytesIO()
    entity_writer(LeaderChangeMessage)(buffer, message)
    return Record(_LEADER_CHANGE, buffer.getvalue())
