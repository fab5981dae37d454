"""What groups share within one coordinator: the time, the settings, and the effects of the event at hand."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups.events import Append, Effect, Note, Reply, RequestId
from nodes.reference.core.groups.messages import Response
from nodes.reference.core.groups.settings import GroupSettings
from nodes.wire.batches import Record

NEVER_MS = 1 << 62

Then = Callable[[ErrorCode], None]
"""What follows when records are committed, or could not be."""


class Context:
    """The time of the event, and what follows from it. new_id returns a text that no other call returns."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str], now_ms: int) -> None:
        self.settings, self.new_id, self.now_ms = settings, new_id, now_ms
        self._effects: list[Effect] = []
        self._appending: dict[int, Then] = {}
        self._last_append = 0

    def reply(self, request_id: RequestId, response: Response) -> None:
        """Respond to a request."""
        self._effects.append(Reply(request_id, response))

    def note(self, text: str) -> None:
        """Log a line."""
        self._effects.append(Note(text))

    def append(self, partition: int, records: tuple[Record, ...], then: Then) -> None:
        """Append records to a partition of the offsets' topic; `then` follows once they are committed or refused."""
        self._last_append += 1
        self._appending[self._last_append] = then
        self._effects.append(Append(self._last_append, partition, records))

    def appended(self, append_id: int, error: ErrorCode) -> None:
        """The outcome of an append, by Kafka's errors of the coordinator."""
        self._appending.pop(append_id)(_ERRORS.get(error, error))

    def take_effects(self) -> list[Effect]:
        """The effects since the last call."""
        effects, self._effects = self._effects, []
        return effects


_ERRORS = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}
"""What a client is told of an append's error."""
