"""One direction of one connection: a strictly ordered queue of frames.

Contains the queue and the conditions that its head waits for. Does not contain sockets, Kafka's protocol or rules.
Frames that do not have to wait are written immediately. The clock and the timers are arguments.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

Write = Callable[[bytes], None]
CallAt = Callable[[float, Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class Timers:
    """The clock and timers of an event loop or a test: now_s() in seconds, call_at(time_s, callback)."""

    now_s: Callable[[], float]
    call_at: CallAt


@dataclass(slots=True)
class _Waiting:
    """A frame in the queue, or None for the end of the connection. It waits until no rule holds it and it is due."""

    frame: bytes | None
    held_by: str | None = None
    is_lost_with_rule: bool = False
    due_s: float = 0.0


class MessageQueue:
    """Holds, delays or loses frames, and otherwise writes them in order."""

    def __init__(self, timers: Timers, write: Write, close: Callable[[], None]) -> None:
        self._timers, self._write, self._close = timers, write, close
        self._waiting: deque[_Waiting] = deque()
        self._lost_by: str | None = None  # the rule that lost a frame; later frames are lost as well

    @property
    def has_lost(self) -> bool:
        """Whether a frame was lost; later frames are then lost too."""
        return self._lost_by is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the queue is not empty."""
        return bool(self._waiting)

    def holding(self) -> Counter[str]:
        """The number of frames that each rule holds."""
        return Counter(item.held_by for item in self._waiting if item.held_by is not None)

    def send(self, frame: bytes) -> None:
        """Send a frame after those before it."""
        if not self._waiting and not self.has_lost:
            self._write(frame)
        else:
            self._put(_Waiting(frame))

    def hold(self, frame: bytes, rule: str, loses: bool) -> None:
        """Hold a frame until the rule is removed, then send it or, if loses, lose it."""
        self._put(_Waiting(frame, held_by=rule, is_lost_with_rule=loses))

    def delay(self, frame: bytes, delay_ms: int) -> None:
        """Send a frame no earlier than delay_ms from now."""
        self._put(_Waiting(frame, due_s=self._timers.now_s() + delay_ms / 1000))

    def lose(self, rule: str) -> None:
        """Lose a frame and all later ones."""
        self._lost_by = self._lost_by or rule

    def end(self) -> None:
        """The sender has closed: close the receiver's end after the remaining frames, even if frames were lost."""
        self._waiting.append(_Waiting(None))
        self._flush()

    def is_broken_without(self, kept: frozenset[str]) -> bool:
        """Whether a rule other than those kept has lost a frame or will lose the frames that it holds."""
        losers = {item.held_by for item in self._waiting if item.is_lost_with_rule} | {self._lost_by}
        return not losers <= kept | {None}

    def release_all_but(self, kept: frozenset[str]) -> None:
        """Release the frames that rules other than these hold."""
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
            if head.due_s > self._timers.now_s():
                self._timers.call_at(head.due_s, self._flush)
                return
            self._waiting.popleft()
            if head.frame is None:
                self._close()
            else:
                self._write(head.frame)
