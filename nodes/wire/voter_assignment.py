"""VoterAssignment, the control record that says who votes in a quorum that KIP-642 reassigns.

Declared as kio declares messages. KIP-642 gives the record control type 2, which Kafka uses for LeaderChange; the
reference quorum uses 642, which no release of Kafka has.

    record = encode("c1", current=(1, 2, 3), target=(4, 5, 6))
    decode(record).current                       # (1, 2, 3)

Contains the schema, encoding and decoding. What an assignment means is in nodes.reference.core.voters.
Source: KIP-642, "Quorum Reassignment" (VoterAssignmentMessage).
"""

import io
import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from nodes.wire.batches import Record

VOTER_ASSIGNMENT: Final = 642
"""The type in the record's key."""

_KEY: Final = struct.pack(">hh", 0, VOTER_ASSIGNMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    voter_id: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAssignmentMessage:
    """The cluster's id, the voters, and those that a reassignment will end with; null without one."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    cluster_id: str = field(metadata={"kafka_type": "string"})
    current_voters: tuple[Voter, ...]
    target_voters: tuple[Voter, ...] | None


_SCHEMA: Any = VoterAssignmentMessage  # kio's type of entities does not admit declarations of others


@dataclass(frozen=True, slots=True)
class AssignmentRecord:
    """The record's contents; target is None without a reassignment."""

    cluster_id: str
    current: tuple[int, ...]
    target: tuple[int, ...] | None


def encode(cluster_id: str, current: tuple[int, ...], target: tuple[int, ...] | None) -> Record:
    """The control record."""
    message = VoterAssignmentMessage(
        cluster_id=cluster_id,
        current_voters=_voters(current),
        target_voters=None if target is None else _voters(target),
    )
    buffer = io.BytesIO()
    entity_writer(_SCHEMA)(buffer, message)
    return Record(_KEY, buffer.getvalue())


def decode(record: Record) -> AssignmentRecord | None:
    """The contents; None for a record of another type. Raises what kio raises for a truncated one."""
    if record.key != _KEY or record.value is None:
        return None
    return decode_value(record.value)


def decode_value(value: bytes) -> AssignmentRecord:
    """The contents of a record's value. Raises what kio raises for a truncated one."""
    message = entity_reader(_SCHEMA)(value, 0)[0]
    target = message.target_voters
    return AssignmentRecord(message.cluster_id, _ids(message.current_voters), None if target is None else _ids(target))


def _voters(ids: tuple[int, ...]) -> tuple[Voter, ...]:
    return tuple(Voter(voter_id=voter) for voter in ids)


def _ids(voters: tuple[Voter, ...]) -> tuple[int, ...]:
    return tuple(int(voter.voter_id) for voter in voters)
