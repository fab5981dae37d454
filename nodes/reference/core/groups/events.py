"""The coordinator's inputs (events) and outputs (effects), as frozen dataclasses.

The shell carries out effects in the order in which it receives them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups.messages import Request, Response
from nodes.wire.batches import Record

RequestId = int


@dataclass(frozen=True, slots=True)
class Tick:
    """The coordinator's deadline may have passed."""


@dataclass(frozen=True, slots=True)
class Elected:
    """The broker leads this partition of the offsets' topic, which has so many, in a new epoch; records are all that
    its log has."""

    partition: int
    partitions: int
    records: Iterable[Record]


@dataclass(frozen=True, slots=True)
class Resigned:
    """The broker no longer leads this partition."""

    partition: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request arrived; request_id is the shell's, for Reply."""

    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class Appended:
    """The records of an Append are committed, or there was an error: then they may be in the log all the same."""

    append_id: int
    error: ErrorCode


Event = Tick | Elected | Resigned | Arrived | Appended


@dataclass(frozen=True, slots=True)
class Append:
    """Append records to a partition of the offsets' topic with acks=all; Appended follows."""

    append_id: int
    partition: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """Respond to a request that arrived."""

    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Note:
    """A log line of Kafka's GroupCoordinator."""

    text: str


Effect = Append | Reply | Note
