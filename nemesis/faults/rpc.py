"""Faults of single RPCs: rules that drop, hold, delay, duplicate, answer or cut off messages between nodes.

    Step("rpc", {"rules": [{"name": …, "match": …, "action": …}, …]})     (harness.model.faults.rpc.intercept)

A role resolves to the same node in all rules of an action. Injection verifies that connections on the rules' links pass
through the proxy: a message that bypasses it meets no rule. Whether a rule had a message to act on is known only
afterwards, from the final counters that its replacement or removal returns. Healing fails if any rule since the last
heal never acted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import permutations
from typing import Annotated, Any

from pydantic import Field, field_validator

from harness.model import BadInput, PeerFailure
from harness.model.faults.rpc import (
    CLIENTS,
    CLOSE,
    DUPLICATE,
    HOLD,
    INTERCEPT,
    Api,
    RpcAction,
    RpcMatch,
    RpcRule,
    RuleCount,
    answer,
    delay,
    intercept,
)
from harness.model.hosts import Link, UndoRecord
from harness.model.story import FOLLOWERS, Step, sleep
from nemesis.arguments import Arguments
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

NAME = INTERCEPT
NOT_LEADER_OR_FOLLOWER = 6


class Rules(Arguments):
    """Rules in the JSON form of harness.model.faults.rpc.RpcRule."""

    rules: Annotated[list[dict[str, Any]], Field(min_length=1)]

    @field_validator("rules")
    @classmethod
    def _are_rules(cls, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            for rule in rules:
                RpcRule.from_json(rule)
        except BadInput as error:
            raise ValueError(str(error)) from error
        return rules


def resolve(context: NemesisContext, _f: str, value: Mapping[str, Any]) -> Resolved:
    """The rules with node numbers instead of roles. Raises BadInput for an invalid rule."""
    return {"rules": [rule.to_json() for rule in resolved_rules(context, value)]}


def undo(f: str, resolved: Resolved) -> UndoRecord:
    """Undone by removing all rules, or the redirect if the proxy is gone."""
    return UndoRecord(f, "remove-rpc-rules", {"rules": [rule["name"] for rule in resolved["rules"]]})


async def inject(context: NemesisContext, _f: str, resolved: Resolved) -> dict[str, Any]:
    """Replace all rules and verify that their links pass through the proxy; returns the rules and a label.

    A connection over a link that is cut, in either direction, cannot be opened, so it is not verified. Raises
    PeerFailure if a link bypasses the proxy.
    """
    rpcs = context.rpcs
    assert rpcs is not None
    rules = [RpcRule.from_json(rule) for rule in resolved["rules"]]
    _retire(context, await rpcs.replace(rules), rules)
    closed = context.cut_links | {(b, a) for a, b in context.cut_links}
    ways = await rpcs.routes(links_of(rules, context.nodes) - closed)
    bypassing = sorted(f"n{a}>n{b} {way}" for (a, b), way in ways.items() if way != "proxied")
    if bypassing:
        raise PeerFailure(
            f"verifying the RPC rules: expected connections through the proxy, found {', '.join(bypassing)}"
        )
    label = ", ".join(f"{rule.action.do} {rule.name}" for rule in rules)
    return {"rules": resolved["rules"], "label": label}


async def heal(context: NemesisContext) -> dict[str, Any]:
    """Remove every rule and verify that nodes reach each other.

    Returns the final counters of all rules since the last heal, by name; different rules of one name are numbered, as
    in `a`, `a (2)`. Raises PeerFailure if a link still leads to a proxy that is gone, if a rule never acted and so
    tested nothing although it had to, or if its counter is lost and so nobody knows.
    """
    rpcs = context.rpcs
    if rpcs is None:
        return {"counts": {}}
    _retire(context, await rpcs.clear(), ())
    ways = await rpcs.routes(permutations(context.nodes, 2))
    barred = sorted(f"n{a}>n{b}" for (a, b), way in ways.items() if way == "no proxy")
    if barred:
        raise PeerFailure(f"verifying that no RPC rule is left: {', '.join(barred)} still lead to a proxy that is gone")
    counts, rules = _by_name(context.rpc_counts), tuple(context.rpc_counts)
    context.rpc_counts = {}
    known = {name: count for name, count in counts.items() if count is not None}
    must_act = {name for name, rule in zip(counts, rules, strict=True) if not rule.may_be_idle}
    idle = sorted(name for name, count in known.items() if not count.acted and name in must_act)
    lost = sorted(counts.keys() - known.keys())
    problems = [f"{', '.join(idle)} never had a message to act on"] if idle else []
    problems += [f"the counters of {', '.join(lost)} are lost with the proxy's process"] if lost else []
    if problems:
        raise PeerFailure(f"healing the RPC rules: {'; '.join(problems)}")
    return {"counts": {name: {"matched": each.matched, "acted": each.acted} for name, each in known.items()}}


def _retire(context: NemesisContext, final: Mapping[str, RuleCount], rules: Sequence[RpcRule]) -> None:
    """Store the final counters of the rules that these replaced. The proxy keeps the counter of a rule that stays.

    A rule whose counter is lost with its proxy has an unknown count, None, even if it stays.
    """
    for rule in context.rpc_rules:
        count = final.get(rule.name)
        if count is None or rule not in rules:
            context.rpc_counts[rule] = _sum(context.rpc_counts.get(rule, RuleCount()), count)
    context.rpc_rules = tuple(rules)


def _sum(first: RuleCount | None, second: RuleCount | None) -> RuleCount | None:
    if first is None or second is None:
        return None
    return RuleCount(first.matched + second.matched, first.acted + second.acted)


def _by_name(counts: Mapping[RpcRule, RuleCount | None]) -> dict[str, RuleCount | None]:
    """The counters by rule name, with a number after the name of every further rule of that name."""
    seen: Counter[str] = Counter()
    named: dict[str, RuleCount | None] = {}
    for rule, count in counts.items():
        seen[rule.name] += 1
        named[rule.name if seen[rule.name] == 1 else f"{rule.name} ({seen[rule.name]})"] = count
    return named


def resolved_rules(context: NemesisContext, value: Mapping[str, Any]) -> list[RpcRule]:
    """The rules of an action's value, with roles resolved. Raises BadInput."""
    if not isinstance(value, Mapping) or not isinstance(value.get("rules"), list) or not value["rules"]:
        raise BadInput(f"{NAME} {value!r}: expected rules, at least one")
    nodes_in_role = cache(context.nodes_in_role)
    rules = [RpcRule.from_json(rule).resolved(nodes_in_role) for rule in value["rules"]]
    _check(context, rules)
    return rules


