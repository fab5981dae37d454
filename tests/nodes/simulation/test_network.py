"""The simulated network: delays, cuts, and what each action of a rule does to a message."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.model.faults.rpc import (
    CLOSE,
    DROP,
    DUPLICATE,
    HOLD,
    HOLD_AND_LOSE,
    Api,
    RpcAction,
    RpcMatch,
    RpcRule,
    delay,
)
from harness.model.hosts import Link
from nodes.simulation.network import Message, Network
from nodes.simulation.timeline import Timeline

DELAY_MS = (2, 4)
LONG_MS = 10_000


class Sent:
    """A network, and what has become of its messages, with the time."""

    def __init__(self, seed: int = 1) -> None:
        self.timeline = Timeline()
        self.network = Network(self.timeline, seed, DELAY_MS)
        self.seen: list[tuple[int, str]] = []

    def send(
        self, link: Link = (1, 2), api: Api = Api.VOTE, direction: str = "request", pre_vote: bool = False
    ) -> None:
        """Send a message; what happens to it is noted."""
        self.network.send(
            Message(
                api,
                link,
                "response" if direction == "response" else "request",
                deliver=lambda: self._note("delivered"),
                break_connection=lambda: self._note("broken"),
                answer=lambda error: self._note(f"answered {error}"),
                pre_vote=pre_vote,
            )
        )

    def run(self, until_ms: int = LONG_MS) -> list[str]:
        """Let time pass; what has happened so far."""
        self.timeline.advance(until_ms)
        return [what for _, what in self.seen]

    def _note(self, what: str) -> None:
        self.seen.append((self.timeline.now_ms, what))


def rule(action: RpcAction, **match: object) -> Sequence[RpcRule]:
    return [RpcRule("rule", RpcMatch(**match), action)]  # type: ignore[arg-type]


def test_message_arrives_within_the_bounds_of_the_delay() -> None:
    sent = Sent()
    for _ in range(50):
        sent.send()
    sent.run()
    times = {time for time, _ in sent.seen}
    assert times == {2, 3, 4}


@pytest.mark.parametrize("when", ["before it is sent", "while it travels"])
def test_message_on_a_cut_link_is_lost(when: str) -> None:
    sent = Sent()
    if when == "while it travels":
        sent.send()
    sent.network.cut([(1, 2)])
    if when == "before it is sent":
        sent.send()
    sent.send(link=(2, 1))
    assert sent.run() == ["delivered"]
    sent.network.restore([(1, 2)])
    sent.send()
    assert sent.run(2 * LONG_MS) == ["delivered"] * 2


def test_cut_of_one_direction_loses_the_response_alone() -> None:
    sent = Sent()
    sent.network.cut([(2, 1)])
    sent.send(direction="request")
    sent.send(direction="response")
    assert sent.run() == ["delivered"]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (DROP, []),
        (DUPLICATE, ["delivered", "delivered"]),
        (CLOSE, ["broken"]),
        (HOLD, []),
        (RpcAction("answer", error_code=6), ["answered 6"]),
    ],
)
def test_action_of_a_rule(action: RpcAction, expected: list[str]) -> None:
    sent = Sent()
    sent.network.replace_rules(rule(action, api_keys=(Api.VOTE,)))
    sent.send()
    assert sent.run() == expected
    sent.send(api=Api.FETCH)
    assert sent.run(2 * LONG_MS) == [*expected, "delivered"]


def test_delayed_message_arrives_that_much_later() -> None:
    sent = Sent()
    sent.network.replace_rules(rule(delay(300)))
    sent.send()
    sent.run()
    assert 302 <= sent.seen[0][0] <= 304


@pytest.mark.parametrize(("action", "expected"), [(HOLD, "delivered"), (HOLD_AND_LOSE, "broken")])
def test_held_message_goes_on_when_its_rule_is_removed(action: RpcAction, expected: str) -> None:
    sent = Sent()
    sent.network.replace_rules(rule(action))
    sent.send()
    assert sent.run(100) == []
    assert sent.network.rule_counts()["rule"].holding == 1
    counts = sent.network.replace_rules([])
    assert (counts["rule"].matched, counts["rule"].acted) == (1, 1)
    assert sent.run(200) == [expected]


def test_rule_matches_pre_votes_and_ends_alone() -> None:
    sent = Sent()
    sent.network.replace_rules(rule(DROP, pre_vote=True, sources=(2,), direction="response"))
    sent.send(direction="response", pre_vote=True)
    sent.send(direction="response", pre_vote=False)
    sent.send(direction="request", pre_vote=True)
    sent.send(link=(2, 1), direction="response", pre_vote=True)
    assert sent.run() == ["delivered"] * 3


def test_same_seed_gives_the_same_delays() -> None:
    def times(seed: int) -> list[int]:
        sent = Sent(seed)
        for _ in range(20):
            sent.send()
        sent.run()
        return [time for time, _ in sent.seen]

    assert times(1) == times(1)
    assert len({tuple(times(seed)) for seed in range(5)}) > 1
