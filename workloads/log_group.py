"""A consumer's place in its group: what it may commit, and what its group has committed.

A member commits of each partition that is still its own the offset behind the last record that it has polled since it
got it, and waits for the coordinator's word. It so commits only what is ahead: when a partition is given to it, it
begins at the committed offset, and until the group forms anew nobody else may commit there. What it polled before it
got its partitions anew is not its to commit any more, and is forgotten.

`commit` is ok where the coordinator took it, fail where it refused it, because the group had formed anew without this
member or was about to; whatever else comes may come for a commit that takes effect, and is info. `committed` changes
nothing, so that it fails where nobody answers.

What may live here: a group's offsets. What may not: records (log_session.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.model import Op
from workloads.log_topic import PARTITIONS, TOPIC, name_of, number_of

SESSION_TIMEOUT_MS = 6000
"""After that a coordinator takes a silent member for gone; librdkafka waits as long for one to commit to."""

COMMITTED_SECONDS = 2.0

REFUSED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""Errors of commits that were certainly not taken."""


class Member:
    """What one consumer has polled of the partitions that its group left to it.

    assignments counts how often it came to have others, or none; it is 0 until the consumer subscribes.
    """

    def __init__(self) -> None:
        self.assignments = 0
        self._next: dict[int, int] = {}

    def subscribe(self, consumer: Consumer) -> None:
        """Leave it to the group which partitions the consumer reads, from now on."""
        self._begin_anew()
        told: Callable[..., None] = lambda _consumer, _partitions: self._begin_anew()  # noqa: E731 - told three times
        consumer.subscribe([TOPIC], on_assign=told, on_revoke=told, on_lost=told)

    def polled(self, got: Mapping[str, list[list[int]]], assignments: int) -> None:
        """Remember where these records end, unless there had been fewer assignments when their poll began."""
        if assignments == self.assignments:
            self._next |= {number_of(key): records[-1][0] + 1 for key, records in got.items()}

    def commit(self, consumer: Consumer, op: Op) -> Op:
        """Commit what was polled."""
        own = {each.partition for each in consumer.assignment()}
        ahead = {partition: offset for partition, offset in self._next.items() if partition in own}
        if not ahead:
            return op.fail("this process has polled nothing since it got its partitions")
        asked = replace(op, value={name_of(partition): offset for partition, offset in ahead.items()})
        wanted = [TopicPartition(TOPIC, partition, offset) for partition, offset in ahead.items()]
        try:
            told: Any = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as failure:
            return _uncommitted(asked, [failure.args[0]])
        errors = [each.error for each in told if each.error is not None]
        return asked.ok() if not errors else _uncommitted(asked, [each.error for each in told])

    def _begin_anew(self) -> None:
        self.assignments += 1
        self._next.clear()


def _uncommitted(op: Op, errors: list[KafkaError | None]) -> Op:
    """How a commit ended that not all partitions have taken, by the error of each, None where it was taken."""
    first = next(error for error in errors if error is not None)
    is_refused = all(error is not None and error.code() in REFUSED for error in errors)
    return op.fail(first.name()) if is_refused else op.info(first.name())


def committed(consumer: Consumer, op: Op) -> Op:
    """What the group has committed of one partition, or of all."""
    numbers = range(PARTITIONS) if op.key is None else [number_of(op.key)]
    try:
        told = consumer.committed([TopicPartition(TOPIC, number) for number in numbers], timeout=COMMITTED_SECONDS)
    except KafkaException as failure:
        return op.fail(failure.args[0].name())
    errors = [each.error for each in told if each.error is not None]
    if errors:
        return op.fail(errors[0].name())
    return op.ok({name_of(each.partition): each.offset if each.offset >= 0 else None for each in told})
