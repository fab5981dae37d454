"""What brokers are asked about their replicas, and what they answered. The tool's half of GetReplicaLogInfo.

One request has at most 1,000 partitions. A server answers for the first ones and sets HasMoreData if it left others
out; these are asked next. What a broker did not answer, or answered with an error that passes, is asked again after a
pause, until the recovery's duration is over.

Contains the state of the questions to one broker. Does not contain sockets, pauses or clocks (asking.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.unclean_recovery.choice import ReplicaLog
from harness.unclean_recovery.outcomes import named
from harness.unclean_recovery.partitions import PartitionState, TopicPartition
from harness.unclean_recovery.transient import PASSES_AT_A_REPLICA

PARTITIONS_PER_REQUEST: Final = 1000
LEFT_OUT: Final = "the broker's answer leaves it out"


@dataclass(slots=True)
class BrokerSurvey:
    """The questions to one broker.

    open are the partitions to ask for next, in order, and postponed those to ask for again after a pause; a partition
    is in one of them until its answer is final. logs has the newest answer for each, or why there is none.
    """

    open: list[TopicPartition]
    page_size: int = PARTITIONS_PER_REQUEST
    postponed: list[TopicPartition] = field(default_factory=list)
    logs: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether every answer is final."""
        return not self.open and not self.postponed

    def page(self) -> tuple[TopicPartition, ...]:
        """The partitions of the next request."""
        return tuple(self.open[: self.page_size])

    def receive(
        self, page: Sequence[TopicPartition], answers: Mapping[TopicPartition, tuple[ErrorCode, ReplicaLog]], more: bool
    ) -> None:
        """Take an answer to this page into account; more is HasMoreData."""
        missing = [partition for partition in page if partition not in answers]
        answered = [partition for partition in page if partition in answers]
        rest = self.open[len(page) :]
        self.logs |= {partition: answers[partition][1] for partition in answered}
        self.postponed += [partition for partition in answered if answers[partition][0] in PASSES_AT_A_REPLICA]
        if more and answered and missing:
            self.page_size = len(answered)
            self.open = missing + rest
        else:
            self.open = rest
            self.postponed += missing
            self.logs |= {partition: ReplicaLog(error=LEFT_OUT) for partition in missing}

    def postpone(self, reason: str) -> None:
        """The broker did not answer: all that is open waits."""
        self.logs |= {partition: ReplicaLog(error=reason) for partition in self.open}
        self.postponed, self.open = self.open + self.postponed, []

    def give_up(self, reason: str) -> None:
        """The broker will not answer: nothing is asked again."""
        self.postpone(reason)
        self.postponed = []

    def resume(self) -> None:
        """After a pause: what was postponed is asked again."""
        self.open, self.postponed = self.open + self.postponed, []


def surveys_of(
    offline: Mapping[TopicPartition, PartitionState], page_size: int = PARTITIONS_PER_REQUEST
) -> dict[int, BrokerSurvey]:
    """The questions to each broker that has a replica of one of these partitions."""
    brokers = sorted({broker for state in offline.values() for broker in state.replicas})
    return {
        broker: BrokerSurvey([each for each in sorted(offline) if broker in offline[each].replicas], page_size)
        for broker in brokers
    }


def question(page: Iterable[TopicPartition], ids: Mapping[str, uuid.UUID]) -> dict[str, Any]:
    """The request for a page; ids are those of the topics."""
    return {
        "topic_partitions": [
            {"topic_id": ids[topic], "partitions": [each.partition for each in partitions]}
            for topic, partitions in by_topic(page)
        ]
    }


def answers_of(response: Any, topics: Mapping[uuid.UUID, str]) -> dict[TopicPartition, tuple[ErrorCode, ReplicaLog]]:
    """The answers in a response, each with its error code; topics are the names of the ids that were asked for."""
    return {
        TopicPartition(topics[topic.topic_id], int(each.partition)): (each.error_code, _log_of(each))
        for topic in response.topic_partition_log_info_list
        if topic.topic_id in topics
        for each in topic.partition_log_info
    }


def _log_of(info: Any) -> ReplicaLog:
    if info.error_code is not ErrorCode.none:
        return ReplicaLog(error=named(info.error_code))
    written = getattr(info, "last_written_leader_epoch", None)
    return ReplicaLog(
        epoch=int(info.partition_leader_epoch),
        log_end_offset=int(info.log_end_offset),
        last_written_epoch=None if written is None else int(written),
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    """The partitions by topic, each topic once, as requests have them."""
    topics: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each)
    return list(topics.items())
