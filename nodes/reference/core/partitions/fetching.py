"""A broker's requests to the leaders that it follows: one at a time to each, with all its partitions in one request.

A leader is asked about epochs first, then about offsets, then fetched from, as in Kafka's fetcher threads. Requests to
different leaders are under way at the same time. Incremental fetch sessions (KIP-227) are left out: each request names
every partition.

Contains bookkeeping of requests; what a partition asks, and what it does with the answer, is in following.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodes.reference.core.partitions.events import RequestId, Send
from nodes.reference.core.partitions.following import Following, Phase
from nodes.reference.core.partitions.messages import (
    EpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    OffsetsRequest,
    OffsetsResponse,
    Request,
    Response,
    TopicPartition,
)
from nodes.reference.core.partitions.replica import NEVER_MS, Context

Followings = Mapping[TopicPartition, Following]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request under way, and who sent it: a partition that has another leader by now ignores the response."""

    request_id: RequestId
    deadline_ms: int
    asking: Followings
    request: Request


class Fetching:
    """The requests of one broker to all its leaders."""

    def __init__(self, context: Context, followings: Callable[[], Followings]) -> None:
        self._context, self._settings, self._followings = context, context.settings, followings
        self._pending: dict[int, _Pending] = {}  # by leader
        self._last_id = 0

    @property
    def deadline_ms(self) -> int:
        """When a request times out, or a partition may ask again."""
        idle = (each for each in self._followings().values() if each.leader not in self._pending)
        return min(
            (*(each.deadline_ms for each in self._pending.values()), *(each.ready_ms for each in idle)),
            default=NEVER_MS,
        )

    def answered(self, leader: int, request_id: RequestId, response: Response) -> None:
        """Pass a response on to the partitions that asked and still follow this leader in the same epoch."""
        pending = self._ended(leader, request_id)
        if pending is None:
            return
        current = self._followings()
        for partition, following in pending.asking.items():
            if current.get(partition) is following:
                self._pass_on(following, partition, response)

    def _pass_on(self, following: Following, partition: TopicPartition, response: Response) -> None:
        """A response without this partition counts as an error of it."""
        match response:
            case EpochResponse(answers) if partition in answers:
                following.epoch_answered(answers[partition])
            case OffsetsResponse(answers) if partition in answers:
                following.offset_answered(answers[partition])
            case FetchResponse(results) if partition in results:
                following.fetched(results[partition])
            case _:
                following.back_off()

    def failed(self, leader: int, request_id: RequestId) -> None:
        """A request got no response."""
        pending = self._ended(leader, request_id)
        if pending is not None:
            self._refuse(pending)

    def expire(self) -> None:
        """Abandon the requests that have timed out."""
        for leader, pending in list(self._pending.items()):
            if pending.deadline_ms <= self._context.now_ms:
                del self._pending[leader]
                self._refuse(pending)

    def _refuse(self, pending: _Pending) -> None:
        current = self._followings()
        for partition, following in pending.asking.items():
            if current.get(partition) is following:
                if isinstance(pending.request, EpochRequest):
                    following.epoch_refused()
                else:
                    following.back_off()

    def _ended(self, leader: int, request_id: RequestId) -> _Pending | None:
        """The request under way that this belongs to; None if it was abandoned."""
        pending = self._pending.get(leader)
        if pending is None or pending.request_id != request_id:
            return None
        return self._pending.pop(leader)

    def send(self) -> None:
        """Send what is due to each leader to which nothing is under way."""
        ready: dict[int, dict[TopicPartition, Following]] = {}
        for partition, following in sorted(self._followings().items()):
            if following.leader not in self._pending and following.ready_ms <= self._context.now_ms:
                ready.setdefault(following.leader, {})[partition] = following
        for leader, followings in ready.items():
            phase = next(phase for phase in _ORDER if any(each.phase is phase for each in followings.values()))
            self._send(leader, phase, {key: each for key, each in followings.items() if each.phase is phase})

    def _send(self, leader: int, phase: Phase, asking: Followings) -> None:
        self._last_id += 1
        request = self._request(phase, asking)
        deadline_ms = self._context.now_ms + self._settings.request_timeout_ms
        self._pending[leader] = _Pending(self._last_id, deadline_ms, asking, request)
        self._context.emit(Send(leader, self._last_id, request))

    def _request(self, phase: Phase, asking: Followings) -> Request:
        settings, node = self._settings, self._settings.node_id
        if phase is Phase.ASKING:
            return EpochRequest(node, {key: each.epoch_question() for key, each in asking.items()})
        if phase is Phase.MEASURING:
            return OffsetsRequest(node, {key: each.offset_question() for key, each in asking.items()})
        return FetchRequest(
            node,
            {key: each.fetch() for key, each in asking.items()},
            settings.fetch_wait_max_ms,
            settings.fetch_min_bytes,
            settings.fetch_response_bytes,
            self._context.broker_epoch,
        )


_ORDER = Phase.ASKING, Phase.MEASURING, Phase.FETCHING
