"""Reads and reassigns the voters of a reference quorum over the wire: DescribeQuorum and AlterPartitionReassignments.

Contains requests and the interpretation of their responses; nemesis.faults.reassignment decides when to send them.
Source: KIP-642, "AlterPartitionReassignments" and "DescribeQuorum".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Refused
from harness.model.faults.reassignment import Assigned, VotersView
from harness.model.session import Connection
from nodes.observe.control_records import assignment_of, control_records
from nodes.observe.describe_quorum import TOPIC, QuorumDescription, describe_quorum
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
        self._requesting = {node: connect(node, CLIENT_ID, port) for node, port in controllers.items()}
        """Apart, because a node answers the requests of one connection in their order, and a reassignment late."""
        self._leader = leader

    async def close(self) -> None:
        """Close every connection."""
        for connection in (*self._connections.values(), *self._requesting.values()):
            await connection.close()

    async def view(self) -> VotersView:
        """What the leader reports."""
        leader, described = await self._described(None)
        return VotersView(leader, tuple(node for node, _ in described.voters), described.target)

    async def assignments(self, node: int | None = None) -> Sequence[Assigned]:
        """All assignments in a leader's log, read with Fetch as a client does."""
        leader, described = await self._described(node)
        assert described.epoch is not None, "a leader has an epoch"
        assert described.log_end_offset is not None, "a leader knows its log"
        found: list[Assigned] = []
        offset = 0
        while offset < described.log_end_offset:
            data = await self._fetched(leader, described.epoch, offset)
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

    async def _described(self, node: int | None) -> tuple[int, QuorumDescription]:
        """A leader, by default that of the highest epoch, and its description. Raises PeerFailure without one."""
        leader = self._leader() if node is None else node
        if leader is None:
            raise PeerFailure("describing the quorum: expected a leader, and no node claims to lead")
        described = await describe_quorum(self._connections[leader], TIMEOUT_MS)
        if described.error is not None:
            raise PeerFailure(f"describing the quorum: expected n{leader} to lead, and it answers {described.error}")
        return leader, described

    async def reassign(self, node: int, voters: Sequence[int] | None) -> None:
        """Request of a node that these nodes become the voters."""
        partition = {"partition_index": 0, "replicas": None if voters is None else tuple(voters)}
        values = {"timeout": TIMEOUT_MS, "topics": [{"name": TOPIC, "partitions": [partition]}]}
        connection = self._requesting[node]
        response = await connection.call_latest(codec.ALTER_PARTITION_REASSIGNMENTS, values, 2 * TIMEOUT_MS)
        (topic,) = response.responses
        (result,) = topic.partitions
        if result.error_code is not ErrorCode.none:
            name = result.error_code.name.upper()
            raise Refused(f"reassigning the voters at n{node}: {name}: {result.error_message}", name)


class WholeChanges:
    """nodes.probe.voter_session.Changes of a quorum that is reassigned as a whole (KIP-642)."""

    def __init__(self, controllers: Sequence[int], connect: Callable[[int], Connection]) -> None:
        """connect makes a connection to a controller's listener."""
        self._voters = ReferenceVoters(
            dict.fromkeys(controllers, 0), lambda node, _client_id, _port: connect(node), lambda: None
        )

    async def change(self, leader: int, op: Op) -> None:
        """Request the voters that the operation names."""
        await self._voters.reassign(leader, op.value)

    async def close(self) -> None:
        """Close every connection."""
        await self._voters.close()
