"""The active controller on the quorum's leader: its decisions become records, and its responses wait for their commit.

It exists once the leader has committed a record of its epoch: then the log has everything that an earlier controller
decided. A response that depends on records which are not committed waits for them, even if it needs none of its own.

Contains the way between the controller and the log. What is decided is in nodes/reference/core/controller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes.reference.core.context import Context
from nodes.reference.core.controller.controller import Controller, Decision
from nodes.reference.core.controller.messages import ControllerRequest, ControllerResponse, NotController
from nodes.reference.core.events import AskLogs, LogsReported, Reply, RequestId
from nodes.reference.core.records.metadata import encode
from nodes.reference.core.settings import NEVER_MS
from nodes.wire.batches import Record

Append = Callable[[Sequence[Record]], None]


@dataclass(frozen=True, slots=True)
class _Undecided:
    """A response that is sent once the high watermark reaches end_offset."""

    request_id: RequestId
    response: ControllerResponse
    end_offset: int


class Controlling:
    """The active controller of one term; without a controller's settings there is none."""

    def __init__(self, context: Context, append: Append) -> None:
        self._context, self._append = context, append
        self._controller: Controller | None = None
        self._waiting: deque[_Undecided] = deque()

    @property
    def deadline_ms(self) -> int:
        """When expire is due."""
        return NEVER_MS if self._controller is None else self._controller.deadline_ms

    def begin(self) -> None:
        """The leader has committed a record of its epoch."""
        context, settings = self._context, self._context.settings.controller
        if settings is not None:
            image = context.metadata.image_at_end(context.log)
            self._controller = Controller(image, settings, context.draw, context.now_ms)

    def handle(self, request_id: RequestId, request: ControllerRequest) -> None:
        """Handle a request; the response follows when what it depends on is committed, or when leadership ends."""
        context = self._context
        if self._controller is None:
            context.emit(Reply(request_id, NotController()))
            return
        decision = self._controller.handle(request, context.log.end_offset, context.now_ms)
        self._write(decision)
        assert decision.response is not None, "a request has a response"
        self._waiting.append(_Undecided(request_id, decision.response, context.log.end_offset))

    def expire(self) -> None:
        """Do what is due at this time."""
        if self._controller is not None and self._context.now_ms >= self._controller.deadline_ms:
            self._write(self._controller.expire(self._context.log.end_offset, self._context.now_ms))

    def reported(self, reported: LogsReported) -> None:
        """A broker has answered a question of the controller's, perhaps of an earlier term."""
        if self._controller is not None:
            end, now_ms = self._context.log.end_offset, self._context.now_ms
            self._write(self._controller.reported(reported.question, reported.ends, end, now_ms))

    def committed(self, high_watermark: int) -> None:
        """Send the responses whose records are committed."""
        while self._waiting and self._waiting[0].end_offset <= high_watermark:
            done = self._waiting.popleft()
            self._context.emit(Reply(done.request_id, done.response))

    def end(self) -> None:
        """Leadership ends: whether what is not committed will be is unknown."""
        for undecided in self._waiting:
            self._context.emit(Reply(undecided.request_id, NotController()))
        self._waiting.clear()
        self._controller = None

    def _write(self, decision: Decision) -> None:
        if decision.records:
            self._append([encode(record) for record in decision.records])
        for question in decision.questions:
            self._context.emit(AskLogs(question))
