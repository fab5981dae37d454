"""The fault of single RPCs: what is put in place, how it is proved, and that it can be written down and undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model import BadInput, EnvironmentFailure, PeerFailure
from harness.model.faults.rpc import (
    CLIENTS,
    CLOSE,
    DROP,
    DUPLICATE,
    HOLD,
    HOLD_AND_LOSE,
    Api,
    Route,
    RpcAction,
    RpcMatch,
    RpcRule,
    RuleCount,
    answer,
    delay,
    intercept,
)
from harness.model.hosts import Link
from nemesis.context import NemesisContext
from nemesis.faults import rpc
from nemesis.journal import UndoJournal, pending

HELD_FETCHES = RpcRule("held-fetches", RpcMatch((Api.FETCH,), "response", ("leader",), ("follower",)), HOLD)
NO_PRE_VOTE = RpcRule("no-pre-vote", RpcMatch((Api.VOTE,), pre_vote=True), DROP)


@dataclass
class FakeRpcs:
    """RPCs that remember their rules; links in `astray` lead elsewhere than through the proxy."""

    rules: list[RpcRule] = field(default_factory=list)
    tally: dict[str, RuleCount] = field(default_factory=dict)
    astray: dict[Link, Route] = field(default_factory=dict)
    asked: set[Link] = field(default_factory=set)
    actions: list[str] = field(default_factory=list)
    is_gone: bool = False

    async def replace(self, rules: Sequence[RpcRule]) -> None:
        self.rules = list(rules)
        self.actions.append("replace")

    async def clear(self) -> None:
        self.rules = []
        self.actions.append("clear")

    async def counts(self) -> Mapping[str, RuleCount]:
        if self.is_gone:
            raise EnvironmentFailure("asking the proxy: it is gone")
        return {rule.name: self.tally.get(rule.name, RuleCount()) for rule in self.rules}

    async def routes(self, links: Iterable[Link]) -> Mapping[Link, Route]:
        self.asked = set(links)
        return {link: self.astray.get(link, "proxied") for link in self.asked}


@pytest.fixture
def rpcs() -> FakeRpcs:
    return FakeRpcs()


def inject(rpcs: FakeRpcs, context: NemesisContext, *rules: RpcRule) -> dict[str, Any]:
    """Inject the action as it comes from a plan on disk."""
    value = json.loads(json.dumps(intercept(*rules).value))
    context.rpcs = rpcs
    return asyncio.run(rpc.inject(context, "rpc", rpc.resolve(context, "rpc", value)))


def mend(rpcs: FakeRpcs, context: NemesisContext) -> dict[str, Any]:
    context.rpcs = rpcs
    return asyncio.run(rpc.heal(context))


def test_roles_are_settled_and_the_links_are_those_on_which_the_requests_travel(
    rpcs: FakeRpcs, context: NemesisContext
) -> None:
    done = inject(rpcs, context, HELD_FETCHES)
    [rule] = rpcs.rules
    assert (rule.match.sources, rule.match.targets) == ((2,), (3,))
    assert rpcs.asked == {(3, 2)}, "the follower asks, the leader responds"
    assert done["label"] == "hold held-fetches"
    assert RpcRule.from_json(done["rules"][0]) == rule


def test_a_role_means_the_same_node_in_all_rules_of_a_deed(rpcs: FakeRpcs) -> None:
    draws = iter([0, 1])
    context = NemesisContext((1, 2, 3), None, _AllRun(), lambda: 2, lambda _below: next(draws))  # type: ignore[arg-type]
    rules = [RpcRule(name, RpcMatch(targets=("follower",)), DROP) for name in ("a", "b")]
    inject(rpcs, context, *rules)
    assert [rule.match.targets for rule in rpcs.rules] == [(1,), (1,)]


class _AllRun:
    def state(self, _node: int) -> str:
        return "running"


def test_a_rule_without_ends_is_proved_on_every_link(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, NO_PRE_VOTE)
    assert rpcs.asked == {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)}


def test_clients_requests_are_proved_from_where_clients_are(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, RpcRule("end-txn", RpcMatch((Api.END_TXN,), sources=(CLIENTS,)), HOLD))
    assert rpcs.asked == {(0, 1), (0, 2), (0, 3)}


@pytest.mark.parametrize("way", ["direct", "no proxy", "no answer"])
def test_a_link_that_meets_no_rule_fails_the_deed(rpcs: FakeRpcs, context: NemesisContext, way: Route) -> None:
    rpcs.astray[(3, 2)] = way
    with pytest.raises(PeerFailure, match=f"expected connections through the proxy, came n3>n2 {way}"):
        inject(rpcs, context, HELD_FETCHES)


def test_heal_removes_all_rules_and_tells_how_often_they_acted(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    rpcs.tally["held-fetches"] = RuleCount(matched=3, acted=2)
    healed = mend(rpcs, context)
    assert healed == {"counts": {"held-fetches": {"matched": 3, "acted": 2}}}
    assert (rpcs.rules, rpcs.actions) == ([], ["replace", "clear"])


def test_healing_twice_is_as_good_as_once(rpcs: FakeRpcs, context: NemesisContext) -> None:
    for _ in range(2):
        assert mend(rpcs, context) == {"counts": {}}


def test_a_rule_that_never_acted_is_healed_and_told(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES, NO_PRE_VOTE)
    rpcs.tally["held-fetches"] = RuleCount(matched=3, acted=2)
    with pytest.raises(PeerFailure, match="no-pre-vote never had a message to act on"):
        mend(rpcs, context)
    assert rpcs.rules == []


def test_heal_goes_on_where_the_proxy_is_gone_and_fails_where_a_way_is_still_barred(
    rpcs: FakeRpcs, context: NemesisContext
) -> None:
    rpcs.is_gone = True
    rpcs.astray[(1, 2)] = "direct"
    assert mend(rpcs, context) == {"counts": {}}
    rpcs.astray[(1, 2)] = "no proxy"
    with pytest.raises(PeerFailure, match="n1>n2 still lead to a proxy that is gone"):
        mend(rpcs, context)


def test_undo_record_survives_in_the_journal(tmp_path: Path, context: NemesisContext) -> None:
    path = tmp_path / "undo.jsonl"
    record = rpc.undo("rpc", rpc.resolve(context, "rpc", intercept(HELD_FETCHES).value))
    UndoJournal(path).record(record)
    assert pending(path) == [record]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "expected rules, at least one"),
        ({"rules": []}, "expected rules, at least one"),
        ({"rules": [{"name": "a", "match": {}}]}, "expected name, match and action"),
        ({"rules": [{"name": "a", "match": {"api": 1}, "action": {"do": "drop"}}]}, "rule 'a': expected api_keys,"),
        ({"rules": [{"name": "a", "match": {"nth": "1"}, "action": {"do": "drop"}}]}, "expected nth as int | None"),
        ({"rules": [{"name": "a", "match": {}, "action": {}}]}, "expected an action's do"),
        (
            {"rules": [{"name": "a", "match": {"sources": [4]}, "action": {"do": "drop"}}]},
            r"nodes 1 to 3, .* got \[4\]",
        ),
        ({"rules": [{"name": "a", "match": {"sources": ["n9"]}, "action": {"do": "drop"}}]}, "node 'n9': expected"),
    ],
)
def test_a_deed_that_makes_no_sense_is_bad_input_in_one_line(
    context: NemesisContext, value: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message.replace("|", r"\|")) as caught:
        rpc.resolve(context, "rpc", value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("match", "action", "message"),
    [
        (RpcMatch(direction="response"), DUPLICATE, "duplicate on requests only"),
        (RpcMatch((52,), direction="response"), answer(8), "answer on requests only"),
        (RpcMatch(), answer(8), "api_keys where the action is to answer"),
        (RpcMatch((52,)), answer(0), "an error_code"),
        (RpcMatch(), RpcAction("drop", loses=True), "loses on hold only, found it on drop"),
        (RpcMatch(), delay(0), "delay_ms above 0, found 0"),
        (RpcMatch(nth=0), DROP, "nth above 0"),
        (RpcMatch(limit=0), DROP, "limit above 0"),
        (RpcMatch(probability=0.0), DROP, "probability in"),
        (RpcMatch(direction="both"), DROP, "direction request or response, found 'both'"),  # type: ignore[arg-type]
        (RpcMatch(), RpcAction("lose"), "one of drop, hold"),  # type: ignore[arg-type]
        (RpcMatch(("Fetch",)), DROP, "api_keys as numbers"),  # type: ignore[arg-type]
    ],
)
def test_match_and_action_that_do_not_go_together_are_refused(match: RpcMatch, action: RpcAction, message: str) -> None:
    with pytest.raises(BadInput, match=f"RPC rule 'a': expected {message}"):
        RpcRule("a", match, action)


nodes = st.lists(st.sampled_from([0, 1, 2, 3, "leader", "follower", "n2"]), max_size=3).map(tuple)
matches = st.builds(
    RpcMatch,
    st.lists(st.sampled_from(list(Api)), min_size=1, max_size=3).map(tuple),
    st.just("request"),
    nodes,
    nodes,
    st.none() | st.booleans(),
    st.none() | st.text(max_size=5),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(1, 9),
    st.none() | st.floats(0.01, 1.0),
    st.none() | st.integers(1, 9),
)
actions = st.sampled_from([DROP, HOLD, HOLD_AND_LOSE, DUPLICATE, CLOSE, delay(7), answer(8)])


@given(st.builds(RpcRule, st.text(max_size=8), matches, actions))
def test_rules_survive_json(rule: RpcRule) -> None:
    assert RpcRule.from_json(json.loads(json.dumps(rule.to_json()))) == rule
