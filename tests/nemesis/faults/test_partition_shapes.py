"""The directed links of a partition's shapes, and the resolution of roles to nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from harness.model import BadInput, PeerFailure
from harness.model.story import (
    ALL,
    CUT_OFF,
    DOWN,
    FOLLOWERS,
    LEADER,
    MAJORITY,
    MINORITY,
    ONE,
    PAUSED,
    Step,
    cut,
    cut_links,
    only_links,
    partition,
    split,
    swizzle,
)
from harness.plugins import scenario
from nemesis.faults.partition import FAULT
from nemesis.faults.partition_shapes import all_but, between, bridge, halves, isolation, majorities_ring, one_way, swap


def resolved_links(context, value):
    """The links of a shape, as a set, and its label."""
    resolved = FAULT.resolve(context, "cut", FAULT.actions["cut"].complete(value))
    return {(a, b) for a, b in resolved["links"]}, resolved["label"]


def test_isolation_cuts_both_directions_or_one():
    assert isolation((1, 2, 3), [1], "both") == {(1, 2), (1, 3), (2, 1), (3, 1)}
    assert isolation((1, 2, 3), [1], "out") == {(1, 2), (1, 3)}
    assert isolation((1, 2, 3), [1], "in") == {(2, 1), (3, 1)}
    assert isolation((1, 2, 3), [1, 2], "out") == {(1, 2), (1, 3), (2, 1), (2, 3)}


def test_groups_are_cut_from_each_other_but_not_within():
    assert between([[1], [2, 3]]) == {(1, 2), (1, 3), (2, 1), (3, 1)}
    assert between([[1], [2], [3]]) == {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)}


def test_all_links_except_the_named_pairs_are_cut():
    assert all_but((1, 2, 3), [(1, 2)]) == {(1, 3), (3, 1), (2, 3), (3, 2)}


STAR = [(1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("leader", "role", "expected"),
    [
        (3, 3, {(1, 3), (2, 3)}),
        (1, 3, {(3, 1), (2, 1)}),
        (2, 3, {(1, 2), (3, 2)}),
    ],
    ids=["the leader has the role", "node 1 leads", "node 2 leads"],
)
def test_the_leader_and_the_node_of_its_role_are_exchanged(leader, role, expected):
    assert swap(STAR, leader, role) == expected


def test_pv_02_exchanges_nodes_1_and_3_if_node_1_leads(context):
    (step_of_cut,) = [step for step in scenario("PV-02").story if step.f == "cut"]
    five = replace(context, nodes=(1, 2, 3, 4, 5), leader=lambda: 1)
    links, label = resolved_links(five, step_of_cut.value)
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
def test_a_shape_resolves_to_links_and_a_label(context, step, links, label):
    assert resolved_links(context, step.value) == (links, label)


def test_one_way_cuts_the_links_from_or_to_the_first_side():
    assert one_way([1], [2, 3], "out") == {(1, 2), (1, 3)}
    assert one_way([1], [2, 3], "in") == {(2, 1), (3, 1)}
    assert one_way([1], [1, 2], "both") == {(1, 2), (2, 1)}


def test_the_first_half_is_the_smaller_one():
    assert halves([4, 2, 1, 3, 5], "out") == {(a, b) for a in (4, 2) for b in (1, 3, 5)}


def test_only_the_bridge_sees_both_sides():
    links = bridge([5, 1, 3, 2, 4], "both")
    assert links == one_way([5, 1], [2, 4], "both")
    assert not any(3 in link for link in links)


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 9])
def test_in_a_majorities_ring_each_node_sees_a_different_majority(count):
    nodes = list(range(1, count + 1))
    cut_links_of_ring = majorities_ring(nodes)
    assert cut_links_of_ring == {(b, a) for a, b in cut_links_of_ring}
    seen = {a: frozenset(b for b in nodes if (a, b) not in cut_links_of_ring) for a in nodes}
    assert all(len(each) >= count // 2 + 1 for each in seen.values())
    assert len(set(seen.values())) == count if count > 4 else True
    assert any(len(each) < count for each in seen.values())


def test_shapes_of_the_whole_network_are_random_and_labelled(context):
    five = replace(context, nodes=(1, 2, 3, 4, 5))
    assert resolved_links(five, partition("halves").value)[1] == "n1,n2 | n3,n4,n5 (cut off)"
    assert resolved_links(five, partition("random halves", "out").value)[1] == "n4,n5 | n1,n2,n3 (cannot send)"
    assert resolved_links(five, partition("bridge").value)[1] == "n4,n5 | n1,n2, n3 sees both"
    assert resolved_links(five, partition("primaries", "in").value) == (
        {(n, 2) for n in (1, 3, 4, 5)},
        "leader n2 cannot receive",
    )
    links, label = resolved_links(five, partition("minority").value)
    assert (links, label) == (one_way([4, 5], [1, 2, 3], "both"), "n4,n5 | n1,n2,n3 (cut off)")
    assert resolved_links(five, partition("majorities ring").value)[1] == "majorities ring n5 n4 n3 n2 n1"


def test_a_swizzled_node_that_is_healed_does_not_see_nodes_that_are_still_cut_off():
    down, seen = set(), []
    for step in swizzle([1, 2], [2, 1], nodes=3, pause_seconds=1):
        if step.f == "cut":
            down |= {tuple(link) for link in step.value["links"]}
        elif step.f == "heal_links":
            down -= {tuple(link) for link in step.value["links"]}
        if step.f != "sleep":
            seen.append(frozenset(down))
    first, both = isolation((1, 2, 3), [1], "both"), isolation((1, 2, 3), [1, 2], "both")
    assert seen == [first, both, first, frozenset()]


def test_roles_of_several_nodes_resolve_to_running_nodes(context):
    five = replace(context, nodes=(1, 2, 3, 4, 5))
    five.processes.states.update({4: "running", 5: "gone"})
    sizes = {who: len(five.nodes_in_role(who)) for who in (ONE, MINORITY, MAJORITY, ALL)}
    assert sizes == {ONE: 1, MINORITY: 2, MAJORITY: 3, ALL: 4}


def test_the_floor_limits_the_nodes_that_may_stop(context):
    context.floor = 2
    assert context.stoppable((1, 2, 3)) == (1,)
    context.processes.states[3] = "gone"
    assert context.stoppable((1, 3)) == (3,)


@pytest.mark.parametrize(
    "step",
    [
        Step("cut", {}),
        Step("cut", {"who": "boss"}),
        Step("cut", {"who": "n1", "direction": "up"}),
    ],
    ids=["no shape", "unknown role", "unknown direction"],
)
def test_a_plan_refuses_invalid_arguments(step):
    with pytest.raises(ValidationError):
        FAULT.actions["cut"].complete(step.value)


def test_a_node_that_does_not_exist_is_bad_input(context):
    with pytest.raises(BadInput, match="node 'n9': expected"):
        resolved_links(context, cut("n9").value)


def test_roles_resolve_to_the_nodes_that_have_them_now(context):
    assert context.nodes_in_role(LEADER) == (2,)
    assert context.nodes_in_role(FOLLOWERS) == (3,)
    assert context.nodes_in_role("n1") == (1,)
    assert [context.nodes_in_role(who) for who in (DOWN, PAUSED, CUT_OFF)] == [(), (), ()]
    context.processes.states.update({1: "gone", 3: "paused"})
    context.cut_off = (3,)
    assert [context.nodes_in_role(who) for who in (DOWN, PAUSED, CUT_OFF)] == [(1,), (3,), (3,)]


def test_a_stopped_or_paused_node_is_not_a_follower(context):
    context.processes.states[3] = "paused"
    assert context.nodes_in_role(FOLLOWERS) == (1,)
    context.processes.states[1] = "gone"
    with pytest.raises(PeerFailure, match="no node runs besides the leader, n2"):
        context.nodes_in_role(FOLLOWERS)


def test_the_role_leader_fails_without_a_leader(context):
    with pytest.raises(PeerFailure, match="no node claims to lead"):
        replace(context, leader=lambda: None).nodes_in_role(LEADER)
