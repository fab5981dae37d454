"""One connection between two nodes: frames in, rules applied, frames out.

Matches responses to requests, applies rules and queues messages. Does not use sockets or clocks; both ends are
callbacks. The package's docstring describes each action and its effect on message order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.model.faults.rpc import Direction, RpcRow, RpcRule
from harness.model.hosts import Link
from nodes.proxy.exchange import (
    NO_FACTS,
    RAFT_APIS,
    Exchange,
    error_response,
    expects_response,
    open_exchange,
    response_facts,
)
from nodes.proxy.frames import FrameSplitter, response_correlation_id
from nodes.proxy.message_queue import MessageQueue, Timers
from nodes.proxy.rules import RuleBook


class ConnectionEnd(Protocol):
    """One end of a connection; both methods do nothing once it is closed."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""

    def close(self) -> None:
        """Close once everything is sent."""


@dataclass(frozen=True, slots=True)
class ChannelContext:
    """What all connections of a proxy share. record receives a row for each message; None records nothing."""

    book: RuleBook
    timers: Timers
    now_ns: Callable[[], int]
    record: Callable[[RpcRow], None] | None = None


class Channel:
    """Requests in one direction and responses in the other, each in its own queue.

    Both ends are open from the start. from_client and from_server raise PeerFailure for data that is not Kafka's
    protocol; the caller then aborts the connection. A rule with action close calls abort().
    """

    def __init__(
        self,
        link: Link,
        shared: ChannelContext,
        client: ConnectionEnd,
        server: ConnectionEnd,
        abort: Callable[[], None],
    ) -> None:
        self._link, self._shared, self._abort = link, shared, abort
        self._close_server = server.close
        self._requests = MessageQueue(shared.timers, server.write, self._end_requests)
        self._responses = MessageQueue(shared.timers, client.write, client.close)
        self._from_client, self._from_server = FrameSplitter(), FrameSplitter()
        self._open: dict[int, Exchange] = {}  # requests without a response, in order of arrival
        self._closes_when_answered = False

    def from_client(self, data: bytes) -> None:
        """Bytes from the client."""
        for frame in self._from_client.feed(data):
            self._on_request(frame)

    def from_server(self, data: bytes) -> None:
        """Bytes from the server."""
        for frame in self._from_server.feed(data):
            self._on_response(frame)

    def client_closed(self) -> None:
        """The client has closed: there are no more requests, and nothing reads the responses."""
        self._closes_when_answered = self._requests.is_waiting
        self._requests.end()

    def server_closed(self) -> None:
        """The server has closed: there are no more responses."""
        self._responses.end()

    def holding(self) -> Counter[str]:
        """The number of messages that each rule holds on this connection."""
        return self._requests.holding() + self._responses.holding()

    def keep_only(self, kept: frozenset[str]) -> None:
        """Release messages held by other rules than these; abort the connection if such a rule lost a message."""
        if any(queue.is_broken_without(kept) for queue in (self._requests, self._responses)):
            self._abort()
            return
        self._requests.release_all_but(kept)
        self._responses.release_all_but(kept)

    def _on_request(self, frame: bytes) -> None:
        exchange = open_exchange(frame, self._link)
        if self._requests.has_lost:
            self._record(exchange, "request", len(frame), "lost")
            return
        rule = self._shared.book.decide(exchange, "request")
        action = rule.action.do if rule else "pass"
        self._record(exchange, "request", len(frame), action)
        if action not in ("drop", "close") and (action == "answer" or expects_response(exchange)):
            self._open[exchange.head.correlation_id] = exchange
        if rule is None:
            self._requests.send(frame)
        elif action == "answer":
            exchange.answer = error_response(exchange, rule.action.error_code)
            self._send_answers()
        elif action == "duplicate":
            exchange.responses_due = 2
            self._requests.send(frame + frame)
        else:
            self._apply(self._requests, frame, rule)

    def _on_response(self, frame: bytes) -> None:
        exchange = self._open.get(response_correlation_id(frame))
        if exchange is None:
            self._responses.send(frame)  # it matches no open request; the client decides what to do with it
            return
        exchange.responses_due -= 1
        if exchange.responses_due == 0:
            del self._open[exchange.head.correlation_id]
        if exchange.is_answered:
            self._record(exchange, "response", len(frame), "swallow", frame)
        else:
            exchange.is_answered = True
            self._forward_response(exchange, frame)
        self._send_answers()
        if self._closes_when_answered and not self._open and not self._requests.is_waiting:
            self._close_server()

    def _forward_response(self, exchange: Exchange, frame: bytes) -> None:
        if self._responses.has_lost:
            self._record(exchange, "response", len(frame), "lost", frame)
            return
        rule = self._shared.book.decide(exchange, "response")
        self._record(exchange, "response", len(frame), rule.action.do if rule else "pass", frame)
        if rule is None:
            self._responses.send(frame)
        else:
            self._apply(self._responses, frame, rule)

    def _apply(self, queue: MessageQueue, frame: bytes, rule: RpcRule) -> None:
        match rule.action.do:
            case "hold":
                queue.hold(frame, rule.name, rule.action.loses)
            case "delay":
                queue.delay(frame, rule.action.delay_ms)
            case "drop":
                queue.lose(rule.name)
            case "close":
                self._abort()
            case other:
                raise AssertionError(f"{other} is not an action on a queue")

    def _send_answers(self) -> None:
        """Send our own answers to the oldest open requests, up to the first that waits for the server."""
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.answer is None:
                return
            del self._open[oldest.head.correlation_id]
            self._record(oldest, "response", len(oldest.answer), "answer")
            self._responses.send(oldest.answer)

    def _end_requests(self) -> None:
        """The client has closed and all requests are sent; keep the server's end open until the last is answered."""
        if not (self._closes_when_answered and self._open):
            self._close_server()

    def _record(
        self, exchange: Exchange, direction: Direction, size_bytes: int, action: str, response: bytes | None = None
    ) -> None:
        if self._shared.record is None:
            return
        head, (source, target) = exchange.head, exchange.ends(direction)
        is_raft = head.api_key in RAFT_APIS
        in_request = exchange.facts if is_raft else NO_FACTS
        in_response = response_facts(exchange, response) if response else NO_FACTS
        own = in_request if direction == "request" else in_response
        self._shared.record(
            RpcRow(
                *(self._shared.now_ns(), source, target, head.api_key, head.api_version, head.correlation_id),
                *(direction, size_bytes, in_request.pre_vote, own.epoch, in_response.granted, action),
                *(own.fetch_offset, own.high_watermark),
            )
        )
