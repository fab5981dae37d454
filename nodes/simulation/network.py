"""The network between simulated nodes: random delays, cut links, and rules for single messages.

A message on a link that is cut when it is sent or when it arrives is lost; nothing sends it again, and its request
times out. Rules act as those of the proxy (nodes.proxy): a message that a rule holds is delivered when the rule is
removed, or lost with its connection if the rule says so.

Contains delivery. Does not contain connections, or what messages mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.model.faults.rpc import Direction, RpcRule, RuleCount
from harness.model.hosts import Link
from nodes.proxy.exchange import Facts
from nodes.proxy.rules import RuleBook
from nodes.simulation.timeline import Action, Timeline

METADATA = frozenset({("__cluster_metadata", 0)})


@dataclass(frozen=True, slots=True)
class Message:
    """A request, or the response to it: link is that of the request, from client to server, in either direction.

    break_connection ends the connection, so that the client gets no response. answer responds to a request with an
    error instead of the server.
    """

    api_key: int
    link: Link
    direction: Direction
    deliver: Action
    break_connection: Action
    answer: Callable[[int], None] = lambda _error: None
    pre_vote: bool | None = None

    @property
    def facts(self) -> Facts:
        """What rules compare besides the header."""
        return Facts(pre_vote=self.pre_vote, partitions=METADATA)

    def ends(self, direction: Direction) -> Link:
        """The sender and the receiver of a message in this direction."""
        return self.link if direction == "request" else (self.link[1], self.link[0])


class Network:
    """Links between nodes."""

    def __init__(self, timeline: Timeline, seed: int, delay_ms: tuple[int, int]) -> None:
        self._timeline = timeline
        self._random = random.Random(f"network {seed}")
        self._low_ms, self._spread_ms = delay_ms[0], delay_ms[1] - delay_ms[0] + 1
        self._cut: set[Link] = set()
        self._rules = RuleBook(seed)
        self._has_rules = False
        self._held: list[tuple[RpcRule, Message]] = []

    def delay(self) -> int:
        """The delay of a message, in milliseconds."""
        return self._low_ms + int(self._random.random() * self._spread_ms)

    def passes(self, link: Link) -> bool:
        """Whether the link is not cut."""
        return link not in self._cut

    def cut(self, links: Iterable[Link]) -> None:
        """Cut these links too."""
        self._cut.update(links)

    def restore(self, links: Iterable[Link] | None) -> None:
        """End the cuts of these links, or all."""
        self._cut.difference_update(list(self._cut) if links is None else links)

    def replace_rules(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Put these rules in place of all; returns the counters of those before. Held messages go on their way."""
        counts = self.rule_counts()
        kept = self._rules.replace(rules)
        self._has_rules = bool(rules)
        released = [each for each in self._held if each[0].name not in kept]
        self._held = [each for each in self._held if each[0].name in kept]
        for rule, message in released:
            if rule.action.loses:
                self._timeline.after(0, message.break_connection)
            else:
                self._carry(message, self.delay())
        return counts

    def rule_counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place."""
        holding: dict[str, int] = {}
        for rule, _ in self._held:
            holding[rule.name] = holding.get(rule.name, 0) + 1
        return self._rules.counts(holding)

    def send(self, message: Message) -> None:
        """Deliver a message after its delay, unless it is lost or a rule acts on it."""
        delay_ms = self.delay()
        rule = self._rules.decide(message, message.direction) if self._has_rules else None
        if rule is None:
            self._carry(message, delay_ms)
            return
        match rule.action.do:
            case "hold":
                self._held.append((rule, message))
            case "delay":
                self._carry(message, delay_ms + rule.action.delay_ms)
            case "duplicate":
                self._carry(message, delay_ms)
                self._carry(message, delay_ms + self.delay())
            case "close":
                self._timeline.after(delay_ms, message.break_connection)
            case "answer":
                self._timeline.after(delay_ms, lambda: message.answer(rule.action.error_code))
            case "drop":
                pass

    def _carry(self, message: Message, delay_ms: int) -> None:
        link = message.ends(message.direction)
        if link in self._cut:
            return

        def arrive() -> None:
            if link not in self._cut:
                message.deliver()

        self._timeline.after(delay_ms, arrive)
