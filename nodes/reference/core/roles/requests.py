"""Requests to peers that are under way: at most one a peer, given up after the request timeout, retried after a pause.

What may live here: bookkeeping. What to ask of whom is the node's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodes.reference.core.context import Context
from nodes.reference.core.events import RequestId, Send
from nodes.reference.core.messages import Request
from nodes.reference.core.settings import NEVER_MS


class Requests:
    """Kafka's RequestManager, in small."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._under_way: dict[int, tuple[RequestId, int]] = {}  # by peer: the request and when it is given up
        self._ready_ms: dict[int, int] = {}  # by peer: not before this moment again
        self._last_id = 0

    def is_ready(self, peer: int) -> bool:
        """Whether a request may be sent now."""
        return peer not in self._under_way and self._ready_ms.get(peer, 0) <= self._context.now_ms

    def ready_among(self, peers: Sequence[int]) -> int | None:
        """A ready peer, chosen at random; None while a request to any of them is under way, or where none is ready."""
        if any(peer in self._under_way for peer in peers):
            return None
        ready = [peer for peer in peers if self.is_ready(peer)]
        return ready[self._context.draw(0, len(ready))] if ready else None

    def send(self, peer: int, request: Request) -> None:
        """Send it; its answer or failure is told to `ended`."""
        self._last_id += 1
        self._under_way[peer] = (self._last_id, self._context.now_ms + self._settings.request_timeout_ms)
        self._context.emit(Send(peer, self._last_id, request))

    def ended(self, peer: int, request_id: RequestId, retry_later: bool) -> bool:
        """A response or failure came: whether it belongs to a request that still matters."""
        if self._under_way.get(peer, (None, 0))[0] != request_id:
            return False
        del self._under_way[peer]
        if retry_later:
            self.pause(peer)
        return True

    def pause(self, peer: int) -> None:
        """Leave the peer alone for the retry back-off."""
        self._ready_ms[peer] = self._context.now_ms + self._settings.retry_backoff_ms

    def forget(self) -> None:
        """After a transition: what was asked in the old state matters no more."""
        self._under_way.clear()
        self._ready_ms.clear()

    def expire(self) -> None:
        """Give up what took too long."""
        for peer, (_, deadline_ms) in list(self._under_way.items()):
            if deadline_ms <= self._context.now_ms:
                del self._under_way[peer]
                self.pause(peer)

    @property
    def deadline_ms(self) -> int:
        """When a request is given up, or a pause ends."""
        pauses = (moment for moment in self._ready_ms.values() if moment > self._context.now_ms)
        return min((*(deadline_ms for _, deadline_ms in self._under_way.values()), *pauses), default=NEVER_MS)
