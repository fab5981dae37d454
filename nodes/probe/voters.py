"""Reads and reassigns the voters of a reference quorum over the wire: DescribeQuorum and AlterPartitionReassignments.

Contains requests and the interpretation of their responses; nemesis.faults.reassignment decides when to send them.
Source: KIP-642, "AlterPartitionReassignments" and "DescribeQuorum".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from harness.model.faults.membership import Refused
from harness.model.faults.reassignment import Assigned, VotersView
from harness.model.session import Connection
from nodes.observe.control_records import assignment_of, control_records
from nodes.observe.describe_quorum import TOPIC, describe_quorum
from nodes.wire import codec
from nodes.wire.batches import heads

TIMEOUT_MS = 10_000
FETCH_BYTES = 8 * 1024 * 1024
CLIENT_ID = "splitbrain-voters"


class ReferenceVoters:
    """harness.model.faults.reassignment.QuorumVoters of the reference system."""

    def __init__(
        self,
        controllers: Mapping[int, int],
        connect: Callable[[int, str, int], Connection],
        leader: Callable[[], int | None],
    ) -> None:
        """controllers are the controllers' ports; leader() returns the leader, or None if unknown."""
        self._connections = {node: connect(node, CLIENT_ID, port) for node, port in controllers.items()}
        self._leader = leader

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            await connection.close()

    async def view(self) -> VotersView:
        """What the leader reports."""
        leader = self._require_leader()
        described = await describe_quorum(self._connections[leader], TIMEOUT_MS)
        if described.error is not None:
            raise PeerFailure(f"describing the quorum: n{leader} answers {described.error}")
        return VotersView(leader, tuple(node for node, _ in described.voters), described.target)

    async def assignments(self) -> Sequence[Assigned]:
        """All assignments in the leader's log, read with Fetch as a client does."""
        leader = self._require_leader()
        described = await describe_quorum(self._connections[leader], TIMEOUT_MS)
        found: list[Assigned] = []
        offset = 0
        while offset < (described.log_end_offset or 0):
            data = await self._fetched(leader, described.epoch or 0, offset)
            for head in heads(data):
                offset = head.last_offset + 1
                assigned = assignment_of(control_records(data, head)) if head.is_control else None
                if assigned is not None:
                    found.append((assigned.current, assigned.target))
        return found

    async def _fetched(self, leader: int, epoch: int, offset: int) -> bytes:
        """Batches of the leader's log from an offset on. Raises PeerFailure if there are none."""
        partition = {
            "partition": 0,
            "current_leader_epoch": epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": 0 if offset == 0 else epoch,
            "partition_max_bytes": FETCH_BYTES,
        }
        values = {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": FETCH_BYTES,
            "topics": [{"topic": TOPIC, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        request = codec.build(codec.FETCH, 12, "request", values)
        response = await self._connections[leader].call(request, TIMEOUT_MS)
        (topic,) = response.responses
        (answer,) = topic.partitions
        if answer.error_code is not ErrorCode.none or not answer.records:
            raise PeerFailure(
                f"reading the log of n{leader} from offset {offset}: {answer.error_code.name}, no records"
            )
        return bytes(answer.records)

    def _require_leader(self) -> int:
        leader = self._leader()
        if leader is None:
            raise PeerFailure("describing the quorum: no node claims to lead")
        return leader

    async def reassign(self, node: int, voters: Sequence[int] | None) -> None:
        """Request of a node that these nodes become the voters."""
        partition = {"partition_index": 0, "replicas": None if voters is None else tuple(voters)}
        values = {"timeout": TIMEOUT_MS, "topics": [{"name": TOPIC, "partitions": [partition]}]}
        connection = self._connections[node]
        response = await connection.call_latest(codec.ALTER_PARTITION_REASSIGNMENTS, values, 2 * TIMEOUT_MS)
        (topic,) = response.responses
        (result,) = topic.partitions
        if result.error_code is not ErrorCode.none:
            name = result.error_code.name.upper()
            raise Refused(f"reassigning the voters at n{node}: {name}: {result.error_message}", name)
