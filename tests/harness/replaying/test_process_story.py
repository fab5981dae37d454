"""The story of a simulated run for real processes: nodes by number, leaders in turn, voter changes as they ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.model.conditions import LEADER_KNOWN, is_follower, is_leader, responds
from harness.model.faults.disks import lose_unsynced
from harness.model.faults.membership import add_voter, remove_voter
from harness.model.faults.rpc import DROP, HOLD, INTERCEPT, Api, RpcMatch, RpcRule, intercept
from harness.model.story import (
    ALL,
    DOWN,
    LEADER,
    Step,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    lead,
    pause,
    resume,
    sleep,
    start,
    stop,
    when,
)
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.replaying.leaderships import leaders_in_turn
from harness.replaying.process_story import (
    ELECTION_SECONDS,
    FOLLOW_SECONDS,
    RECOVERY_SECONDS,
    START_SECONDS,
    process_story,
)
from harness.simulating.simulated import simulate
from harness.simulating.storing import store_tables
from results.store import RunDirectory, new_run
from tests.support.stored_runs import BEGIN

Stored = Callable[..., RunDirectory]
HELD_FETCHES = RpcRule("held", RpcMatch((Api.FETCH,)), HOLD, may_be_idle=True)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """A simulated timed run of this story, in a store."""

    def of(*story: Step, **values: Any) -> RunDirectory:
        steps = [StoryStep.of(step) for step in story]
        given = {"workload": "register", "hosts": "simulation", "timed": True, "rate": 2.0, "nodes": 3, **values}
        plan = Plan(name="run", seed=3, story=steps, **given)
        run = new_run(tmp_path, "run", BEGIN)
        run.plan.write_text(plan.as_json())
        store_tables(simulate(plan, observes=True), run)
        return run

    return of


def rules_of(step: Step) -> list[str]:
    return [rule["name"] for rule in step.value["rules"]] if step.f == INTERCEPT else []


def position(story: Sequence[Step], step: Step) -> int:
    return list(story).index(step)


def both_directions(node: int) -> list[tuple[int, int]]:
    return [link for peer in {1, 2, 3} - {node} for link in ((node, peer), (peer, node))]


def test_a_role_becomes_the_node_that_it_was_and_the_next_leader_alone_gets_votes(stored: Stored) -> None:
    run = stored(sleep(3), cut(LEADER), sleep(6), heal())
    first, second = (int(name[1:]) for name in leaders_in_turn(run))
    story = process_story(run, starts_nodes=False)
    assert story[0] == lead(f"n{first}")
    links = both_directions(first)
    cut_at, elected_at = position(story, cut_links(links)), position(story, when(is_leader(second), ELECTION_SECONDS))
    assert position(story, when(is_leader(first), ELECTION_SECONDS)) < cut_at < elected_at
    before = next(step for step in reversed(story[:cut_at]) if step.f == INTERCEPT)
    assert rules_of(before) == ["all votes"]
    assert rules_of(story[elected_at - 1]) == [f"votes for others than n{second}"]
    assert story[elected_at - 1].value["rules"][0]["match"]["sources"] == sorted({1, 2, 3} - {second})
    assert story[elected_at + 1] == lead(f"n{second}", is_required=False)
    assert rules_of(story[elected_at + 2]) == ["none"]
    third = 6 - first - second
    assert story[elected_at + 3] == when(is_follower(third), FOLLOW_SECONDS)
    assert elected_at < position(story, heal_links(links))
    assert list(story[-2:]) == [heal(), when(LEADER_KNOWN, RECOVERY_SECONDS)]
    assert sum(step.value for step in story if step.f == "sleep") < 9


def test_nodes_that_start_are_waited_for_and_get_no_votes_until_then(stored: Stored) -> None:
    run = stored(sleep(3), kill(LEADER), sleep(0.05), start(DOWN), sleep(5), heal())
    story = process_story(run, starts_nodes=True)
    starts = [step for node in (1, 2, 3) for step in [start(f"n{node}")]]
    waits = [when(responds(node), START_SECONDS) for node in (1, 2, 3)]
    assert rules_of(story[0]) == ["all votes"]
    assert story[1:7] == [*starts, *waits]
    (killed,) = (step for step in story if step.f == "kill")
    at = position(story, killed)
    assert killed == kill(leaders_in_turn(run)[0])
    assert story[at + 1 : at + 4] == [
        sleep(0.05),
        start(leaders_in_turn(run)[0]),
        when(responds(int(leaders_in_turn(run)[0][1:])), START_SECONDS),
    ]


def test_a_fault_without_effect_is_left_out_and_a_power_failure_is_one_step(stored: Stored) -> None:
    story = process_story(
        stored(sleep(3), start("n2"), resume(), lose_unsynced("n1"), sleep(1), heal()), starts_nodes=False
    )
    on_nodes = [step for step in story if step.f in ("start", "resume", "kill", "lose_unsynced")]
    assert on_nodes == [lose_unsynced("n1"), start("n1")]


@pytest.mark.parametrize(("who", "expected"), [("n2", ["stop"]), (ALL, ["kill"] * 3)])
def test_nodes_that_stop_together_are_killed(stored: Stored, who: str, expected: list[str]) -> None:
    """The brokers of a cluster without a controller do not shut down."""
    story = process_story(stored(sleep(3), stop(who), sleep(1), start(DOWN), sleep(1), heal()), starts_nodes=False)
    assert [step.f for step in story if step.f in ("stop", "kill")] == expected


def test_a_paused_node_goes_on_where_all_was_healed(stored: Stored) -> None:
    story = process_story(stored(sleep(3), pause("n2"), sleep(1), heal(), sleep(1), heal()), starts_nodes=False)
    assert [step.value["who"] for step in story if step.f in ("pause", "resume")] == ["n2", "n2"]
    assert [step.f for step in story].count("heal") == 1


def test_drawn_rules_stay_beside_those_of_the_elections(stored: Stored) -> None:
    run = stored(sleep(3), intercept(HELD_FETCHES), sleep(6), heal(), sleep(1), heal())
    assert len(leaders_in_turn(run)) > 1
    installed = [rules_of(step) for step in process_story(run, starts_nodes=False) if step.f == INTERCEPT]
    assert ["all votes", "held"] in installed
    assert "held" not in installed[-1]


KIP_853 = {"nodes": 4, "voters": 3, "switch": {"reference.voter_changes": "kip-853"}}


def test_a_committed_voter_change_is_requested_and_one_without_effect_is_not(stored: Stored) -> None:
    run = stored(sleep(3), add_voter("n1"), sleep(1), add_voter("n4"), sleep(2), heal(), **KIP_853)
    story = process_story(run, starts_nodes=False)
    assert [step for step in story if step.f == "add_voter"] == [add_voter("n4", is_answered="any")]
    assert not any("fetches of the others" in rules_of(step) for step in story)
    assert [step.f for step in story[-3:]] == ["await_membership", "heal", "await"]


def test_the_record_of_a_change_that_is_not_committed_stays_with_those_that_had_it(stored: Stored) -> None:
    leader = leaders_in_turn(stored(sleep(3), heal(), **KIP_853))[0]
    others = sorted({1, 2, 3, 4} - {int(leader[1:])})
    run = stored(sleep(3), cut(LEADER), sleep(0.3), remove_voter(leader), sleep(6), heal(), **KIP_853)
    story = process_story(run, starts_nodes=False)
    at = position(story, remove_voter(leader, is_answered="any"))
    (rule,) = (rule for rule in story[at - 1].value["rules"] if rule["name"] == "fetches of the others")
    assert rule["match"] == {"api_keys": [Api.FETCH], "sources": others}
    assert rule["action"] == {"do": DROP.do}
    after = [rules_of(step) for step in story[at + 1 :] if step.f == INTERCEPT]
    assert all("fetches of the others" not in names for names in after)
    assert after


@pytest.mark.kafka
def test_a_node_that_exits_because_of_an_answer_asks_nobody_else(stored: Stored) -> None:
    """EX-17: n4 starts for the first time, and a voter that has restarted names a leader without endpoints."""
    quorum = {"nodes": 4, "voters": 3, "system": "kafka:3.9.1", "layout": "combined"}
    leader = leaders_in_turn(stored(sleep(3), heal(), **quorum))[0]
    returning, absent = sorted({"n1", "n2", "n3"} - {leader})
    run = stored(
        *(kill("n4"), lose_unsynced("n4"), sleep(3), kill(absent), remove_voter(leader), sleep(0.5)),
        *(kill(leader), kill(returning), sleep(0.1), start(returning), start("n4"), sleep(1), heal()),
        **quorum,
    )
    story = process_story(run, starts_nodes=True)
    at = next(number for number, step in reversed(list(enumerate(story))) if step == start("n4"))
    (rule,) = (rule for rule in story[at - 1].value["rules"] if rule["name"] == "fetches of n4")
    others = sorted({1, 2, 3} - {int(returning[1:])})
    assert rule["match"] == {"api_keys": [Api.FETCH], "sources": [4], "targets": others}
