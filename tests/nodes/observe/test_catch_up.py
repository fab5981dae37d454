"""Final reads wait until every node that responds has received what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from harness.model import PeerFailure
from harness.model.conditions import CAUGHT_UP
from harness.model.story import FINAL_READS, heal
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.planning.workloads import generator_of, workload_of
from nodes.observe.catch_up import CatchUp
from nodes.observe.conditions import QuorumView
from nodes.observe.describe_quorum import QuorumDescription
from nodes.observe.watch import QuorumWatch
from tests.support.engine_simulation import simulate

ALL = frozenset({1, 2, 3})


def view(
    high_watermark: int,
    ends: Mapping[int, int],
    leader: int = 1,
    epoch: int = 4,
    responding: frozenset[int] = ALL,
    observers: Mapping[int, int] | None = None,
) -> QuorumView:
    """The leader's latest response: its high watermark, and the log end offset that it knows of each replica."""
    claim = QuorumDescription(
        *(None, leader, epoch, high_watermark, ends[leader]),
        voters=tuple(ends.items()),
        observers=tuple((observers or {}).items()),
    )
    return QuorumView((1, 2, 3), {leader: claim}, {}, responding)


def test_a_follower_that_has_not_fetched_beyond_the_acknowledged_writes_has_not_caught_up() -> None:
    before = view(10, {1: 12, 2: 12, 3: 10})
    wait = CatchUp(before)
    assert not wait.holds(before), "a poll from before the wait says nothing"
    assert not wait.holds(view(12, {1: 12, 2: 12, 3: 12})), "the first poll sets the goal, offset 12"
    assert not wait.holds(view(13, {1: 14, 2: 14, 3: 12})), "n3 may not know yet that offset 11 is committed"
    assert wait.holds(view(14, {1: 14, 2: 14, 3: 13}))


def test_the_high_watermark_must_pass_the_goal() -> None:
    wait = CatchUp(view(1, {1: 1, 2: 1, 3: 1}))
    assert not wait.holds(view(10, {1: 12, 2: 12, 3: 12}))
    assert not wait.holds(view(12, {1: 15, 2: 15, 3: 15}))
    assert wait.holds(view(13, {1: 15, 2: 15, 3: 15}))


def test_a_new_leader_begins_the_wait_again() -> None:
    wait = CatchUp(view(1, {1: 1, 2: 1, 3: 1}))
    assert not wait.holds(view(10, {1: 12, 2: 12, 3: 12}))
    assert not wait.holds(view(20, {1: 20, 2: 20, 3: 20}, leader=2, epoch=5))
    assert wait.holds(view(22, {1: 22, 2: 22, 3: 22}, leader=2, epoch=5))


def test_a_node_that_does_not_respond_does_not_count_and_one_that_never_catches_up_does() -> None:
    stuck = {1: 15, 2: 15, 3: 5}
    down = CatchUp(view(1, {1: 1, 2: 1, 3: 1}))
    assert not down.holds(view(10, {1: 12, 2: 12, 3: 5}, responding=frozenset({1, 2})))
    assert down.holds(view(15, stuck, responding=frozenset({1, 2})))
    cut_off = CatchUp(view(1, {1: 1, 2: 1, 3: 1}))
    assert not any(cut_off.holds(view(high, stuck)) for high in range(10, 40))


def test_observers_must_catch_up_too() -> None:
    wait = CatchUp(view(1, {1: 1, 2: 1}, responding=ALL))
    assert not wait.holds(view(10, {1: 12, 2: 12}, observers={3: 12}))
    assert not wait.holds(view(14, {1: 14, 2: 14}, observers={3: 12}))
    assert wait.holds(view(14, {1: 14, 2: 14}, observers={3: 13}))


def test_nodes_that_lag_are_named_with_their_offset_and_the_offset_expected() -> None:
    wait = CatchUp(view(1, {1: 1, 2: 1, 3: 1}))
    assert wait.missing(QuorumView((1, 2, 3), {}, {}, ALL)) == "no node leads"
    wait.holds(view(10, {1: 12, 2: 12, 3: 5}))
    assert wait.missing(view(15, {1: 15, 2: 15, 3: 5})) == "n3 is at offset 5; expected above 12 (leader n1)"
    assert wait.missing(view(12, {1: 15, 2: 12}, responding=ALL)) == (
        "the high watermark is at offset 12, n2 is at offset 12, n3 is at offset -1; expected above 12 (leader n1)"
    )
    assert wait.missing(view(15, {1: 15, 2: 15, 3: 15})) == ""


def test_wait_that_times_out_names_the_node_that_lags() -> None:
    async def wait() -> None:
        watch = QuorumWatch(lambda: 7, 0, lambda _observation: None, {}, {})
        watch._claims, watch._responding = dict(view(10, {1: 12, 2: 12, 3: 5}).claims), set(ALL)
        waiting = asyncio.create_task(watch.until(CAUGHT_UP, 0.2))
        await asyncio.sleep(0)
        watch._claims = dict(view(15, {1: 15, 2: 15, 3: 5}).claims)
        await waiting

    with pytest.raises(PeerFailure, match=r"caught up with the leader: .*n3 is at offset 5; expected above 15"):
        asyncio.run(wait())


def final_steps(system: str) -> list[str]:
    """The nemesis's last operations of a run of registers without faults."""
    plan = Plan(name="final", seed=1, system=system, workload="register", story=[StoryStep.of(heal())])
    history = simulate(generator_of(plan, workload_of(plan)), plan.concurrency)
    steps = [op for op in history if (op.process == -1 and op.type == "invoke") or op.value == FINAL_READS]
    return [CAUGHT_UP.name if op.f == "await" else str(op.value or op.f) for op in steps]


def test_final_reads_wait_on_kafka_whose_controllers_answer_from_their_own_image() -> None:
    assert final_steps("kafka:4.3.1")[-2:] == [CAUGHT_UP.name, FINAL_READS]
    assert CAUGHT_UP.name not in final_steps("reference")
