"""The current rules, their counters, and the decision for each message.

Contains matching and counting. Does not contain bytes, sockets or clocks. Random choices use the given seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.model import BadInput
from harness.model.faults.rpc import Direction, RpcMatch, RpcRule, RuleCount
from harness.model.hosts import Link
from nodes.proxy.exchange import Facts, check_answerable


class Message(Protocol):
    """What rules compare: a request with its response, decoded or not."""

    @property
    def api_key(self) -> int:
        """The request's."""

    @property
    def facts(self) -> Facts:
        """Values from the request's body."""

    def ends(self, direction: Direction) -> Link:
        """The sender and the receiver of a message in this direction."""


def fits(match: RpcMatch, exchange: Message, direction: Direction) -> bool:
    """Whether a message matches, ignoring nth, probability and limit.

    Header fields are compared first, so a body is decoded only if they all match.
    """
    if match.direction != direction or (match.api_keys and exchange.api_key not in match.api_keys):
        return False
    source, target = exchange.ends(direction)
    if (match.sources and source not in match.sources) or (match.targets and target not in match.targets):
        return False
    if match.pre_vote is not None and exchange.facts.pre_vote is not match.pre_vote:
        return False
    return (match.topic is None and match.partition is None) or _is_about(match, exchange)


def _is_about(match: RpcMatch, exchange: Message) -> bool:
    return any(
        match.topic in (None, topic) and match.partition in (None, partition)
        for topic, partition in exchange.facts.partitions
    )


@dataclass(slots=True)
class _Entry:
    """A rule with its counters and its own random source. Every match consumes a random number, acted on or not."""

    rule: RpcRule
    random_source: random.Random
    matched: int = 0
    acted: int = 0

    def acts(self) -> bool:
        """Count a match; returns whether the rule acts on it."""
        self.matched += 1
        match = self.rule.match
        is_sampled = match.probability is None or self.random_source.random() < match.probability
        is_nth = match.nth in (None, self.matched)
        acts = is_sampled and is_nth and (match.limit is None or self.acted < match.limit)
        self.acted += acts
        return acts


class RuleBook:
    """The current rules; the first that matches and acts applies."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._entries: list[_Entry] = []

    def replace(self, rules: Sequence[RpcRule]) -> frozenset[str]:
        """Replace all rules; returns the names of the unchanged ones, which keep their counters.

        Raises BadInput for an invalid rule; the rules then stay as they are.
        """
        _check(rules)
        current = {entry.rule: entry for entry in self._entries}
        self._entries = [current.get(rule) or self._entry(rule) for rule in rules]
        return frozenset(rule.name for rule in rules if rule in current)

    def decide(self, exchange: Message, direction: Direction) -> RpcRule | None:
        """The rule that acts on this message; None if it passes. Updates the counters."""
        for entry in self._entries:
            if fits(entry.rule.match, exchange, direction) and entry.acts():
                return entry.rule
        return None

    def counts(self, holding: Mapping[str, int]) -> dict[str, RuleCount]:
        """The counters by rule name, with the number of messages that each rule holds."""
        return {
            entry.rule.name: RuleCount(entry.matched, entry.acted, holding.get(entry.rule.name, 0))
            for entry in self._entries
        }

    def _entry(self, rule: RpcRule) -> _Entry:
        return _Entry(rule, random.Random(f"{self._seed} {rule.name}"))


def _check(rules: Sequence[RpcRule]) -> None:
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise BadInput(f"RPC rules: expected unique names, got {', '.join(names)}")
    for rule in rules:
        roles = [node for node in (*rule.match.sources, *rule.match.targets) if not isinstance(node, int)]
        if roles:
            raise BadInput(f"RPC rule {rule.name!r}: expected node numbers, got {', '.join(roles)}")
        for api_key in rule.match.api_keys if rule.action.do == "answer" else ():
            check_answerable(api_key, rule.action.error_code)
