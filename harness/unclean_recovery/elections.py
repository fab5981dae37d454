"""Which elections are requested, and what the answers mean. The tools' half of ElectLeaders.

One request has at most 1,000 partitions. The response has no HasMoreData: what a server served has a result, and what
it left out has none and is requested next. Errors that pass are retried, with the number of retries counted for each
batch.

Repeating a request is safe: a partition that has a leader is never changed by a designated or unclean election. So a
request without an answer is repeated too, and ELECTION_NOT_NEEDED after it means that the partition is online, by the
lost request or another.

Contains the state of a batch. Does not contain sockets, pauses or clocks (electing.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from harness.unclean_recovery.options import ElectionType
from harness.unclean_recovery.outcomes import Outcome, Result, named
from harness.unclean_recovery.partitions import TopicPartition
from harness.unclean_recovery.survey import LEFT_OUT, PARTITIONS_PER_REQUEST, by_topic
from harness.unclean_recovery.transient import LEAVES_IN_DOUBT, PASSES_AT_THE_CONTROLLER
from nodes.wire.unreleased import DESIGNATED_LEADERS_FROM, elect_leaders_v3

NUMBERS: Mapping[ElectionType, int] = {
    ElectionType.PREFERRED: elect_leaders_v3.PREFERRED,
    ElectionType.UNCLEAN: elect_leaders_v3.UNCLEAN,
    ElectionType.DESIGNATED: elect_leaders_v3.DESIGNATED,
}
VERSION_LEAST: Mapping[ElectionType, int] = {
    ElectionType.PREFERRED: 1,
    ElectionType.UNCLEAN: 1,
    ElectionType.DESIGNATED: DESIGNATED_LEADERS_FROM,
}
"""The first version of ElectLeaders that has the type; version 0 has no error of the whole request."""

Designations = Mapping[TopicPartition, int | None]
"""The partitions to elect leaders of, each with its designated leader; None in other types of election."""


@dataclass(slots=True)
class Batch:
    """The elections of one request, until each has its outcome.

    open are the partitions without an outcome. retries_left is how often errors that pass may still be retried.
    in_doubt are partitions of a request that may have had its effect, since nobody knows how it ended. last_error is
    why the open ones are still open.
    """

    kind: ElectionType
    open: dict[TopicPartition, int | None]
    retries_left: int
    outcomes: dict[TopicPartition, Outcome] = field(default_factory=dict)
    in_doubt: set[TopicPartition] = field(default_factory=set)
    last_error: str = ""

    def receive(self, response: Any) -> bool:
        """Take a response into account; returns whether an error has to pass before the next request."""
        of_all = response.error_code
        if of_all is not ErrorCode.none and of_all not in PASSES_AT_THE_CONTROLLER:
            self._end({partition: self._failed(partition, named(of_all)) for partition in self.open})
            return False
        results = {partition: result for partition, result in _results(response) if partition in self.open}
        if of_all is not ErrorCode.none:
            results = dict.fromkeys(self.open, (of_all, None))
        passing = {each: result for each, result in results.items() if result[0] in PASSES_AT_THE_CONTROLLER}
        self._end({each: self._outcome(each, *results[each]) for each in results.keys() - passing.keys()})
        self.in_doubt |= {each for each, (code, _) in passing.items() if code in LEAVES_IN_DOUBT}
        if passing:
            return self.wait_for(named(*next(iter(passing.values()))))
        return False if results else self.wait_for(LEFT_OUT)

    def lose(self, reason: str, was_sent: bool) -> bool:
        """The request failed on the network; returns as receive does."""
        if was_sent:
            self.in_doubt |= set(self.open)
        return self.wait_for(reason)

    def wait_for(self, error: str) -> bool:
        """An error that passes: use one retry, or end what is open if none is left. Returns as receive does."""
        self.last_error = error
        if self.retries_left == 0:
            self._end({partition: self._failed(partition, error) for partition in self.open})
            return False
        self.retries_left -= 1
        return True

    def interrupt(self) -> None:
        """No further request is sent: what is open ends without one."""
        self._end({partition: self._interrupted(partition) for partition in self.open})

    def values(self, timeout_ms: int) -> dict[str, Any]:
        """The request for what is open."""
        return {"election_type": NUMBERS[self.kind], "topic_partitions": _entries(self.open), "timeout": timeout_ms}

    def _end(self, outcomes: Mapping[TopicPartition, Outcome]) -> None:
        self.outcomes |= outcomes
        self.open = {partition: leader for partition, leader in self.open.items() if partition not in outcomes}

    def _outcome(self, partition: TopicPartition, code: ErrorCode, message: str | None) -> Outcome:
        leader = self.open[partition]
        if code is ErrorCode.none:
            return Outcome(Result.ELECTED, leader)
        if code is not ErrorCode.election_not_needed:
            return Outcome(Result.FAILED, leader, named(code, message))
        if self.kind is ElectionType.PREFERRED:
            return Outcome(Result.NOT_NEEDED)
        lost = "elected by a request whose answer was lost, or by another" if partition in self.in_doubt else ""
        return Outcome(Result.ALREADY_ONLINE, reason=lost)

    def _failed(self, partition: TopicPartition, error: str) -> Outcome:
        result = Result.UNKNOWN if partition in self.in_doubt else Result.FAILED
        return Outcome(result, self.open[partition], error)

    def _interrupted(self, partition: TopicPartition) -> Outcome:
        reason = f"interrupted after: {self.last_error}" if self.last_error else "interrupted"
        result = Result.UNKNOWN if partition in self.in_doubt else Result.NOT_DONE
        return Outcome(result, self.open[partition], reason)


def batches(
    kind: ElectionType, designations: Designations, retries: int, page_size: int = PARTITIONS_PER_REQUEST
) -> Iterator[Batch]:
    """The elections in batches of at most page_size partitions, in order."""
    pairs = sorted(designations.items())
    for start in range(0, len(pairs), page_size):
        yield Batch(kind, dict(pairs[start : start + page_size]), retries)


def _entries(open_: Designations) -> Sequence[Mapping[str, Any]]:
    """Designated leaders match the partitions by index; the codec leaves them out of versions before 3."""
    return [
        {
            "topic": topic,
            "partitions": [each.partition for each in partitions],
            "designated_leaders": None if open_[partitions[0]] is None else [open_[each] for each in partitions],
        }
        for topic, partitions in by_topic(open_)
    ]


def _results(response: Any) -> Iterator[tuple[TopicPartition, tuple[ErrorCode, str | None]]]:
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            yield TopicPartition(topic.topic, int(each.partition_id)), (each.error_code, each.error_message)
