"""Faults of single RPCs: which rules are installed, how they are verified and counted, and how they are undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
DUPLICATED_VOTES = RpcRule("duplicated-votes", RpcMatch((Api.VOTE,)), DUPLICATE)


@dataclass
class FakeRpcs:
    """RPCs that store their rules, and count as the proxy does. Links in `ways_of` do not lead through the proxy.

    Rules in `late` act once, immediately before they are replaced.
    """

    rules: list[RpcRule] = field(default_factory=list)
    tally: dict[str, RuleCount] = field(default_factory=dict)
    ways_of: dict[Link, Route] = field(default_factory=dict)
    probed: set[Link] = field(default_factory=set)
    actions: list[str] = field(default_factory=list)
    is_gone: bool = False
    late: set[str] = field(default_factory=set)

    async def replace(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Unchanged rules keep their counters, unless this starts a new proxy."""
        final = self.final()
        kept = set() if self.is_gone else {rule.name for rule in rules if rule in self.rules}
        self.tally = {name: count for name, count in self.tally.items() if name in kept}
        self.rules, self.is_gone = list(rules), False
        self.actions.append("replace")
        return final

    async def clear(self) -> Mapping[str, RuleCount]:
        final, self.rules = self.final(), []
        self.actions.append("clear")
        return final

    def final(self) -> Mapping[str, RuleCount]:
        """The counters of the rules when they are replaced, with those of messages that came just before."""
        if self.is_gone:
            return {}
        return {
            rule.name: self.tally.get(rule.name, RuleCount()) if rule.name not in self.late else RuleCount(1, 1)
            for rule in self.rules
        }

    async def counts(self) -> Mapping[str, RuleCount]:
        if self.is_gone:
            raise EnvironmentFailure("contacting the proxy: its process has ended")
        return {rule.name: self.tally.get(rule.name, RuleCount()) for rule in self.rules}

    async def routes(self, links: Iterable[Link]) -> Mapping[Link, Route]:
        self.probed = set(links)
        return {link: self.ways_of.get(link, "proxied") for link in self.probed}


@pytest.fixture
def rpcs() -> FakeRpcs:
    return FakeRpcs()


def inject(rpcs: FakeRpcs, context: NemesisContext, *rules: RpcRule) -> dict[str, Any]:
    """Inject an action with its value as in a plan on disk."""
    value = json.loads(json.dumps(intercept(*rules).value))
    context.rpcs = rpcs
    return asyncio.run(rpc.inject(context, "rpc", rpc.resolve(context, "rpc", value)))


def heal(rpcs: FakeRpcs, context: NemesisContext) -> dict[str, Any]:
    context.rpcs = rpcs
    return asyncio.run(rpc.heal(context))


def test_roles_are_resolved_and_the_links_that_carry_the_requests_are_verified(
    rpcs: FakeRpcs, context: NemesisContext
) -> None:
    done = inject(rpcs, context, HELD_FETCHES)
    [rule] = rpcs.rules
    assert (rule.match.sources, rule.match.targets) == ((2,), (3,))
    assert rpcs.probed == {(3, 2)}, "the follower requests, the leader responds"
    assert done["label"] == "hold held-fetches"
    assert RpcRule.from_json(done["rules"][0]) == rule


def test_a_role_means_the_same_node_in_all_rules_of_an_action(rpcs: FakeRpcs) -> None:
    draws = iter([0, 1])
    context = NemesisContext((1, 2, 3), None, AllRunning(), lambda: 2, lambda _below: next(draws))  # type: ignore[arg-type]
    rules = [RpcRule(name, RpcMatch(targets=("follower",)), DROP) for name in ("a", "b")]
    inject(rpcs, context, *rules)
    assert [rule.match.targets for rule in rpcs.rules] == [(1,), (1,)]


class AllRunning:
    def state(self, _node: int) -> str:
        return "running"


def test_a_rule_without_sources_and_targets_is_verified_on_every_link(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, NO_PRE_VOTE)
    assert rpcs.probed == {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)}


