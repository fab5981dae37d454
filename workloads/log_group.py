"""A consumer's membership in its group: the offsets it commits, and the group's committed offsets.

For each partition that it still owns, a member commits the offset after the last record polled since the assignment,
and waits for the coordinator's response. So its commits never go back: it starts at the committed offset, and until the
next rebalance no other member may commit for the partition. What it polled before a rebalance is discarded.

`commit` is ok if the coordinator accepted it, and fail if it rejected it because of a rebalance. After any other error
the commit may have taken effect, so the op is info. `committed` has no effect, so it fails on any error.

Contains the offsets of a group. Records are in log_session.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.model import Op
from workloads.log_topic import PARTITIONS, TOPIC, key_of, number_of

SESSION_TIMEOUT_MS = 6000
"""The time after which a coordinator removes a silent member; librdkafka waits as long for a coordinator to commit."""

COMMITTED_SECONDS = 2.0

REJECTED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""Errors of commits that certainly had no effect."""


class Member:
    """The positions of one consumer in its assigned partitions.

    assignments counts subscriptions and rebalances; it is 0 until the consumer subscribes.
    """

    def __init__(self) -> None:
        self.assignments = 0
        self._next: dict[int, int] = {}

    def subscribe(self, consumer: Consumer) -> None:
        """Join the group, which assigns the consumer's partitions from now on."""
        self._reset()
        on_change: Callable[..., None] = lambda _consumer, _partitions: self._reset()  # noqa: E731 - used three times
        consumer.subscribe([TOPIC], on_assign=on_change, on_revoke=on_change, on_lost=on_change)

    def polled(self, records_by_key: Mapping[str, list[list[int]]], assignments: int) -> None:
        """Store the positions after these records, unless there was a rebalance since their poll began."""
        if assignments == self.assignments:
            self._next |= {number_of(key): records[-1][0] + 1 for key, records in records_by_key.items()}

    def commit(self, consumer: Consumer, op: Op) -> Op:
        """Commit the positions in the partitions that the consumer owns."""
        owned = {each.partition for each in consumer.assignment()}
        positions = {partition: offset for partition, offset in self._next.items() if partition in owned}
        if not positions:
            return op.fail("this process has polled nothing since its last assignment")
        op = replace(op, value={key_of(partition): offset for partition, offset in positions.items()})
        offsets = [TopicPartition(TOPIC, partition, offset) for partition, offset in positions.items()]
        try:
            results: Any = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            return _failed_commit(op, [failure.args[0]])
        errors = [each.error for each in results]
        return _failed_commit(op, errors) if any(error is not None for error in errors) else op.ok()

    def _reset(self) -> None:
        self.assignments += 1
        self._next.clear()


def _failed_commit(op: Op, errors: list[KafkaError | None]) -> Op:
    """The end of a commit with at least one error; errors has one entry per partition, None if it was committed."""
    first = next(error for error in errors if error is not None)
    is_rejected = all(error is not None and error.code() in REJECTED for error in errors)
    return op.fail(first.name()) if is_rejected else op.info(first.name())


def committed(consumer: Consumer, op: Op) -> Op:
    """The group's committed offsets of one partition, or of all."""
    numbers = range(PARTITIONS) if op.key is None else [number_of(op.key)]
    try:
        results = consumer.committed([TopicPartition(TOPIC, number) for number in numbers], timeout=COMMITTED_SECONDS)
    except KafkaException as failure:
        return op.fail(failure.args[0].name())
    errors = [each.error for each in results if each.error is not None]
    if errors:
        return op.fail(errors[0].name())
    return op.ok({key_of(each.partition): each.offset if each.offset >= 0 else None for each in results})
