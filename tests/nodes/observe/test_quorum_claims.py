"""What a leader answers to DescribeQuorum, as an observation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kio.schema.describe_quorum.v0 import response as v0
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64

from harness.model import Observation
from harness.model.conditions import LEADER_KNOWN
from nodes.observe.describe_quorum import TOPIC
from nodes.observe.watch import QuorumWatch


def answer(ends: dict[int, int]) -> v0.DescribeQuorumResponse:
    """Node 1 leads epoch 4, its high watermark is 10, and it knows its voters to reach these ends."""
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
    """A connection to a node that always answers the same."""

    def __init__(self, response: Any) -> None:
        self.response = response

    async def call(self, request: Any, timeout_ms: int) -> Any:  # noqa: ARG002
        return self.response


def claimed(ends: dict[int, int]) -> Observation:
    """The first claim that a watch tells of such a node."""
    seen: list[Observation] = []

    async def watched() -> None:
        watch = QuorumWatch(lambda: 7, 0, seen.append)
        watch.start({}, {1: Leader(answer(ends))})
        await watch.until(LEADER_KNOWN, 5)
        await watch.stop()

    asyncio.run(watched())
    return seen[0]


def test_a_claim_tells_how_far_the_leader_knows_each_voter_to_reach() -> None:
    claim = claimed({1: 12, 2: 10, 3: -1})
    assert (claim.kind, claim.epoch, claim.high_watermark, claim.log_end_offset) == ("claim", 4, 10, 12)
    assert json.loads(claim.detail or "") == {"voters": {"1": 12, "2": 10, "3": -1}}


def test_a_claim_without_voters_tells_nothing_of_them() -> None:
    claim = claimed({})
    assert (claim.log_end_offset, claim.detail) == (None, None)
