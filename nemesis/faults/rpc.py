"""Faults of single RPCs: rules for the messages between nodes, put in place, proved and removed again.

    Step("rpc", {"rules": [{"name": …, "match": …, "action": …}, …]})     (harness.model.faults.rpc.disturb)

A role in a rule means the same node throughout the action. The links that the rules speak of are tried before the
action
counts as done: a message that goes around the proxy meets no rule. Whether a rule ever had a message to act on is known
only afterwards, so healing asks for the counters first, and fails for a fault that never bit once it is undone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import permutations
from typing import Annotated, Any

from pydantic import Field, field_validator

from harness.model import BadInput, EnvironmentFailure, PeerFailure
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
    Rpcs,
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


class Disturbance(Arguments):
    """Rules as harness.model.faults.rpc.RpcRule takes them from JSON."""

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
    """The rules with node numbers in the place of roles. Raises BadInput for a rule that makes no sense."""
    return {"rules": [rule.to_json() for rule in resolved_rules(context, value)]}


def undo(f: str, resolved: Resolved) -> UndoRecord:
    """Removing all rules, or the redirect where the proxy is gone, undoes any."""
    return UndoRecord(f, "remove-rpc-rules", {"rules": [rule["name"] for rule in resolved["rules"]]})


async def inject(context: NemesisContext, _f: str, resolved: Resolved) -> dict[str, Any]:
    """Put the rules in place and prove that what they speak of passes by them; returns them and a label.

    Raises PeerFailure where a link goes around the proxy.
    """
    rpcs = context.rpcs
    assert rpcs is not None
    rules = [RpcRule.from_json(rule) for rule in resolved["rules"]]
    await rpcs.replace(rules)
    routes = await rpcs.routes(links_of(rules, context.nodes))
    astray = sorted(f"n{a}>n{b} {route}" for (a, b), route in routes.items() if route != "proxied")
    if astray:
        raise PeerFailure(f"proving the RPC rules: expected connections through the proxy, came {', '.join(astray)}")
    label = ", ".join(f"{rule.action.do} {rule.name}" for rule in rules)
    return {"rules": resolved["rules"], "label": label}


async def heal(context: NemesisContext) -> dict[str, Any]:
    """Remove every rule and prove that nodes reach each other; returns the counters that the rules had in the end.

    Raises PeerFailure where a route is still barred, and where a rule never acted: its fault was no test.
    """
    rpcs = context.rpcs
    if rpcs is None:
        return {"counts": {}}
    counts = await _last_counts(rpcs)
    await rpcs.clear()
    routes = await rpcs.routes(permutations(context.nodes, 2))
    barred = sorted(f"n{a}>n{b}" for (a, b), route in routes.items() if route == "no proxy")
    if barred:
        raise PeerFailure(f"proving that no RPC rule is left: {', '.join(barred)} still lead to a proxy that is gone")
    idle = sorted(name for name, count in counts.items() if not count.acted)
    if idle:
        raise PeerFailure(f"healing the RPC rules: {', '.join(idle)} never had a message to act on")
    return {"counts": {name: {"matched": each.matched, "acted": each.acted} for name, each in counts.items()}}


async def _last_counts(rpcs: Rpcs) -> Mapping[str, RuleCount]:
    """The counters; none where they went with the proxy, whose end shows in the nodes' own connections."""
    try:
        return await rpcs.counts()
    except EnvironmentFailure:
        return {}


def resolved_rules(context: NemesisContext, value: Mapping[str, Any]) -> list[RpcRule]:
    """The rules that an action's value means just now. Raises BadInput."""
    if not isinstance(value, Mapping) or not isinstance(value.get("rules"), list) or not value["rules"]:
        raise BadInput(f"{NAME} {value!r}: expected rules, at least one")
    nodes_in_role = cache(context.nodes_in_role)
    rules = [RpcRule.from_json(rule).resolved(nodes_in_role) for rule in value["rules"]]
    _check(context, rules)
    return rules


def _check(context: NemesisContext, rules: list[RpcRule]) -> None:
    known = {*context.nodes, CLIENTS}
    strangers = sorted({node for rule in rules for node in _named(rule)} - known)
    if strangers:
        raise BadInput(f"{NAME}: expected nodes 1 to {max(context.nodes)}, or {CLIENTS} for clients, got {strangers}")


def links_of(rules: Iterable[RpcRule], nodes: Iterable[int]) -> frozenset[Link]:
    """The links on which the requests travel that the rules speak of: who connects to whom."""
    every = tuple(nodes)
    links: set[Link] = set()
    for rule in rules:
        sources, targets = rule.match.sources or every, rule.match.targets or every
        ends = (sources, targets) if rule.match.direction == "request" else (targets, sources)
        links |= {(_number(a), _number(b)) for a in ends[0] for b in ends[1] if a != b}
    return frozenset(links)


def _named(rule: RpcRule) -> list[int]:
    return [_number(node) for node in (*rule.match.sources, *rule.match.targets)]


def _number(node: int | str) -> int:
    assert isinstance(node, int), f"role {node!r} was not settled"
    return node


def sample(random_: random.Random, _nodes: int) -> list[Step]:
    """Fetches are what a quorum always has on the wire: some are lost, late, doubled, cut short or held back."""
    probability = random_.choice([0.1, 0.3, 0.6])
    actions: list[RpcAction] = [RpcAction("drop"), RpcAction("close"), delay(random_.choice([50, 300, 1500])), HOLD]
    match = RpcMatch((Api.FETCH,), "response", targets=random_.choice([(), (FOLLOWERS,)]), probability=probability)
    action = random_.choice(actions)
    return [intercept(RpcRule(f"{action.do} {probability:.0%} of fetch answers", match, action))]


TRIED = (RpcAction("drop"), HOLD, delay(20), DUPLICATE, answer(NOT_LEADER_OR_FOLLOWER), CLOSE)

FAULT = Fault(
    name="rpc",
    summary="single RPCs between nodes are dropped, held, delayed, doubled, answered with errors, or cut short",
    actions={INTERCEPT: Action(Disturbance)},
    unavailable=lambda context, _action: context.why_unavailable("rpcs"),
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=30,
    trials=tuple(
        (intercept(RpcRule(f"fetches: {each.do}", RpcMatch((Api.FETCH,)), each)), sleep(1.5)) for each in TRIED
    ),
)
