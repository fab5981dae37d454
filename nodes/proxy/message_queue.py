"""One direction of one connection: a queue in which nothing overtakes what went before.

What may live here: the queue and what its head waits for. What may not: sockets, Kafka's protocol, rules.

Frames that need not wait are written at once. Time and waking are given: now_s() tells seconds, call_at(time_s,
callback) calls back then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

Write = Callable[[bytes], None]
CallAt = Callable[[float, Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class Timers:
    """The clock and the waking of an event loop, or of a test."""

    now_s: Callable[[], float]
    call_at: CallAt


@dataclass(slots=True)
class _Waiting:
    """A frame in the queue, None for the connection's end; it waits for its rule to go, and for its time."""

    frame: bytes | None
    held_by: str | None = None
    is_lost_with_rule: bool = False
    due_s: float = 0.0


class MessageQueue:
    """Frames in, frames out, in order."""

    def __init__(self, timers: Timers, write: Write, close: Callable[[], None]) -> None:
        self._clockwork, self._write, self._close = timers, write, close
        self._waiting: deque[_Waiting] = deque()
        self._lost_by: str | None = None  # the rule that lost a frame; what comes after it is lost as well

    @property
    def has_lost(self) -> bool:
        """Whether a frame was lost here: all that comes after it is lost too."""
        return self._lost_by is not None

    @property
    def is_waiting(self) -> bool:
        """Whether anything is yet to leave."""
        return bool(self._waiting)

    def holding(self) -> Counter[str]:
        """How many frames each rule holds."""
        return Counter(item.held_by for item in self._waiting if item.held_by is not None)

    def send(self, frame: bytes) -> None:
        """Pass a frame on, in its turn."""
        if not self._waiting and not self.has_lost:
            self._write(frame)
        else:
            self._put(_Waiting(frame))

    def hold(self, frame: bytes, rule: str, loses: bool) -> None:
        """Pass a frame on when the rule has gone, or lose it then."""
        self._put(_Waiting(frame, held_by=rule, is_lost_with_rule=loses))

    def delay(self, frame: bytes, delay_ms: int) -> None:
        """Pass a frame on no earlier than so much later."""
        self._put(_Waiting(frame, due_s=self._clockwork.now_s() + delay_ms / 1000))

    def lose(self, rule: str) -> None:
        """A frame is lost, and with it whatever comes after."""
        self._lost_by = self._lost_by or rule

    def end(self) -> None:
        """The sender has closed: the receiver learns it in its turn, even from a queue that loses everything."""
        self._waiting.append(_Waiting(None))
        self._flush()

    def is_broken_without(self, kept: frozenset[str]) -> bool:
        """Whether the queue has lost something by a rule that goes now, or is to lose what that rule holds."""
        losers = {item.held_by for item in self._waiting if item.is_lost_with_rule} | {self._lost_by}
        return not losers <= kept | {None}

    def release_all_but(self, kept: frozenset[str]) -> None:
        """Only these rules still hold what they hold."""
        for item in self._waiting:
            if item.held_by not in kept:
                item.held_by = None
        self._flush()

    def _put(self, item: _Waiting) -> None:
        if not self.has_lost:
            self._waiting.append(item)
            self._flush()

    def _flush(self) -> None:
        while self._waiting and self._waiting[0].held_by is None:
            head = self._waiting[0]
            if head.due_s > self._clockwork.now_s():
                self._clockwork.call_at(head.due_s, self._flush)
                return
            self._waiting.popleft()
            if head.frame is None:
                self._close()
            else:
                self._write(head.frame)
