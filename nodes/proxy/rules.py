"""The rules in place, their counters, and the decision about each message.

What may live here: matching and counting. What may not: bytes, sockets, clocks; draws come from the seed given.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.model import BadInput
from harness.model.faults.rpc import Direction, RpcMatch, RpcRule, RuleCount
from nodes.proxy.exchange import Exchange, check_answerable


def fits(match: RpcMatch, exchange: Exchange, direction: Direction) -> bool:
    """Whether a message is one of those meant; nth, probability and limit are not looked at.

    What is read in the head is compared first, so that a body is decoded only where all else fits.
    """
    if match.direction != direction or (match.api_keys and exchange.head.api_key not in match.api_keys):
        return False
    source, target = exchange.ends(direction)
    if (match.sources and source not in match.sources) or (match.targets and target not in match.targets):
        return False
    if match.pre_vote is not None and exchange.facts.pre_vote is not match.pre_vote:
        return False
    return (match.topic is None and match.partition is None) or _is_about(match, exchange)


def _is_about(match: RpcMatch, exchange: Exchange) -> bool:
    return any(
        match.topic in (None, topic) and match.partition in (None, partition)
        for topic, partition in exchange.facts.partitions
    )


@dataclass(slots=True)
class _Entry:
    """A rule with its tally and its own stream of draws; each match draws, acted on or not."""

    rule: RpcRule
    draws: random.Random
    matched: int = 0
    acted: int = 0

    def acts(self) -> bool:
        """Count a match; whether this one is acted on."""
        self.matched += 1
        match = self.rule.match
        drawn = match.probability is None or self.draws.random() < match.probability
        is_its_turn = match.nth in (None, self.matched)
        acts = drawn and is_its_turn and (match.limit is None or self.acted < match.limit)
        self.acted += acts
        return acts


class RuleBook:
    """The rules in place; the first that matches and acts decides."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._entries: list[_Entry] = []

    def replace(self, rules: Sequence[RpcRule]) -> frozenset[str]:
        """Put these rules in place of all others; returns the names of those that stayed as they were.

        Raises BadInput for a rule that cannot be carried out; then all stays as it was.
        """
        _check(rules)
        before = {entry.rule: entry for entry in self._entries}
        self._entries = [before.get(rule) or self._entry(rule) for rule in rules]
        return frozenset(rule.name for rule in rules if rule in before)

    def decide(self, exchange: Exchange, direction: Direction) -> RpcRule | None:
        """The rule to act on this message, counted; None where it passes."""
        for entry in self._entries:
            if fits(entry.rule.match, exchange, direction) and entry.acts():
                return entry.rule
        return None

    def counts(self, holding: Mapping[str, int]) -> dict[str, RuleCount]:
        """The counters by rule, with how many messages each holds."""
        return {
            entry.rule.name: RuleCount(entry.matched, entry.acted, holding.get(entry.rule.name, 0))
            for entry in self._entries
        }

    def _entry(self, rule: RpcRule) -> _Entry:
        return _Entry(rule, random.Random(f"{self._seed} {rule.name}"))


def _check(rules: Sequence[RpcRule]) -> None:
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise BadInput(f"RPC rules: expected each to have a name of its own, got {', '.join(names)}")
    for rule in rules:
        roles = [node for node in (*rule.match.sources, *rule.match.targets) if not isinstance(node, int)]
        if roles:
            raise BadInput(f"RPC rule {rule.name!r}: expected node numbers by now, got {', '.join(roles)}")
        for api_key in rule.match.api_keys if rule.action.do == "answer" else ():
            check_answerable(api_key, rule.action.error_code)
