"""The order of a run: the story beside the clients, the rest of the story without them, then the final reads; and what
clients ask about writes of unknown outcome."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.model import Op
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.story import FINAL_READS, Step, lead, sleep, stop_clients, wait_until
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.planning.workloads import QUESTION_SECONDS, generator_of, workload_of
from tests.support.engine_simulation import LATENCY_NS, perfect, simulate

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


@pytest.mark.parametrize(("workload", "options"), [("set", {}), ("register", {"keys": "hot-and-cold"})])
def test_write_of_unknown_outcome_is_read_back_seconds_later(workload: str, options: dict[str, str]) -> None:
    story = [StoryStep.of(sleep(30))]
    plan = Plan(name="ask", seed=1, system="reference", workload=workload, option=options, story=story, rate=5)
    in_doubt: list[Op] = []

    def first_write_is_in_doubt(op: Op) -> tuple[int, Op]:
        if in_doubt or op.f not in ("add", "write"):
            return perfect(op)
        in_doubt.append(op)
        return LATENCY_NS, op.info("no response")

    history = simulate(generator_of(plan, workload_of(plan)), plan.concurrency, first_write_is_in_doubt, 20_000)
    (written,) = in_doubt
    reads = {
        op.time_ns - written.time_ns for op in history if (op.type, op.f, op.key) == ("invoke", "read", written.key)
    }
    for seconds in QUESTION_SECONDS:
        assert any(seconds <= after / 1e9 <= seconds + 0.01 for after in reads)


def test_changes_are_made_in_order_and_each_again_until_it_is_ok() -> None:
    story = [StoryStep.of(sleep(6))]
    switches = {"reference.voter_changes": "kip-642"}
    plan = Plan(name="move", seed=1, workload="reassignment", nodes=6, voters=3, switch=switches, story=story, rate=20)
    refusals = iter([False, True, True, False])

    def sometimes_refused(op: Op) -> tuple[int, Op]:
        is_refused = op.f == "reassign" and next(refusals, False)
        return (LATENCY_NS, op.fail("no leader")) if is_refused else perfect(op)

    history = simulate(generator_of(plan, workload_of(plan)), plan.concurrency, sometimes_refused, 20_000)
    end = next(place for place, op in enumerate(history) if op.value == FINAL_READS)
    changing = [op for op in history[:end] if op.process >= 0 and op.process % plan.concurrency == 0]
    assert changing[0].f == "voters"
    changes = [(op.value, op.type) for op in changing if op.f == "reassign" and op.type != "invoke"]
    there, back = [4, 5, 6], [1, 2, 3]
    assert changes[:6] == [(there, "ok"), (back, "fail"), (back, "fail"), (back, "ok"), (there, "ok"), (back, "ok")]
    others = Counter(op.f for op in history[:end] if op.type == "invoke" and op.process % plan.concurrency)
    assert min(others[f] for f in ("read", "write", "voters")) > 0


def final_reads(workload: str, system: str, concurrency: int) -> list[Op]:
    """The invocations after the final mark."""
    story = [StoryStep.of(sleep(1))]
    plan = Plan(name="end", seed=1, system=system, workload=workload, concurrency=concurrency, story=story, rate=5)
    history = simulate(generator_of(plan, workload_of(plan)), concurrency, max_rows=20_000)
    at = next(place for place, op in enumerate(history) if op.value == FINAL_READS)
    return [op for op in history[at:] if op.type == "invoke" and op.process >= 0]


@pytest.mark.parametrize("system", ["reference", "kafka:4.3.1"])
def test_final_reads_that_fail_are_not_repeated_at_once(system: str) -> None:
    """Nodes that are down refuse thousands of connections a second, which would all be in the history."""
    plan = Plan(name="end", seed=1, system=system, workload="set", story=[StoryStep.of(sleep(1))], rate=5)

    def refused(op: Op) -> tuple[int, Op]:
        return (LATENCY_NS, op.fail("connection refused")) if op.f == "read" else perfect(op)

    history = simulate(generator_of(plan, workload_of(plan)), plan.concurrency, refused, 400_000)
    at = next(place for place, op in enumerate(history) if op.value == FINAL_READS)
    tried = sum(op.type == "invoke" for op in history[at:])
    assert 500 < tried < 60_000 / 50 * plan.concurrency * 1.1


def test_final_reads_are_those_of_one_client_where_the_leader_answers_and_of_all_where_any_node_does() -> None:
    assert Counter(op.key for op in final_reads("set", "reference", 4)) == {f"s{part}": 1 for part in range(256)}
    assert Counter(op.key for op in final_reads("set", "kafka:4.3.1", 4)) == {f"s{part}": 4 for part in range(256)}