def _check(context: NemesisContext, rules: list[RpcRule]) -> None:
    known = {*context.nodes, CLIENTS}
    unknown = sorted({node for rule in rules for node in _nodes_of(rule)} - known)
    if unknown:
        raise BadInput(f"{NAME}: expected nodes 1 to {max(context.nodes)}, or {CLIENTS} for clients, got {unknown}")


def links_of(rules: Iterable[RpcRule], nodes: Iterable[int]) -> frozenset[Link]:
    """The links that carry the requests of the messages that the rules match: which node connects to which."""
    every = tuple(nodes)
    links: set[Link] = set()
    for rule in rules:
        sources, targets = rule.match.sources or every, rule.match.targets or every
        ends = (sources, targets) if rule.match.direction == "request" else (targets, sources)
        links |= {(_number(a), _number(b)) for a in ends[0] for b in ends[1] if a != b}
    return frozenset(links)


def _nodes_of(rule: RpcRule) -> list[int]:
    return [_number(node) for node in (*rule.match.sources, *rule.match.targets)]


def _number(node: int | str) -> int:
    assert isinstance(node, int), f"role {node!r} was not resolved"
    return node


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """Fetch responses, which every quorum sends all the time, are lost, delayed, held or cut off."""
    probability = random_source.choice([0.1, 0.3, 0.6])
    delayed = delay(random_source.choice([50, 300, 1500]))
    targets = random_source.choice([(), (FOLLOWERS,)])
    action = random_source.choice([RpcAction("drop"), RpcAction("close"), delayed, HOLD])
    match = RpcMatch((Api.FETCH,), "response", targets=targets, probability=probability)
    return [intercept(RpcRule(f"{action.do} {probability:.0%} of fetch responses", match, action))]


TRIAL_ACTIONS = (RpcAction("drop"), HOLD, delay(20), DUPLICATE, answer(NOT_LEADER_OR_FOLLOWER), CLOSE)

FAULT = Fault(
    name="rpc",
    summary="single RPCs between nodes are dropped, held, delayed, duplicated, answered with errors, or cut off",
    actions={INTERCEPT: Action(Rules)},
    unavailable=lambda context, _action: context.why_unavailable("rpcs"),
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=30,
    trials=tuple(
        (intercept(RpcRule(f"fetches: {each.do}", RpcMatch((Api.FETCH,)), each)), sleep(1.5)) for each in TRIAL_ACTIONS
    ),
)
