"""What goes into the core and what comes out.

What may live here: frozen dataclasses. Effects are carried out in the order in which they come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nodes.reference.core.messages import Request, Response

Draw = Callable[[int, int], int]
"""draw(low, high): a random integer with low <= it < high."""

RequestId = int


@dataclass(frozen=True, slots=True)
class Election:
    """What a node must not forget: its epoch, the leader it knows of, and whom it voted for in the epoch."""

    epoch: int = 0
    leader_id: int | None = None
    voted_id: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What the disk held at the start; log is whole batches only."""

    election: Election
    log: bytes = b""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """A graceful end is asked for; Halt answers it."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request came in. connection tells one TCP connection from another; request_id is the shell's, to answer by."""

    connection: int
    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A response to a request of ours came in."""

    peer: int
    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Failed:
    """A request of ours got no response, or could not be put in a version the peer knows."""

    peer: int
    request_id: RequestId
    unsupported_version: bool = False


Event = Tick | Stopping | Arrived | Answered | Failed


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Make this durable before going on."""

    election: Election


@dataclass(frozen=True, slots=True)
class AppendLog:
    """Append these whole batches to the log, durably, before going on."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Cut the log to its first end_bytes bytes, durably, before going on."""

    end_bytes: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send to a peer. Whatever we still waited for from that peer is given up, with the connection it was sent on."""

    peer: int
    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request that arrived."""

    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the log, in Kafka's words; logger is the class that says it there."""

    text: str
    logger: str = "KafkaRaftClient"
    level: str = "INFO"


@dataclass(frozen=True, slots=True)
class Halt:
    """The node is done: gracefully, or because it must not go on (failure says why)."""

    failure: str | None = None


Effect = PersistElection | AppendLog | TruncateLog | Send | Reply | Note | Halt
