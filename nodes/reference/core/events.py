"""The core's inputs (events) and outputs (effects), as frozen dataclasses.

The shell carries out effects in the order in which it receives them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.reference.core.controller.messages import LogEnd, LogQuestion
from nodes.reference.core.messages import (
    DiscoverRequest,
    DiscoverResponse,
    ReplicaKey,
    Request,
    Response,
    SnapshotId,
    VoterNode,
)
from nodes.reference.core.roles.log_format import describe
from nodes.reference.core.roles.states import QuorumState
from nodes.reference.core.settings import NodeSettings

Draw = Callable[[int, int], int]
"""draw(low, high): a random integer n with low <= n < high."""

RequestId = int

Contact = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who votes, ordered by id, and who will when a reassignment ends; target is None without one (KIP-642).

    nodes are the voters with their directories and addresses, in the order of current (KIP-853); otherwise empty.
    """

    current: tuple[int, ...]
    target: tuple[int, ...] | None = None
    nodes: tuple[VoterNode, ...] = ()

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        """The replicas that vote."""
        return tuple(node.key for node in self.nodes) or tuple(map(ReplicaKey, self.current))


@dataclass(frozen=True, slots=True)
class Election:
    """The durable election state: the epoch, its leader if known, and the node's vote in it.

    assignment is that of the latest committed record below applied_offset; None if none was committed.
    voted_directory_id is that of the replica with the vote, as the log had it (KIP-853).
    """

    epoch: int = 0
    leader_id: int | None = None
    voted_id: int | None = None
    applied_offset: int = 0
    assignment: Assignment | None = None
    voted_directory_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as a file holds it: batches, whose format is in records.snapshots."""

    id: SnapshotId
    data: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """The contents of the disk at start; log holds complete batches only, which follow the snapshot if there is one."""

    election: Election
    log: bytes = b""
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """The node's deadline may have passed."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """A graceful shutdown is requested; it ends with Halt."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request arrived. connection identifies the TCP connection; request_id is the shell's, for Reply."""

    connection: int
    request_id: RequestId
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A peer's response arrived."""

    peer: int
    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Failed:
    """A request to a peer got no response, or the peer supports no version that can carry it."""

    peer: int
    request_id: RequestId
    unsupported_version: bool = False


@dataclass(frozen=True, slots=True)
class LogsReported:
    """A broker has answered an AskLogs, or did not: then ends is empty. ends are by topic id and index."""

    question: LogQuestion
    ends: Mapping[tuple[uuid.UUID, int], LogEnd]


@dataclass(frozen=True, slots=True)
class Discovered:
    """A node has answered a DiscoverRequest; response is None if it did not."""

    response: DiscoverResponse | None


Event = Tick | Stopping | Arrived | Answered | Failed | LogsReported | Discovered


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write the election state durably."""

    election: Election


@dataclass(frozen=True, slots=True)
class AppendLog:
    """Append these complete batches to the log durably."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Keep the batches that end at or before end_offset, durably."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class SaveSnapshot:
    """Write a snapshot durably in place of earlier ones."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class AdvanceLogStart:
    """A snapshot covers the batches that end at or before start_offset, where one ends: they are not needed."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class RestartLog:
    """Remove all batches durably: the log is empty behind a snapshot that ends at start_offset."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to a peer. A pending request to that peer is abandoned, together with its connection.

    is_after_abandoned: the node has ignored, or will ignore, the response to an earlier request, so the connection must
    be another one too: a leader takes a fetch on the same connection as a sign that its last response was received.
    """

    peer: int
    request_id: RequestId
    request: Request
    is_after_abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Discover:
    """Send a DiscoverRequest to an address whose node may be unknown; Discovered follows."""

    contact: Contact
    request: DiscoverRequest


@dataclass(frozen=True, slots=True)
class Located:
    """A node's address is known now, or has changed."""

    node_id: int
    address: Contact


@dataclass(frozen=True, slots=True)
class AskLogs:
    """Ask a broker for the ends of its replicas' logs; LogsReported follows."""

    question: LogQuestion


@dataclass(frozen=True, slots=True)
class Reply:
    """Respond to a request that arrived."""

    request_id: RequestId
    response: Response


@dataclass(frozen=True, slots=True)
class Note:
    """A log line in Kafka's wording; logger is the Kafka class that logs it."""

    text: str
    logger: str = "KafkaRaftClient"
    level: str = "INFO"


@dataclass(frozen=True, slots=True)
class StateChange:
    """The node has entered a state and left another, None at its start; it is a log line, too.

    is_completed is False for the line before: the node will store what changes. voters and high_watermark are those at
    this time.
    """

    entered: QuorumState
    left: QuorumState | None
    is_completed: bool
    settings: NodeSettings
    voters: tuple[int, ...]
    high_watermark: int

    @property
    def note(self) -> Note:
        """The log line."""
        begin = "Completed transition" if self.is_completed else "Attempting durable transition"
        left = "null" if self.left is None else self._text(self.left)
        return Note(f"{begin} to {self._text(self.entered)} from {left}", "QuorumState")

    def _text(self, state: QuorumState) -> str:
        return describe(state, self.settings, self.voters, self.high_watermark)


@dataclass(frozen=True, slots=True)
class Halt:
    """The node ends: gracefully, or because it must not continue (failure is the reason)."""

    failure: str | None = None


OnDisk = PersistElection | AppendLog | TruncateLog | SaveSnapshot | AdvanceLogStart | RestartLog
"""What changes the disk."""

Effect = OnDisk | Send | Discover | Located | AskLogs | Reply | Note | StateChange | Halt
