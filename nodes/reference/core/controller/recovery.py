"""Unclean recovery by the controller itself: the strategies of KIP-966, which KAFKA-20098 rejects (UR-30).

    recovery.expire(); questions = recovery.take_questions()   # to live replicas of partitions without a leader
    recovery.reported(question, ends)                          # elects, once all have answered or the time is over

Aggressive asks all live replicas at once, Balanced only when every replica is live that was in sync last. Both elect
the replica whose last record is of the latest epoch, the longest log among equals; those that do not answer within
unclean.recovery.timeout.ms are not counted. Nothing of this is in the metadata log: a new controller asks again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from nodes.reference.core.controller.changes import Election
from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import LogEnd, LogQuestion
from nodes.reference.core.controller.settings import AGGRESSIVE, BALANCED, ELECTIONS_MAX
from nodes.reference.core.records.image import Partition

Where = tuple[uuid.UUID, int]
"""A topic's id and a partition's number."""


@dataclass(slots=True)
class _Survey:
    """The question whose log is longest, for one partition in one leader epoch."""

    leader_epoch: int
    deadline_ms: int
    open: set[int]  # the brokers that have not answered
    ends: dict[int, LogEnd] = field(default_factory=dict)


class Recovery:
    """The recoveries of one term of the active controller."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._ids = draft, count(1)
        self._surveys: dict[Where, _Survey] = {}
        self._questions: list[LogQuestion] = []
        self._next_ms = draft.now_ms + draft.settings.unclean_interval_ms

    @property
    def deadline_ms(self) -> int:
        """When expire is due."""
        return min((self._next_ms, *(each.deadline_ms for each in self._surveys.values())))

    def take_questions(self) -> Sequence[LogQuestion]:
        """Return and clear the questions to send."""
        taken, self._questions = self._questions, []
        return taken

    def expire(self) -> None:
        """End surveys whose time is over, and begin those that are due."""
        now_ms = self._draft.now_ms
        for where in [where for where, each in self._surveys.items() if each.deadline_ms <= now_ms]:
            self._end(where)
        if self._next_ms > now_ms:
            return
        self._next_ms = now_ms + self._draft.settings.unclean_interval_ms
        begun = [each for each in self._draft.image.partitions() if self._may_begin(each)]
        for partition in begun:
            deadline_ms = now_ms + self._draft.settings.recovery_timeout_ms
            live = {node for node in partition.replicas if self._draft.image.is_active(node)}
            self._surveys[_where(partition)] = _Survey(partition.leader_epoch, deadline_ms, live)
        self._ask(begun)

    def _may_begin(self, partition: Partition) -> bool:
        """Whether the partition has no leader, its strategy allows a loss now, and somebody can be asked."""
        strategy = self._draft.recovery_strategy(partition.topic)
        if partition.has_leader or strategy not in (BALANCED, AGGRESSIVE) or _where(partition) in self._surveys:
            return False
        is_active = self._draft.image.is_active
        complete = {*partition.isr, *partition.elr, *partition.last_known_elr}
        return any(map(is_active, partition.replicas)) and (strategy == AGGRESSIVE or all(map(is_active, complete)))

    def _ask(self, partitions: Iterable[Partition]) -> None:
        """Ask each broker for up to 1,000 logs at a time."""
        by_broker: dict[int, list[Where]] = {}
        for partition in partitions:
            for broker in sorted(self._surveys[_where(partition)].open):
                by_broker.setdefault(broker, []).append(_where(partition))
        for broker, wanted in by_broker.items():
            for first in range(0, len(wanted), ELECTIONS_MAX):
                page = tuple(wanted[first : first + ELECTIONS_MAX])
                self._questions.append(LogQuestion(next(self._ids), broker, page))

    def reported(self, question: LogQuestion, ends: Mapping[Where, LogEnd]) -> None:
        """A broker has answered, or will not: then ends is empty."""
        for where in question.partitions:
            survey = self._surveys.get(where)
            if survey is not None and question.broker_id in survey.open:
                survey.open.discard(question.broker_id)
                survey.ends |= {question.broker_id: ends[where]} if where in ends else {}
                if not survey.open:
                    self._end(where)

    def _end(self, where: Where) -> None:
        """Elect the best of the replicas that answered, unless the partition has changed meanwhile."""
        survey, (topic_id, index) = self._surveys.pop(where), where
        topic = self._draft.image.topic(topic_id)
        partition = topic.partitions.get(index) if topic else None
        if partition is None or partition.has_leader or partition.leader_epoch != survey.leader_epoch:
            return
        live = [node for node in partition.replicas if node in survey.ends and self._draft.image.is_active(node)]
        if live:
            best = max(live, key=lambda node: survey.ends[node])
            self._draft.write(self._draft.change_of(partition).record(Election.DESIGNATED, designated=best))


def _where(partition: Partition) -> Where:
    return partition.topic_id, partition.index
