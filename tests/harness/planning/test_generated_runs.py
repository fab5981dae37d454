"""The order of a run: the story beside the clients, the rest of the story without them, then the final reads."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.story import FINAL_READS, Step, lead, sleep, stop_clients, wait_until
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.planning.workloads import generator_of, workload_of
from tests.support.engine_simulation import simulate

CUT, HEAL = Step("cut", {"who": "n1"}), Step("heal")


def recorded(*story: Step) -> list[str]:
    """What happened, in order: a nemesis operation or mark, or `clients` for any number of their operations."""
    steps = [StoryStep.of(step) for step in story]
    plan = Plan(name="order", seed=1, system="reference", workload="register", story=steps)
    seen: list[str] = []
    for op in simulate(generator_of(plan, workload_of(plan)), plan.concurrency):
        if op.process >= 0:
            event = "clients"
        elif op.type == "invoke" or isinstance(op.value, str):
            event = op.value if isinstance(op.value, str) else op.f
        else:
            continue
        if not seen or seen[-1] != event:
            seen.append(event)
    return seen


def test_clients_stop_where_the_story_says_and_read_once_it_has_ended() -> None:
    story = (sleep(1), CUT, sleep(1), stop_clients(), sleep(1), HEAL, sleep(1))
    expected = ["story", "clients", "cut", "clients", "clients stop", "heal", FINAL_READS, "clients"]
    assert recorded(*story) == expected


def test_clients_go_on_to_the_end_of_a_story_that_does_not_stop_them() -> None:
    story = (sleep(1), CUT, sleep(1), HEAL, sleep(1))
    assert recorded(*story) == ["story", "clients", "cut", "clients", "heal", "clients", FINAL_READS, "clients"]


def test_waits_and_the_choice_of_a_leader_come_before_the_story_begins() -> None:
    story = (wait_until(ALL_FOLLOW_LEADER), lead("n1"), wait_until(ALL_FOLLOW_LEADER), sleep(1), CUT, lead("n2"))
    assert recorded(*story)[:6] == ["await", "lead", "await", "story", "clients", "cut"]
