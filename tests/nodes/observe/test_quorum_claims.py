"""A leader's response to DescribeQuorum as an observation."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64

from harness.model import Observation
from harness.model.conditions import LEADER_KNOWN, leads_partition, partition_offline
from nodes.observe.describe_quorum import TOPIC
from nodes.observe.watch import QuorumWatch
from nodes.wire.unreleased import describe_quorum_v0 as v0


def response_of_leader(ends: dict[int, int]) -> v0.DescribeQuorumResponse:
    """Node 1 leads epoch 4 with high watermark 10; ends are the voters' log end offsets."""
    voters = tuple(v0.ReplicaState(replica_id=BrokerId(voter), log_end_offset=i64(end)) for voter, end in ends.items())
    partition = v0.PartitionData(
        partition_index=i32(0),
        error_code=ErrorCode.none,
        leader_id=BrokerId(1),
        leader_epoch=i32(4),
        high_watermark=i64(10),
        current_voters=voters,
        observers=(),
    )
    topics = (v0.TopicData(topic_name=TopicName(TOPIC), partitions=(partition,)),)
    return v0.DescribeQuorumResponse(error_code=ErrorCode.none, topics=topics)


class Leader:
    """A connection to a node that always sends the same response."""

    def __init__(self, response: Any) -> None:
        self.response = response

    async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002
        return self.response

    async def close(self) -> None:
        """Nothing is open."""


class Broker(Leader):
    """A broker that leads t-0."""

    def __init__(self) -> None:
        state = SimpleNamespace(partition_index=0, leader_id=1, leader_epoch=3, isr_nodes=[1])
        topic = SimpleNamespace(name="t", is_internal=False, partitions=[state])
        super().__init__(SimpleNamespace(controller_id=1, topics=[topic], brokers=[SimpleNamespace(node_id=1)]))

    async def call_latest(self, api_key: int, values: Any, timeout_ms: int) -> Any:  # noqa: ARG002
        return self.response


def claimed(ends: dict[int, int]) -> Observation:
    """The first observation of such a node."""
    observations: list[Observation] = []

    async def run_watch() -> None:
        watch = QuorumWatch(lambda: 7, 0, observations.append, {}, {1: Leader(response_of_leader(ends))})
        watch.start()
        await watch.until(LEADER_KNOWN, 5)
        await watch.stop()

    asyncio.run(run_watch())
    return observations[0]


def test_claim_has_the_log_end_of_each_voter() -> None:
    claim = claimed({1: 12, 2: 10, 3: -1})
    assert (claim.kind, claim.epoch, claim.high_watermark, claim.log_end_offset) == ("claim", 4, 10, 12)
    assert json.loads(claim.detail or "") == {"voters": {"1": 12, "2": 10, "3": -1}}


def test_brokers_of_a_quorum_are_polled_for_their_partitions() -> None:
    observations: list[Observation] = []

    async def run_watch() -> None:
        leader: Any = Leader(response_of_leader({1: 12}))
        watch = QuorumWatch(lambda: 7, 0, observations.append, {}, {1: leader}, {1: Broker()})  # type: ignore[dict-item]
        watch.start()
        assert await watch.until(leads_partition(1, "t-0"), 5)
        watch.forget(1)
        assert not await watch.until(partition_offline("t-0"), 0)
        await watch.stop()

    asyncio.run(run_watch())
    (partition,) = [each for each in observations if each.kind == "partition"]
    assert json.loads(partition.detail or "") == {"topic": "t", "partition": 0, "leader": 1, "epoch": 3, "in_sync": [1]}


def test_claim_without_voters_has_no_detail() -> None:
    claim = claimed({})
    assert (claim.log_end_offset, claim.detail) == (None, None)
