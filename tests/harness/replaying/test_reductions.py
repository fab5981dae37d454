"""A failing plan is reduced to what its failure needs, by oracles that answer at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.conditions import ALL_FOLLOW_LEADER, all_follow
from harness.model.faults.membership import await_membership
from harness.model.story import ALL, LEADER, Step, cut, heal, kill, mark, sleep, start, wait_until
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.replaying.reductions import minimized, moves_of, reduced, with_waits_of


def plan(*steps: Step, **values: object) -> Plan:
    return Plan.model_validate(
        {"name": "explore", "seed": 7, "story": [StoryStep.of(step).model_dump() for step in steps], **values}
    )


STORY = (
    wait_until(ALL_FOLLOW_LEADER), sleep(2),
    mark("cut"), cut(LEADER), sleep(4), heal(), sleep(1),
    mark("kill"), kill(LEADER), sleep(3), start(), heal(), sleep(1),
    mark("all"), cut(ALL), sleep(8), heal(), sleep(1),
)  # fmt: skip


@given(size=st.integers(1, 40), data=st.data())
def test_minimized_keeps_what_is_needed_and_nothing_else(size: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, size - 1)))
    asked: list[Sequence[int]] = []

    def fails(kept: Sequence[int]) -> bool:
        asked.append(kept)
        return needed <= set(kept)

    assert minimized(range(size), fails) == sorted(needed)
    assert len(asked) <= 4 * size + 8


@given(size=st.integers(1, 12), seed=st.integers(0, 2**16))
def test_minimized_is_minimal_for_any_deterministic_oracle(size: int, seed: int) -> None:
    """The oracle is arbitrary: a hash of what is kept says whether that fails."""

    def fails(kept: Sequence[int]) -> bool:
        return len(kept) == size or hash((seed, *kept)) % 3 == 0

    left = minimized(range(size), fails)
    assert fails(left) or not left
    assert not any(fails(left[:at] + left[at + 1 :]) for at in range(len(left)))


def test_story_has_a_part_for_each_move() -> None:
    parts = moves_of(plan(*STORY).story)
    assert [part[0].value for part in parts[1:]] == ["cut", "kill", "all"]
    assert [step for part in parts for step in part] == plan(*STORY).story
    unmarked = [step for step in STORY if step.f != "mark"]
    assert [[step.f for step in part] for part in moves_of(plan(*unmarked).story)] == [
        ["await", "sleep", "cut", "sleep", "heal", "sleep"],
        ["kill", "sleep", "start", "heal", "sleep"],
        ["cut", "sleep", "heal", "sleep"],
    ]


def test_plan_is_reduced_to_the_step_that_fails() -> None:
    tried: list[str] = []

    def fails(text: str, candidate: Plan) -> bool:
        tried.append(text)
        return any(step.f == "kill" for step in candidate.story)

    large = plan(
        *STORY, nodes=5, voters=3, workload="set", concurrency=12, pinned=6, bursts=2, rate=400, disk="ext4",
        switch={"reference.read_mode": "lease"}, node_switches={2: {"reference.pre_vote": "false"}}, record_rpcs=True,
    )  # fmt: skip
    small = reduced(large, fails)
    assert [step.f for step in small.story] == ["await", "kill"]
    assert (small.nodes, small.voters, small.concurrency, small.pinned, small.burst_seconds) == (3, None, 2, 0, None)
    assert (small.switches, small.node_switches, small.record_rpcs, small.disk) == ({}, {}, False, "directory")
    assert small.rate_per_second == 10
    assert (small.workload, small.seed) == ("set", 7)
    assert "2 moves of 3" in tried or "1 move of 3" in tried


def test_what_the_failure_needs_stays() -> None:
    def fails(_text: str, candidate: Plan) -> bool:
        pauses = sum(step.value for step in candidate.story if step.f == "sleep")
        return pauses >= 3 and candidate.nodes == 5 and candidate.switches == {"reference.read_mode": "lease"}

    small = reduced(plan(*STORY, nodes=5, switch={"reference.read_mode": "lease"}), fails)
    assert {step.f for step in small.story} == {"await", "sleep"}
    assert 3 <= sum(step.value for step in small.story if step.f == "sleep") < 6
    assert (small.nodes, small.switches) == (5, {"reference.read_mode": "lease"})


def test_nothing_is_changed_if_nothing_can_be() -> None:
    large = plan(*STORY)
    assert reduced(large, lambda _text, candidate: candidate == large) == large


@pytest.mark.parametrize(
    ("steps", "renamed"),
    [
        ((cut(LEADER), heal()), (cut(LEADER), heal())),
        ((kill("n4"), kill("n3"), start("n4")), (kill("n2"), kill("n3"), start("n2"))),
        (
            (Step("cut", {"only": [[1, 2], [2, 5]], "leader_as": 1}),),
            (Step("cut", {"only": [[1, 2], [2, 3]], "leader_as": 1}),),
        ),
        ((Step("heal_links", {"links": [[1, 3]]}),), (Step("heal_links", {"links": [[1, 3]]}),)),
    ],
)
def test_steps_name_nodes_that_are_left(steps: tuple[Step, ...], renamed: tuple[Step, ...]) -> None:
    small = reduced(plan(*steps, nodes=5), lambda _text, candidate: len(candidate.story) == len(steps))
    assert small.nodes == 3
    assert small.story == plan(*renamed).story


def test_more_nodes_than_steps_name_are_not_left_out() -> None:
    steps = (kill("n1"), kill("n3"), kill("n4"), kill("n5"))
    small = reduced(plan(*steps, nodes=6), lambda _text, candidate: len(candidate.story) == len(steps))
    assert (small.nodes, [step.value["who"] for step in small.story]) == (4, ["n1", "n3", "n4", "n2"])


def test_renamed_node_keeps_its_switches() -> None:
    name = "controller.quorum.election.timeout.ms"
    own = {str(node): {name: str(1000 * node)} for node in (3, 5)}

    def fails(_text: str, candidate: Plan) -> bool:
        killed = [int(step.value["who"][1:]) for step in candidate.story if step.f == "kill"]
        return [candidate.node_switches.get(node, {}).get(name) for node in killed] == ["5000"]

    small = reduced(plan(kill("n5"), nodes=5, node_switches=own), fails)
    assert (small.nodes, small.node_switches) == (3, {3: {name: "5000"}})


def test_story_that_names_what_no_step_chose_is_not_tried() -> None:
    chosen = (Step("choose", {"name": "victim", "who": "leader"}), kill("$victim"))

    def fails(_text: str, candidate: Plan) -> bool:
        names = [step.f for step in candidate.story]
        assert names != ["kill"], "no valid story"
        return "kill" in names

    assert [step.f for step in reduced(plan(*chosen), fails).story] == ["choose", "kill"]


@pytest.mark.parametrize(("hosts", "has_early_pauses"), [("netns", True), ("simulation", False)])
def test_load_and_pauses_of_simulated_runs_are_reduced_last(hosts: str, has_early_pauses: bool) -> None:
    """Real hosts, on which what remains is confirmed, may need the pauses."""
    asked: list[str] = []

    def fails(text: str, candidate: Plan) -> bool:
        asked.append(text)
        return any(step.f == "kill" for step in candidate.story) and any(step.f == "sleep" for step in candidate.story)

    reduced(plan(*STORY, hosts=hosts, rate=40, switch={"linger": "1"}), fails)
    pauses = [at for at, text in enumerate(asked) if "pause" in text]
    fewer_operations = asked.index("fewer operations")
    without_switch = asked.index("without linger")
    assert (pauses[0] < fewer_operations) == has_early_pauses
    assert (fewer_operations < without_switch) == has_early_pauses


def test_reduced_plan_gets_the_waits_and_the_load_of_the_larger_one_back() -> None:
    led, caught_up = wait_until(ALL_FOLLOW_LEADER), await_membership()
    larger = plan(led, cut(LEADER), sleep(4), heal(), mark("kill"), kill(LEADER), caught_up, heal(), sleep(1), rate=40)
    smaller = plan(cut(LEADER), kill(LEADER), sleep(0.5), heal(), nodes=3, rate=10)
    restored = with_waits_of(larger, smaller)
    expected = (led, cut(LEADER), sleep(4), mark("kill"), kill(LEADER), caught_up, heal(), sleep(1))
    assert restored.story == [StoryStep.of(step) for step in expected]
    assert (restored.nodes, restored.rate_per_second) == (3, 40)


@pytest.mark.parametrize("hosts", ["netns", "simulation"])
def test_wait_for_a_certain_leader_becomes_one_for_any(hosts: str) -> None:
    """It stays where the failure needs it."""

    def fails(_text: str, candidate: Plan) -> bool:
        waits = [step.value["condition"] for step in candidate.story if step.f == "await"]
        return len(waits) == 3 and all_follow(2).to_json() in waits

    story = (wait_until(all_follow(1)), kill(LEADER), wait_until(all_follow(2)), start(), wait_until(all_follow(3)))
    small = reduced(plan(*story, hosts=hosts), fails)
    waits = [wait_until(each) for each in (ALL_FOLLOW_LEADER, all_follow(2), ALL_FOLLOW_LEADER)]
    assert small.story == [StoryStep.of(step) for step in waits]
