"""Decodes the control records of the quorum's log that the checks read: who leads, who granted it, and who votes.

    controls = control_records(data, head)
    voters_of(controls)          # '[1, 2, 3]', or None
    election_of(controls)        # '{"leader": 1, "voters": [1, 2, 3], "granting": [1, 2]}', or None

A record's key is its version and its type, 16 bits each. A record that cannot be decoded counts as absent.

Contains the decoding. Batches are read by log_batches.py.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.leader_change_message import v0 as leader_change_v0
from kio.schema.leader_change_message import v1 as leader_change_v1
from kio.schema.voters_record.v0 import VotersRecord
from kio.serial import entity_reader

from nodes.wire.batches import BatchHead, records
from nodes.wire.voter_assignment import VOTER_ASSIGNMENT, AssignmentRecord, decode_value

Controls = Mapping[int, bytes]
"""The values of a batch's control records by type."""

LEADER_CHANGE = 2
"""LeaderChangeMessage (KIP-595)."""
VOTERS = 6
"""VotersRecord (KIP-853); nodes.wire.voter_assignment has KIP-642's record."""

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_LEADER_CHANGES = (leader_change_v0.LeaderChangeMessage, leader_change_v1.LeaderChangeMessage)
"""The message by its version, which its first two bytes are."""


def control_records(data: bytes, head: BatchHead) -> Controls:
    """The records of a control batch that is not compressed; of several with one type, the last."""
    complete = ((record.key, record.value) for record in records(data, head))
    return {_KEY.unpack(key)[1]: value for key, value in complete if key and len(key) == _KEY.size and value}


def voters_of(controls: Controls) -> str | None:
    """The ids of the voters that a batch sets, as JSON; None if it sets none."""
    assigned = assignment_of(controls)
    if assigned is not None:
        return json.dumps(sorted(assigned.current))
    decoded = _decoded(VotersRecord, controls.get(VOTERS))
    return None if decoded is None else json.dumps(_ids(decoded.voters))


def assignment_of(controls: Controls) -> AssignmentRecord | None:
    """The voters that a batch assigns, now and for the end of a reassignment (KIP-642); None if it assigns none."""
    value = controls.get(VOTER_ASSIGNMENT)
    try:
        return None if value is None else decode_value(value)
    except Exception:  # noqa: BLE001 - kio raises its own errors and those of struct and unicode
        return None


def election_of(controls: Controls) -> str | None:
    """The leader whose epoch a batch begins, its voters and those that granted it their votes, as JSON."""
    value = controls.get(LEADER_CHANGE)
    version = _VERSION.unpack_from(value)[0] if value and len(value) >= _VERSION.size else -1
    if not 0 <= version < len(_LEADER_CHANGES):
        return None
    decoded = _decoded(_LEADER_CHANGES[version], value)
    if decoded is None:
        return None
    granting = _ids(decoded.granting_voters)
    return json.dumps({"leader": int(decoded.leader_id), "voters": _ids(decoded.voters), "granting": granting})


def _decoded(schema: Any, value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return entity_reader(schema)(value, 0)[0]
    except Exception:  # noqa: BLE001 - kio raises its own errors and those of struct and unicode
        return None


def _ids(voters: Iterable[Any]) -> list[int]:
    return sorted(int(voter.voter_id) for voter in voters)
