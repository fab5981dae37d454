"""How rules act on the messages of one connection; the order of messages never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from harness.model import PeerFailure
from harness.model.faults.rpc import (
    CLOSE,
    DROP,
    DUPLICATE,
    HOLD,
    HOLD_AND_LOSE,
    Api,
    RpcAction,
    RpcMatch,
    RpcRow,
    RpcRule,
    answer,
    delay,
)
from nodes.proxy.channel import Channel, ChannelContext
from nodes.proxy.exchange import error_response, open_exchange
from nodes.proxy.message_queue import Timers
from nodes.proxy.rules import RuleBook
from nodes.wire import codec

NOT_CONTROLLER = 41


def request(correlation_id: int) -> bytes:
    """A DescribeQuorum request, which the rules in these tests match."""
    return codec.encode_request(codec.build(codec.DESCRIBE_QUORUM, 2, "request", {"topics": []}), correlation_id, "n1")


def response(correlation_id: int) -> bytes:
    return (8).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + b"body"


def error_answer(correlation_id: int) -> bytes:
    return error_response(open_exchange(request(correlation_id), (1, 2)), NOT_CONTROLLER)


class RecordingEnd:
    """An end of the connection that records what it receives; None stands for the close."""

    def __init__(self) -> None:
        self.received: list[bytes | None] = []

    def write(self, frame: bytes) -> None:
        self.received.append(frame)

    def close(self) -> None:
        self.received.append(None)


@dataclass
class ChannelUnderTest:
    """A channel from node 1 to node 2 with rules and a simulated clock."""

    book: RuleBook = field(default_factory=lambda: RuleBook(seed=1))
    client: RecordingEnd = field(default_factory=RecordingEnd)
    server: RecordingEnd = field(default_factory=RecordingEnd)
    rows: list[RpcRow] = field(default_factory=list)
    aborted: list[bool] = field(default_factory=list)
    time_s: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        timers = Timers(lambda: self.time_s, lambda at_s, callback: self.timers.append((at_s, callback)))
        shared = ChannelContext(self.book, timers, lambda: int(self.time_s * 1e9), self.rows.append)
        self.inner = Channel((1, 2), shared, self.client, self.server, lambda: self.aborted.append(True))

    def request(self, *correlation_ids: int) -> None:
        for correlation_id in correlation_ids:
            self.inner.from_client(request(correlation_id))

    def respond(self, *correlation_ids: int) -> None:
        for correlation_id in correlation_ids:
            self.inner.from_server(response(correlation_id))

    def pass_time(self, seconds: float) -> None:
        self.time_s += seconds
        due = [callback for at_s, callback in self.timers if at_s <= self.time_s]
        self.timers = [timer for timer in self.timers if timer[0] > self.time_s]
        for callback in due:
            callback()

    def remove_rules(self) -> None:
        self.inner.keep_only(self.book.replace([]))

    @property
    def actions(self) -> list[tuple[str, int, str]]:
        return [(row.direction, row.correlation_id, row.action) for row in self.rows]


def with_rule(action: RpcAction, **match: object) -> ChannelUnderTest:
    """A channel with one rule."""
    channel = ChannelUnderTest()
    channel.book.replace([RpcRule("rule", RpcMatch((Api.DESCRIBE_QUORUM,), **match), action)])  # type: ignore[arg-type]
    return channel


def test_without_rules_all_messages_pass_unchanged() -> None:
    channel = ChannelUnderTest()
    channel.request(1, 2)
    channel.respond(1, 2)
    channel.inner.client_closed()
    assert channel.server.received == [request(1), request(2), None]
    assert channel.client.received == [response(1), response(2)]
    assert channel.actions == [
        ("request", 1, "pass"),
        ("request", 2, "pass"),
        ("response", 1, "pass"),
        ("response", 2, "pass"),
    ]
    assert [(row.source, row.target) for row in channel.rows[1:3]] == [(1, 2), (2, 1)]


def test_a_held_response_holds_back_later_ones_until_its_rule_is_removed() -> None:
    channel = with_rule(HOLD, direction="response", nth=2)
    channel.request(1, 2, 3)
    channel.respond(1, 2, 3)
    assert channel.client.received == [response(1)]
    assert channel.inner.holding() == {"rule": 1}
    channel.remove_rules()
    assert channel.client.received == [response(1), response(2), response(3)]
    assert channel.inner.holding() == {}


def test_a_held_request_holds_back_later_ones_but_no_response() -> None:
    channel = with_rule(HOLD, nth=2)
    channel.request(1, 2, 3)
    channel.respond(1)
    assert (channel.server.received, channel.client.received) == ([request(1)], [response(1)])
    channel.remove_rules()
    assert channel.server.received == [request(1), request(2), request(3)]


def test_a_rule_that_loses_held_messages_closes_their_connection() -> None:
    channel = with_rule(HOLD_AND_LOSE, nth=1)
    channel.request(1, 2)
    channel.remove_rules()
    assert (channel.server.received, channel.aborted) == ([], [True])


def test_a_connection_without_held_messages_stays_open_when_held_ones_are_lost() -> None:
    channel = with_rule(HOLD_AND_LOSE, nth=2)
    channel.request(1)
    channel.remove_rules()
    assert channel.aborted == []


def test_a_delayed_message_delays_later_ones_until_it_is_due() -> None:
    channel = with_rule(delay(50), nth=1)
    channel.request(1, 2)
    channel.pass_time(0.049)
    assert channel.server.received == []
    channel.pass_time(0.001)
    assert channel.server.received == [request(1), request(2)]


def test_a_message_keeps_its_delay_when_its_rule_is_removed() -> None:
    channel = with_rule(delay(50))
    channel.request(1)
    channel.remove_rules()
    assert channel.server.received == []
    channel.pass_time(0.05)
    assert channel.server.received == [request(1)]


def test_requests_after_a_dropped_one_are_lost_and_earlier_ones_are_answered() -> None:
    channel = with_rule(DROP, nth=2)
    channel.request(1, 2, 3)
    channel.respond(1)
    assert (channel.server.received, channel.client.received) == ([request(1)], [response(1)])
    assert channel.actions[1:3] == [("request", 2, "drop"), ("request", 3, "lost")]
    assert channel.book.counts({})["rule"].matched == 2, "no rule applies to lost messages"


def test_responses_after_a_dropped_one_are_lost_while_requests_still_arrive() -> None:
    channel = with_rule(DROP, direction="response", nth=1)
    channel.request(1, 2)
    channel.respond(1, 2)
    channel.request(3)
    assert (channel.server.received, channel.client.received) == ([request(1), request(2), request(3)], [])


def test_a_connection_that_lost_a_message_is_closed_when_the_rule_is_removed() -> None:
    channel = with_rule(DROP, nth=1)
    channel.request(1)
    assert channel.aborted == []
    channel.remove_rules()
    assert channel.aborted == [True]


def test_the_server_sees_the_client_close_even_if_requests_were_dropped() -> None:
    channel = with_rule(DROP)
    channel.request(1)
    channel.inner.client_closed()
    assert channel.server.received == [None]


def test_a_duplicated_request_arrives_twice_and_is_answered_once() -> None:
    channel = with_rule(DUPLICATE, nth=1)
    channel.request(1, 2)
    channel.respond(1, 1, 2)
    assert b"".join(frame or b"" for frame in channel.server.received) == request(1) * 2 + request(2)
    assert channel.client.received == [response(1), response(2)]
    assert ("response", 1, "swallow") in channel.actions


def test_an_error_answer_is_sent_in_order_and_its_request_is_not_forwarded() -> None:
    channel = with_rule(answer(NOT_CONTROLLER), nth=2)
    channel.request(1, 2, 3)
    assert (channel.server.received, channel.client.received) == ([request(1), request(3)], [])
    channel.respond(1, 3)
    assert channel.client.received == [response(1), error_answer(2), response(3)]


def test_an_error_answer_is_sent_immediately_if_no_other_request_is_open() -> None:
    channel = with_rule(answer(NOT_CONTROLLER))
    channel.request(1)
    [frame] = channel.client.received
    assert frame is not None
    entity = codec.message_type(codec.DESCRIBE_QUORUM, 2, "response")
    correlation_id, decoded = codec.decode_response(entity, frame[4:])
    assert (correlation_id, decoded.error_code.value) == (1, NOT_CONTROLLER)


@pytest.mark.parametrize(
    ("direction", "received"), [("request", ([], [])), ("response", ([request(1)], []))], ids=["request", "response"]
)
def test_closing_a_connection_loses_the_message(direction: str, received: tuple[list[bytes], list[bytes]]) -> None:
    channel = with_rule(CLOSE, direction=direction)
    channel.request(1)
    if direction == "response":
        channel.respond(1)
    assert (channel.server.received, channel.client.received) == received
    assert channel.aborted == [True]


def test_a_held_request_of_a_closed_client_is_delivered_and_answered_before_the_server_is_closed() -> None:
    channel = with_rule(HOLD, nth=1)
    channel.request(1)
    channel.inner.client_closed()
    assert channel.server.received == []
    channel.remove_rules()
    assert channel.server.received == [request(1)]
    channel.respond(1)
    assert channel.server.received == [request(1), None]


def test_the_close_of_the_server_follows_its_held_responses() -> None:
    channel = with_rule(HOLD, direction="response")
    channel.request(1)
    channel.respond(1)
    channel.inner.server_closed()
    assert channel.client.received == []
    channel.remove_rules()
    assert channel.client.received == [response(1), None]


def test_an_error_answer_does_not_wait_for_a_produce_without_acks() -> None:
    channel = with_rule(answer(NOT_CONTROLLER))
    values = {"transactional_id": None, "acks": 0, "timeout": 0, "topic_data": []}
    unacknowledged = codec.encode_request(codec.build(Api.PRODUCE, 9, "request", values), 1, "client")
    channel.inner.from_client(unacknowledged)
    channel.request(2)
    assert (channel.server.received, channel.client.received) == ([unacknowledged], [error_answer(2)])


def test_an_unmatched_response_passes_and_other_protocols_are_rejected() -> None:
    channel = ChannelUnderTest()
    channel.respond(9)
    assert channel.client.received == [response(9)]
    with pytest.raises(PeerFailure):
        channel.inner.from_client(b"GET / HTTP/1.1\r\n\r\n")
