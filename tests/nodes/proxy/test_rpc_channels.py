"""What becomes of the messages of one connection: order above all, whatever the rules do."""

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
from nodes.proxy.channel import Channel, Surroundings
from nodes.proxy.exchange import error_response, open_exchange
from nodes.proxy.message_queue import Timers
from nodes.proxy.rules import RuleBook
from nodes.wire import codec

NOT_CONTROLLER = 41


def request(correlation_id: int) -> bytes:
    """A DescribeQuorum; its rules below match every one of them."""
    return codec.encode_request(codec.build(codec.DESCRIBE_QUORUM, 2, "request", {"topics": []}), correlation_id, "n1")


def response(correlation_id: int) -> bytes:
    return (8).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + b"body"


def refusal(correlation_id: int) -> bytes:
    return error_response(open_exchange(request(correlation_id), (1, 2)), NOT_CONTROLLER)


class End:
    """An end of the connection that remembers; what is None in `got` is the close."""

    def __init__(self) -> None:
        self.got: list[bytes | None] = []

    def write(self, frame: bytes) -> None:
        self.got.append(frame)

    def close(self) -> None:
        self.got.append(None)


@dataclass
class Play:
    """A channel from node 1 to node 2 under some rules, on a clock of its own."""

    book: RuleBook = field(default_factory=lambda: RuleBook(seed=1))
    client: End = field(default_factory=End)
    server: End = field(default_factory=End)
    rows: list[RpcRow] = field(default_factory=list)
    aborted: list[bool] = field(default_factory=list)
    time_s: float = 0.0
    wakings: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        timers = Timers(lambda: self.time_s, lambda at_s, callback: self.wakings.append((at_s, callback)))
        shared = Surroundings(self.book, timers, lambda: int(self.time_s * 1e9), self.rows.append)
        self.channel = Channel((1, 2), shared, self.client, self.server, lambda: self.aborted.append(True))

    def ask(self, *correlation_ids: int) -> None:
        for correlation_id in correlation_ids:
            self.channel.from_client(request(correlation_id))

    def reply(self, *correlation_ids: int) -> None:
        for correlation_id in correlation_ids:
            self.channel.from_server(response(correlation_id))

    def pass_time(self, seconds: float) -> None:
        self.time_s += seconds
        due = [callback for at_s, callback in self.wakings if at_s <= self.time_s]
        self.wakings = [waking for waking in self.wakings if waking[0] > self.time_s]
        for callback in due:
            callback()

    def end_rules(self) -> None:
        self.channel.keep_only(self.book.replace([]))

    @property
    def actions(self) -> list[tuple[str, int, str]]:
        return [(row.direction, row.correlation_id, row.action) for row in self.rows]


def under(action: RpcAction, **match: object) -> Play:
    """A channel under one rule."""
    play = Play()
    play.book.replace([RpcRule("rule", RpcMatch((Api.DESCRIBE_QUORUM,), **match), action)])  # type: ignore[arg-type]
    return play


def test_without_rules_everything_passes_as_it_came() -> None:
    play = Play()
    play.ask(1, 2)
    play.reply(1, 2)
    play.channel.client_has_left()
    assert play.server.got == [request(1), request(2), None]
    assert play.client.got == [response(1), response(2)]
    assert play.actions == [
        ("request", 1, "pass"),
        ("request", 2, "pass"),
        ("response", 1, "pass"),
        ("response", 2, "pass"),
    ]
    assert [(row.source, row.target) for row in play.rows[1:3]] == [(1, 2), (2, 1)]


def test_held_response_holds_back_those_behind_it_until_its_rule_goes() -> None:
    play = under(HOLD, direction="response", nth=2)
    play.ask(1, 2, 3)
    play.reply(1, 2, 3)
    assert play.client.got == [response(1)]
    assert play.channel.holding() == {"rule": 1}
    play.end_rules()
    assert play.client.got == [response(1), response(2), response(3)]
    assert play.channel.holding() == {}


def test_held_request_holds_back_those_behind_it_but_no_response() -> None:
    play = under(HOLD, nth=2)
    play.ask(1, 2, 3)
    play.reply(1)
    assert (play.server.got, play.client.got) == ([request(1)], [response(1)])
    play.end_rules()
    assert play.server.got == [request(1), request(2), request(3)]


def test_held_messages_are_lost_with_their_connection_when_asked() -> None:
    play = under(HOLD_AND_LOSE, nth=1)
    play.ask(1, 2)
    play.end_rules()
    assert (play.server.got, play.aborted) == ([], [True])


def test_connection_on_which_nothing_is_held_outlives_the_loss_of_the_held() -> None:
    play = under(HOLD_AND_LOSE, nth=2)
    play.ask(1)
    play.end_rules()
    assert play.aborted == []


