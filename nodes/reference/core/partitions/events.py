"""A broker's inputs (events) and outputs (effects), as frozen dataclasses.

The shell carries out effects in the order in which it receives them. Logs are changed while an event is handled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodes.reference.core.partitions.messages import (
    Assignment,
    IsrRequest,
    IsrResponse,
    Request,
    Response,
    TopicPartition,
)

RequestId = int


@dataclass(frozen=True, slots=True)
class Tick:
    """The broker's deadline may have passed."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The controller has registered the broker with this epoch, which its fetches have from now on (KIP-903)."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Assign:
    """The metadata has these partitions as they are now; later changes of a partition come later."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """These partitions are no longer this broker's; the shell removes their logs afterwards."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class StartAt:
    """Retention: no record before these offsets, up to which all is committed, can be read."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request arrived; request_id is the shell's, for Reply."""

    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A broker's response to a Send arrived."""

    peer: int
    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Failed:
    """A Send got no response."""

    peer: int
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class ControllerAnswered:
    """The controller's response to an AskController arrived; None if there was none."""

    request_id: RequestId
    response: IsrResponse | None


Event = Tick | Registered | Assign | Remove | StartAt | Arrived | Answered | Failed | ControllerAnswered


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to a broker. There is at most one at a time to each; one that timed out is abandoned."""

    peer: int
    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class AskController:
    """Send a request to the active controller."""

    request_id: RequestId
    request: IsrRequest


@dataclass(frozen=True, slots=True)
class Reply:
    """Respond to a request that arrived."""

    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection of a request: it was a Produce with acks=0, which has no response, and it failed."""

    request_id: RequestId


@dataclass(frozen=True, slots=True)
class StoreHighWatermarks:
    """Write these to replication-offset-checkpoint, durably, before what follows."""

    high_watermarks: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Note:
    """A log line in Kafka's wording; logger is the Kafka class that logs it."""

    text: str
    logger: str = "ReplicaManager"
    level: str = "INFO"


Effect = Send | AskController | Reply | Disconnect | StoreHighWatermarks | Note
