"""DescribeQuorum requests to single controllers (KIP-595).

Each node is called directly, because the responses of a deposed leader are of interest too. Version 0 has all fields
used here, and every release from 3.3 on supports it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from harness.model.session import Connection
from nodes.wire.unreleased import describe_quorum_v0

TOPIC = "__cluster_metadata"

REQUEST = describe_quorum_v0.DescribeQuorumRequest(
    topics=(
        describe_quorum_v0.RequestedTopic(
            topic_name=TopicName(TOPIC),
            partitions=(describe_quorum_v0.RequestedPartition(partition_index=i32(0)),),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """One node's response. error is Kafka's name of the error (`not_leader_or_follower`); None if the node leads.

    voters and observers are pairs of a replica and its log end offset as the leader knows it, -1 before it fetched.
    target are the ids of the voters that a reassignment will end with (KIP-642); empty without one.
    """

    error: str | None = None
    leader: int | None = None
    epoch: int | None = None
    high_watermark: int | None = None
    log_end_offset: int | None = None
    voters: tuple[tuple[int, int], ...] = ()
    observers: tuple[tuple[int, int], ...] = ()
    target: tuple[int, ...] = ()


async def describe_quorum(connection: Connection, timeout_ms: int) -> QuorumDescription:
    """Call one node. Raises the connection's errors."""
    response: describe_quorum_v0.DescribeQuorumResponse = await connection.call(REQUEST, timeout_ms)
    if response.error_code is not ErrorCode.none:
        return QuorumDescription(response.error_code.name)
    partition = response.topics[0].partitions[0]
    voters, observers = (
        tuple(sorted((int(each.replica_id), int(each.log_end_offset)) for each in replicas))
        for replicas in (partition.current_voters, partition.observers)
    )
    if partition.error_code is not ErrorCode.none:
        return QuorumDescription(partition.error_code.name)
    return QuorumDescription(
        None,
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        dict((*observers, *voters)).get(partition.leader_id),
        voters,
        observers,
        tuple(sorted(int(each.replica_id) for each in partition.target_voters)),
    )
