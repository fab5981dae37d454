"""One connection of a node to another, as the proxy treats it: frames in, rules applied, frames out.

What may live here: pairing, rules, queues. What may not: sockets and clocks; both sides are callbacks.

The package's docstring says what each action means for the order of things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.model.faults.rpc import Direction, RpcRow, RpcRule
from harness.model.hosts import Link
from nodes.proxy.exchange import (
    RAFT_APIS,
    Exchange,
    Facts,
    error_response,
    expects_response,
    open_exchange,
    response_facts,
)
from nodes.proxy.frames import FrameSplitter, response_correlation_id
from nodes.proxy.message_queue import MessageQueue, Timers
from nodes.proxy.rules import RuleBook

Tell = Callable[[RpcRow], None]
_NOTHING = Facts()


class Side(Protocol):
    """One end of a connection, to write to and to close; both are harmless once it is closed."""

    def write(self, frame: bytes) -> None:
        """Send."""

    def close(self) -> None:
        """Close when all is sent."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of a proxy share. tell takes a row for each message, None where nothing is recorded."""

    book: RuleBook
    timers: Timers
    now_ns: Callable[[], int]
    tell: Tell | None = None


class Channel:
    """Requests one way, responses the other, each in a queue of its own.

    Both sides are open when it begins. What comes from either side may raise PeerFailure where it is not Kafka's
    protocol; the connection is then to be aborted, as when a rule asks for it: abort() is called.
    """

    def __init__(self, link: Link, shared: Surroundings, client: Side, server: Side, abort: Callable[[], None]) -> None:
        self._link, self._shared, self._abort = link, shared, abort
        self._close_server = server.close
        self._requests = MessageQueue(shared.timers, server.write, self._end_requests)
        self._responses = MessageQueue(shared.timers, client.write, client.close)
        self._from_client, self._from_server = FrameSplitter(), FrameSplitter()
        self._open: dict[int, Exchange] = {}  # requests without their response, in the order they came
        self._ends_when_answered = False

    def from_client(self, data: bytes) -> None:
        """Bytes of the one who asks."""
        for frame in self._from_client.feed(data):
            self._take_request(frame)

    def from_server(self, data: bytes) -> None:
        """Bytes of the one who answers."""
        for frame in self._from_server.feed(data):
            self._take_response(frame)

    def client_has_left(self) -> None:
        """The client has closed: no more requests, and nobody to hear responses."""
        self._ends_when_answered = self._requests.is_waiting
        self._requests.end()

    def server_has_left(self) -> None:
        """The server has closed: no more responses."""
        self._responses.end()

    def holding(self) -> Counter[str]:
        """How many messages each rule holds on this connection."""
        return self._requests.holding() + self._responses.holding()

    def keep_only(self, kept: frozenset[str]) -> None:
        """All rules but these have gone: what they held travels on; a connection on which they lost it is closed."""
        if any(queue.is_broken_without(kept) for queue in (self._requests, self._responses)):
            self._abort()
            return
        self._requests.release_all_but(kept)
        self._responses.release_all_but(kept)

    def _take_request(self, frame: bytes) -> None:
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
            self._give_answers()
        elif action == "duplicate":
            exchange.responses_due = 2
            self._requests.send(frame + frame)
        else:
            self._treat(self._requests, frame, rule)

    def _take_response(self, frame: bytes) -> None:
        exchange = self._open.get(response_correlation_id(frame))
        if exchange is None:
            self._responses.send(frame)  # to a request that no version of the protocol has answered: not ours to judge
            return
        exchange.responses_due -= 1
        if exchange.responses_due == 0:
            del self._open[exchange.head.correlation_id]
        if exchange.is_answered:
            self._record(exchange, "response", len(frame), "swallow", frame)
        else:
            exchange.is_answered = True
            self._pass_response(exchange, frame)
        self._give_answers()
        if self._ends_when_answered and not self._open and not self._requests.is_waiting:
            self._close_server()

    def _pass_response(self, exchange: Exchange, frame: bytes) -> None:
        if self._responses.has_lost:
            self._record(exchange, "response", len(frame), "lost", frame)
            return
        rule = self._shared.book.decide(exchange, "response")
        self._record(exchange, "response", len(frame), rule.action.do if rule else "pass", frame)
        if rule is None:
            self._responses.send(frame)
        else:
            self._treat(self._responses, frame, rule)

    def _treat(self, queue: MessageQueue, frame: bytes, rule: RpcRule) -> None:
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
                raise AssertionError(f"{other} is none of a queue's actions")

    def _give_answers(self) -> None:
        """Send the answers that we made and whose turn it is: nothing asked before is still open."""
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.answer is None:
                return
            del self._open[oldest.head.correlation_id]
            self._record(oldest, "response", len(oldest.answer), "answer")
            self._responses.send(oldest.answer)

    def _end_requests(self) -> None:
        """All requests have left, and the client too; one that left late is still answered, or it would be unread."""
        if not (self._ends_when_answered and self._open):
            self._close_server()

    def _record(
        self, exchange: Exchange, direction: Direction, size_bytes: int, action: str, response: bytes | None = None
    ) -> None:
        if self._shared.tell is None:
            return
        head, (source, target) = exchange.head, exchange.ends(direction)
        is_raft = head.api_key in RAFT_APIS
        facts = exchange.facts if is_raft else _NOTHING
        said = response_facts(exchange, response) if response else _NOTHING
        epoch = facts.epoch if direction == "request" else said.epoch
        self._shared.tell(
            RpcRow(
                *(self._shared.now_ns(), source, target, head.api_key, head.api_version, head.correlation_id),
                *(direction, size_bytes, facts.pre_vote, epoch, said.granted, action),
            )
        )
