"""A chosen node becomes the leader, and the links that were cut for it are restored."""

from __future__ import annotations

import asyncio

import pytest

from harness.model import PeerFailure
from harness.model.story import ALL, FOLLOWERS, LEADER, lead
from nemesis.faults import leadership
from nemesis.faults.leadership import FAULT


class FakeElections:
    """A quorum led by node 2. When its leader is cut off from all others, the next of these winners leads."""

    def __init__(self, context, *winners):
        self.links, self.winners, self.now, self.cuts = context.links, list(winners), 2, []
        context.leader = self.leader

    def leader(self):
        cut_off = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b and self.now in (a, b)}
        if cut_off <= self.links.down:
            self.cuts.append(set(self.links.down))
            self.now = self.winners.pop(0)
        return self.now


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(leadership, "APPEND_SECONDS", 0.0)
    monkeypatch.setattr(leadership, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(leadership, "ELECTION_SECONDS", 0.2)


def inject(context, step):
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, step.value)))


def test_leader_that_leads_already_is_left_alone(context):
    elections = FakeElections(context)
    assert inject(context, lead(LEADER)) == {"nodes": [2], "label": "n2 leads"}
    assert elections.cuts == []


def test_elections_are_repeated_until_the_chosen_node_wins_and_all_links_are_restored(context):
    FakeElections(context, 3, 1)
    assert inject(context, lead("n1")) == {"nodes": [1], "label": "n1 leads after 2 elections"}
    assert context.links.down == set()


def test_links_that_were_cut_before_stay_cut(context):
    context.links.down = {(1, 3)}
    context.cut_links = frozenset({(1, 3)})
    FakeElections(context, 1)
    inject(context, lead("n1"))
    assert context.links.down == {(1, 3)}
    assert [1, 3] not in FAULT.undo("lead", FAULT.resolve(context, "lead", {"who": "n1"})).details["links"]


def test_quorum_that_elects_nobody_is_a_failure_and_its_links_are_restored(context):
    context.leader = lambda: None if context.links.down else 2
    with pytest.raises(PeerFailure, match="waiting for a leader other than n2: none after"):
        inject(context, lead("n1"))
    assert context.links.down == set()


def test_node_that_never_wins_is_a_failure(context):
    FakeElections(context, *[3, 2] * leadership.ATTEMPTS_MAX)
    with pytest.raises(PeerFailure, match=f"lead n1: n2 leads after {leadership.ATTEMPTS_MAX} elections"):
        inject(context, lead("n1"))


def test_node_that_need_not_win_is_none(context):
    FakeElections(context, 3, 2, 3, 2, 3, 2)
    expected = {"nodes": [2], "label": "n2 leads, not n1, after 6 elections"}
    assert inject(context, lead("n1", is_required=False)) == expected
    assert context.links.down == set()


def test_role_must_have_one_node(context):
    with pytest.raises(PeerFailure, match="lead: expected one node in the role all, found 3"):
        FAULT.resolve(context, "lead", {"who": ALL})
    assert FAULT.resolve(context, "lead", {"who": FOLLOWERS})["nodes"] in ([1], [3])