def test_delayed_message_delays_those_behind_it_and_not_beyond_its_time() -> None:
    play = under(delay(50), nth=1)
    play.ask(1, 2)
    play.pass_time(0.049)
    assert play.server.got == []
    play.pass_time(0.001)
    assert play.server.got == [request(1), request(2)]


def test_message_keeps_its_delay_when_its_rule_goes() -> None:
    play = under(delay(50))
    play.ask(1)
    play.end_rules()
    assert play.server.got == []
    play.pass_time(0.05)
    assert play.server.got == [request(1)]


def test_dropped_request_takes_with_it_what_follows_and_earlier_ones_are_still_answered() -> None:
    play = under(DROP, nth=2)
    play.ask(1, 2, 3)
    play.reply(1)
    assert (play.server.got, play.client.got) == ([request(1)], [response(1)])
    assert play.actions[1:3] == [("request", 2, "drop"), ("request", 3, "lost")]
    assert play.book.counts({})["rule"].matched == 2, "what is lost meets no rule"


def test_dropped_response_takes_with_it_what_follows_while_requests_still_arrive() -> None:
    play = under(DROP, direction="response", nth=1)
    play.ask(1, 2)
    play.reply(1, 2)
    play.ask(3)
    assert (play.server.got, play.client.got) == ([request(1), request(2), request(3)], [])


def test_connection_that_lost_a_message_is_closed_when_the_rule_goes() -> None:
    play = under(DROP, nth=1)
    play.ask(1)
    assert play.aborted == []
    play.end_rules()
    assert play.aborted == [True]


def test_server_learns_that_the_client_left_even_where_requests_were_dropped() -> None:
    play = under(DROP)
    play.ask(1)
    play.channel.client_has_left()
    assert play.server.got == [None]


def test_duplicated_request_arrives_twice_and_is_answered_once() -> None:
    play = under(DUPLICATE, nth=1)
    play.ask(1, 2)
    play.reply(1, 1, 2)
    assert b"".join(frame or b"" for frame in play.server.got) == request(1) * 2 + request(2)
    assert play.client.got == [response(1), response(2)]
    assert ("response", 1, "swallow") in play.actions


def test_error_answer_waits_its_turn_and_the_server_never_sees_the_request() -> None:
    play = under(answer(NOT_CONTROLLER), nth=2)
    play.ask(1, 2, 3)
    assert (play.server.got, play.client.got) == ([request(1), request(3)], [])
    play.reply(1, 3)
    assert play.client.got == [response(1), refusal(2), response(3)]


def test_error_answer_comes_at_once_when_nothing_else_is_open() -> None:
    play = under(answer(NOT_CONTROLLER))
    play.ask(1)
    [frame] = play.client.got
    assert frame is not None
    entity = codec.message_type(codec.DESCRIBE_QUORUM, 2, "response")
    correlation_id, refused = codec.decode_response(entity, frame[4:])
    assert (correlation_id, refused.error_code.value) == (1, NOT_CONTROLLER)


@pytest.mark.parametrize(
    ("direction", "reached"), [("request", ([], [])), ("response", ([request(1)], []))], ids=["request", "response"]
)
def test_closing_a_connection_loses_the_message(direction: str, reached: tuple[list[bytes], list[bytes]]) -> None:
    play = under(CLOSE, direction=direction)
    play.ask(1)
    if direction == "response":
        play.reply(1)
    assert (play.server.got, play.client.got) == reached
    assert play.aborted == [True]


def test_held_request_of_a_client_that_left_is_delivered_and_answered_before_the_server_is_closed() -> None:
    play = under(HOLD, nth=1)
    play.ask(1)
    play.channel.client_has_left()
    assert play.server.got == []
    play.end_rules()
    assert play.server.got == [request(1)]
    play.reply(1)
    assert play.server.got == [request(1), None]


def test_server_that_leaves_does_so_behind_its_held_responses() -> None:
    play = under(HOLD, direction="response")
    play.ask(1)
    play.reply(1)
    play.channel.server_has_left()
    assert play.client.got == []
    play.end_rules()
    assert play.client.got == [response(1), None]


def test_produce_without_acks_leaves_nothing_open_that_an_error_answer_would_wait_for() -> None:
    play = under(answer(NOT_CONTROLLER))
    values = {"transactional_id": None, "acks": 0, "timeout": 0, "topic_data": []}
    silent = codec.encode_request(codec.build(Api.PRODUCE, 9, "request", values), 1, "client")
    play.channel.from_client(silent)
    play.ask(2)
    assert (play.server.got, play.client.got) == ([silent], [refusal(2)])


def test_response_to_nothing_passes_and_what_is_not_kafka_is_refused() -> None:
    play = Play()
    play.reply(9)
    assert play.client.got == [response(9)]
    with pytest.raises(PeerFailure):
        play.channel.from_client(b"GET / HTTP/1.1\r\n\r\n")