def test_a_link_that_is_cut_is_not_verified(rpcs: FakeRpcs, context: NemesisContext) -> None:
    """Nor is the opposite one: a connection needs both directions."""
    context.cut_links = frozenset({(1, 2)})
    inject(rpcs, context, NO_PRE_VOTE)
    assert rpcs.probed == {(1, 3), (2, 3), (3, 1), (3, 2)}


def test_a_rule_for_clients_is_verified_from_the_clients_network(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, RpcRule("end-txn", RpcMatch((Api.END_TXN,), sources=(CLIENTS,)), HOLD))
    assert rpcs.probed == {(0, 1), (0, 2), (0, 3)}


@pytest.mark.parametrize("way", ["direct", "no proxy", "no answer"])
def test_a_link_that_bypasses_the_proxy_fails_the_action(rpcs: FakeRpcs, context: NemesisContext, way: Route) -> None:
    rpcs.ways_of[(3, 2)] = way
    with pytest.raises(PeerFailure, match=f"expected connections through the proxy, found n3>n2 {way}"):
        inject(rpcs, context, HELD_FETCHES)


def test_heal_removes_all_rules_and_returns_their_counters(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    rpcs.tally["held-fetches"] = RuleCount(matched=3, acted=2)
    healed = heal(rpcs, context)
    assert healed == {"counts": {"held-fetches": {"matched": 3, "acted": 2}}}
    assert (rpcs.rules, rpcs.actions) == ([], ["replace", "clear"])


def test_healing_again_is_harmless(rpcs: FakeRpcs, context: NemesisContext) -> None:
    for _ in range(2):
        assert heal(rpcs, context) == {"counts": {}}


def test_a_rule_that_never_acted_is_removed_and_reported(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES, NO_PRE_VOTE)
    rpcs.tally["held-fetches"] = RuleCount(matched=3, acted=2)
    with pytest.raises(PeerFailure, match="no-pre-vote never had a message to act on"):
        heal(rpcs, context)
    assert rpcs.rules == []


def test_heal_survives_a_lost_proxy_and_fails_if_a_link_still_leads_to_it(
    rpcs: FakeRpcs, context: NemesisContext
) -> None:
    rpcs.is_gone = True
    rpcs.ways_of[(1, 2)] = "direct"
    assert heal(rpcs, context) == {"counts": {}}
    rpcs.ways_of[(1, 2)] = "no proxy"
    with pytest.raises(PeerFailure, match="n1>n2 still lead to a proxy that is gone"):
        heal(rpcs, context)


def test_a_rule_that_may_be_idle_need_not_act(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, replace(HELD_FETCHES, may_be_idle=True))
    assert heal(rpcs, context) == {"counts": {"held-fetches": {"matched": 0, "acted": 0}}}


def test_a_replaced_rule_that_never_acted_is_reported_by_heal(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    inject(rpcs, context, NO_PRE_VOTE)
    rpcs.tally["no-pre-vote"] = RuleCount(matched=1, acted=1)
    with pytest.raises(PeerFailure, match="healing the RPC rules: held-fetches never had a message to act on"):
        heal(rpcs, context)
    assert heal(rpcs, context) == {"counts": {}}, "it is reported once"


def test_replaced_rules_keep_their_final_counters(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    rpcs.tally["held-fetches"] = RuleCount(matched=3, acted=2, holding=1)
    inject(rpcs, context, NO_PRE_VOTE)
    rpcs.tally["no-pre-vote"] = RuleCount(matched=1, acted=1)
    inject(rpcs, context, HELD_FETCHES)
    rpcs.tally["held-fetches"] = RuleCount(matched=5, acted=5)
    assert heal(rpcs, context) == {
        "counts": {"held-fetches": {"matched": 8, "acted": 7}, "no-pre-vote": {"matched": 1, "acted": 1}}
    }


def test_a_rule_that_is_restated_keeps_its_counter(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    rpcs.tally["held-fetches"] = RuleCount(matched=3, acted=2)
    inject(rpcs, context, HELD_FETCHES, NO_PRE_VOTE)
    rpcs.tally["no-pre-vote"] = RuleCount(matched=1, acted=1)
    assert heal(rpcs, context)["counts"]["held-fetches"] == {"matched": 3, "acted": 2}


def test_a_different_rule_of_the_same_name_is_counted_separately(rpcs: FakeRpcs, context: NemesisContext) -> None:
    other = replace(NO_PRE_VOTE, action=CLOSE)
    inject(rpcs, context, NO_PRE_VOTE)
    rpcs.tally["no-pre-vote"] = RuleCount(matched=1, acted=1)
    inject(rpcs, context, other)
    with pytest.raises(PeerFailure, match=r"no-pre-vote \(2\) never had a message to act on"):
        heal(rpcs, context)
    inject(rpcs, context, NO_PRE_VOTE)
    inject(rpcs, context, other)
    rpcs.tally["no-pre-vote"] = RuleCount(matched=1, acted=1)
    with pytest.raises(PeerFailure, match="rules: no-pre-vote never had a message to act on"):
        heal(rpcs, context)


def test_rules_of_a_lost_proxy_have_unknown_counters(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES, NO_PRE_VOTE)
    rpcs.is_gone = True
    inject(rpcs, context, NO_PRE_VOTE, DUPLICATED_VOTES)
    rpcs.tally["duplicated-votes"] = RuleCount(matched=1, acted=1)
    with pytest.raises(PeerFailure, match="rules: the counters of held-fetches, no-pre-vote are lost with the proxy"):
        heal(rpcs, context)


def test_rule_that_acts_immediately_before_it_is_replaced_or_removed_is_not_idle(
    rpcs: FakeRpcs, context: NemesisContext
) -> None:
    rpcs.late = {"held-fetches", "no-pre-vote"}
    inject(rpcs, context, HELD_FETCHES)
    inject(rpcs, context, NO_PRE_VOTE)
    assert heal(rpcs, context) == {
        "counts": {"held-fetches": {"matched": 1, "acted": 1}, "no-pre-vote": {"matched": 1, "acted": 1}}
    }


def test_counters_of_replaced_rules_outlive_the_proxy(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    inject(rpcs, context, NO_PRE_VOTE)
    rpcs.is_gone = True
    with pytest.raises(PeerFailure, match=r"held-fetches never had a message to act on; .* of no-pre-vote are lost"):
        heal(rpcs, context)


def test_a_failed_heal_reports_idle_rules_the_next_time(rpcs: FakeRpcs, context: NemesisContext) -> None:
    inject(rpcs, context, HELD_FETCHES)
    rpcs.ways_of[(1, 2)] = "no proxy"
    with pytest.raises(PeerFailure, match="n1>n2 still lead to a proxy that is gone"):
        heal(rpcs, context)
    rpcs.ways_of.clear()
    with pytest.raises(PeerFailure, match="held-fetches never had a message to act on"):
        heal(rpcs, context)


def test_the_undo_record_survives_in_the_journal(tmp_path: Path, context: NemesisContext) -> None:
    path = tmp_path / "undo.jsonl"
    record = rpc.undo("rpc", rpc.resolve(context, "rpc", intercept(HELD_FETCHES).value))
    UndoJournal(path).record(record)
    assert pending(path) == [record]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "expected rules, at least one"),
        ({"rules": []}, "expected rules, at least one"),
        ({"rules": [{"name": "a", "match": {}}]}, "RPC rule 'a': action: expected a value, found nothing"),
        (
            {"rules": [{"name": "a", "match": {"api": 1}, "action": {"do": "drop"}}]},
            "RPC rule 'a': match.api: expected one of the keys api_keys, direction,",
        ),
        (
            {"rules": [{"name": "a", "match": {"nth": "1"}, "action": {"do": "drop"}}]},
            "match.nth: expected a whole number, found '1'",
        ),
        ({"rules": [{"name": "a", "match": {}, "action": {}}]}, "action.do: expected a value, found nothing"),
        (
            {"rules": [{"name": "a", "match": {"sources": [4]}, "action": {"do": "drop"}}]},
            r"nodes 1 to 3, .* got \[4\]",
        ),
        ({"rules": [{"name": "a", "match": {"sources": ["n9"]}, "action": {"do": "drop"}}]}, "node 'n9': expected"),
    ],
)
def test_an_invalid_value_is_bad_input_with_a_message_of_one_line(
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
def test_a_match_and_action_that_contradict_each_other_are_bad_input(
    match: RpcMatch, action: RpcAction, message: str
) -> None:
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
