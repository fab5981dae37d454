"""Pending requests: at most one per peer, abandoned after the request timeout, retried after a back-off.

Contains bookkeeping only; the node decides what to send.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodes.reference.core.context import Context
from nodes.reference.core.events import RequestId, Send
from nodes.reference.core.messages import Request
from nodes.reference.core.settings import NEVER_MS


class Requests:
    """A small version of Kafka's RequestManager."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._pending: dict[int, tuple[RequestId, int]] = {}  # by peer: the request and its deadline
        self._ready_ms: dict[int, int] = {}  # by peer: the end of the back-off
        self._abandoned: set[int] = set()  # peers with a request whose response is ignored
        self._last_id = 0

    def is_ready(self, peer: int) -> bool:
        """Whether a request may be sent now."""
        return peer not in self._pending and self._ready_ms.get(peer, 0) <= self._context.now_ms

    def ready_among(self, peers: Sequence[int]) -> int | None:
        """A random ready peer; None if none is ready or a request to any of them is pending."""
        if any(peer in self._pending for peer in peers):
            return None
        ready = [peer for peer in peers if self.is_ready(peer)]
        return ready[self._context.draw(0, len(ready))] if ready else None

    def send(self, peer: int, request: Request) -> None:
        """Send a request. The caller passes its response or failure to `ended`."""
        self._last_id += 1
        self._pending[peer] = (self._last_id, self._context.now_ms + self._settings.request_timeout_ms)
        self._context.emit(Send(peer, self._last_id, request, peer in self._abandoned))
        self._abandoned.discard(peer)

    def ended(self, peer: int, request_id: RequestId, retry_later: bool) -> bool:
        """Record a response or failure; returns whether it belongs to the pending request."""
        if self._pending.get(peer, (None, 0))[0] != request_id:
            return False
        del self._pending[peer]
        if retry_later:
            self.back_off(peer)
        return True

    def back_off(self, peer: int) -> None:
        """Send nothing to the peer for the retry back-off."""
        self._ready_ms[peer] = self._context.now_ms + self._settings.retry_backoff_ms

    def clear(self) -> None:
        """Abandon all requests, after a transition."""
        self._abandoned.update(self._pending)
        self._pending.clear()
        self._ready_ms.clear()

    def expire(self) -> None:
        """Abandon the requests whose timeout has expired."""
        now_ms = self._context.now_ms
        for peer in [peer for peer, (_, deadline_ms) in self._pending.items() if deadline_ms <= now_ms]:
            del self._pending[peer]
            self._abandoned.add(peer)
            self.back_off(peer)

    @property
    def deadline_ms(self) -> int:
        """When the next request times out or the next back-off ends."""
        now_ms, due_ms = self._context.now_ms, NEVER_MS
        for _, deadline_ms in self._pending.values():
            due_ms = min(due_ms, deadline_ms)
        for ready_ms in self._ready_ms.values():
            if now_ms < ready_ms < due_ms:
                due_ms = ready_ms
        return due_ms
