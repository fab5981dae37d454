"""Moves partitions between brokers, and reads where they are, for clients' operations (KIP-455).

A controller that does not lead answers ListPartitionReassignments too, from what it knows, and a broker's metadata may
be older than an acknowledged move. So a read

1. requests a reassignment of a topic that does not exist. Only the active controller refuses it as such, and it knows
   what every controller before it has acknowledged;
2. lists the reassignments at that controller;
3. asks all brokers for the replicas if none is ongoing, and lists the reassignments again.

The replicas are known if all brokers report the same and no reassignment was ongoing before and after: a move is at its
end only once its new replicas are in sync, and so their brokers know of it.

Contains requests; nodes.probe.partition_session decides what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.model import Op, PeerFailure
from harness.model.faults.membership import Partition, Placement, Reassignment, Refused
from harness.model.layouts import CLIENT_PORT
from harness.model.session import Connection
from nodes.kafka.membership import KafkaMembership

NO_TOPIC: Partition = ("splitbrain-no-topic", 0)
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"


class PartitionMoves:
    """nodes.probe.partition_session.Moves of Kafka's brokers and of the reference's."""

    def __init__(
        self,
        controllers: Mapping[int, str],
        port: int,
        connect: Callable[[int], Connection],
        brokers: Sequence[int],
        connect_client: Callable[[int], Connection],
    ) -> None:
        """controllers have their addresses; connect makes a connection to a controller's listener at this port,
        connect_client one to a broker's."""
        self._leader: int | None = None
        self._brokers = brokers
        self._membership = KafkaMembership(
            controllers,
            dict.fromkeys(controllers, port),
            brokers,
            lambda node, _client_id, to: connect_client(node) if to == CLIENT_PORT else connect(node),
            lambda: self._leader,
        )

    async def move(self, leader: int, op: Op) -> None:
        """Request that the partition which the operation's key names move to the brokers that its value names."""
        self._leader = leader
        await self._membership.reassign([Reassignment(partition_of(op), tuple(op.value))])

    async def placement(self, leader: int, op: Op) -> Placement:
        """Where the partition is that the operation's key names. Raises PeerFailure if the node does not lead."""
        self._leader = leader
        partition = partition_of(op)
        await self._refuses_unknown()
        move = (await self._membership.ongoing()).get(partition)
        if move is not None:
            leaving = set(move.removing_replicas)
            return Placement(target=tuple(int(node) for node in move.replicas if node not in leaving))
        replicas = await self._agreed(partition)
        is_moving = partition in await self._membership.ongoing()
        return Placement() if is_moving or replicas is None else Placement(replicas=replicas)

    async def close(self) -> None:
        """Close every connection."""
        await self._membership.close()

    async def _refuses_unknown(self) -> None:
        try:
            await self._membership.reassign([Reassignment(NO_TOPIC, (0,))])
        except Refused as refusal:
            if refusal.error == UNKNOWN:
                return
            raise
        raise PeerFailure(f"reassigning {NO_TOPIC[0]}: expected {UNKNOWN}, and it was accepted")

    async def _agreed(self, partition: Partition) -> tuple[int, ...] | None:
        """The replicas that all brokers report; None if they differ. Raises PeerFailure if a broker does not answer."""
        seen = [(await self._membership.partitions_at(broker)).get(partition) for broker in self._brokers]
        replicas = {None if each is None else tuple(sorted(each.replicas)) for each in seen}
        return replicas.pop() if len(replicas) == 1 else None


def partition_of(op: Op) -> Partition:
    """The partition that an operation's key names, e.g. log-2."""
    topic, _, index = str(op.key).rpartition("-")
    return topic, int(index)
