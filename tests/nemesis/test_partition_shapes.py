"""What the shapes of a cut mean in directed links, and who is meant by a role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model import BadInput, PeerFailure
from harness.model.story import CUT_OFF, DOWN, FOLLOWERS, LEADER, PAUSED, Step, cut, cut_links, only_links, split
from harness.scenarios import scenario
from nemesis.partition import all_but, between, isolation, resolve, swap


def test_isolation_cuts_both_ways_or_what_a_node_sends_or_what_it_receives():
    assert isolation((1, 2, 3), 1, "both") == {(1, 2), (1, 3), (2, 1), (3, 1)}
    assert isolation((1, 2, 3), 1, "out") == {(1, 2), (1, 3)}
    assert isolation((1, 2, 3), 1, "in") == {(2, 1), (3, 1)}


def test_groups_are_cut_from_each_other_and_not_within():
    assert between([[1], [2, 3]]) == {(1, 2), (1, 3), (2, 1), (3, 1)}
    assert between([[1], [2], [3]]) == {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)}


def test_all_links_but_the_named_pairs_are_cut():
    assert all_but((1, 2, 3), [(1, 2)]) == {(1, 3), (3, 1), (2, 3), (3, 2)}


STAR = [(1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("leader", "role", "expected"),
    [
        (3, 3, {(1, 3), (2, 3)}),
        (1, 3, {(3, 1), (2, 1)}),
        (2, 3, {(1, 2), (3, 2)}),
    ],
    ids=["the leader is whom the text means", "the leader is node 1", "the leader is node 2"],
)
def test_the_leader_takes_its_role_s_place_and_the_other_takes_the_leader_s(leader, role, expected):
    assert swap(STAR, leader, role) == expected


def test_pv_02_gives_node_1_the_place_of_node_3_when_node_1_leads(situation):
    (picture,) = [step for step in scenario("PV-02").story if step.f == "cut"]
    five = replace(situation, nodes=(1, 2, 3, 4, 5), leader=lambda: 1)
    links, label = resolve(five, picture.value)
    assert label == "only links 1-5 2-1 2-4 3-1 3-2 are up"
    assert links == all_but(five.nodes, [(1, 2), (1, 3), (2, 3), (2, 4), (1, 5)])


SHAPES = {
    "the leader": (cut(LEADER), {(2, 1), (2, 3), (1, 2), (3, 2)}, "leader n2 cut off"),
    "a follower cannot send": (cut(FOLLOWERS, "out"), {(3, 1), (3, 2)}, "n3 cannot send"),
    "a node by name": (cut("n1", "in"), {(2, 1), (3, 1)}, "n1 cannot receive"),
    "two sides": (split([1], [2, 3]), {(1, 2), (1, 3), (2, 1), (3, 1)}, "n1 | n2,n3"),
    "links": (cut_links([(1, 2)]), {(1, 2)}, "cut n1>n2"),
    "only": (only_links([(1, 3)], leader_as=3), {(1, 3), (3, 1), (2, 3), (3, 2)}, "only links 1-2 are up"),
}


@pytest.mark.parametrize(("step", "links", "label"), SHAPES.values(), ids=SHAPES)
def test_a_shape_of_a_story_means_these_links_and_says_so(situation, step, links, label):
    assert resolve(situation, step.value) == (links, label)


@pytest.mark.parametrize(
    "step",
    [
        Step("cut", {}),
        Step("cut", {"who": "n9"}),
        Step("cut", {"who": "boss"}),
        Step("cut", {"who": "n1", "ways": "up"}),
    ],
    ids=["no shape", "an unknown node", "an unknown role", "an unknown way"],
)
def test_a_shape_that_is_none_is_bad_input(situation, step):
    with pytest.raises(BadInput, match="expected"):
        resolve(situation, step.value)


def test_roles_mean_whoever_is_so_now(situation):
    assert situation.whoever_is(LEADER) == (2,)
    assert situation.whoever_is(FOLLOWERS) == (3,)
    assert situation.whoever_is("n1") == (1,)
    assert [situation.whoever_is(who) for who in (DOWN, PAUSED, CUT_OFF)] == [(), (), ()]
    situation.processes.states.update({1: "gone", 3: "paused"})
    situation.cut_off = (3,)
    assert [situation.whoever_is(who) for who in (DOWN, PAUSED, CUT_OFF)] == [(1,), (3,), (3,)]


def test_a_dead_or_paused_node_is_nobody_s_follower(situation):
    situation.processes.states[3] = "paused"
    assert situation.whoever_is(FOLLOWERS) == (1,)
    situation.processes.states[1] = "gone"
    with pytest.raises(PeerFailure, match="no node runs beside n2"):
        situation.whoever_is(FOLLOWERS)


def test_while_nobody_leads_the_leader_cannot_be_meant(situation):
    with pytest.raises(PeerFailure, match="no node claims to lead"):
        replace(situation, leader=lambda: None).whoever_is(LEADER)
