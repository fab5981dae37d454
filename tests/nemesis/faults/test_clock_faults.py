"""Clock faults: which clocks a step affects, how it is verified, and that healing resets the clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from harness import plugins
from harness.model import NEMESIS, BadInput, Op
from harness.model.hosts import Clock, ClockReading
from harness.model.story import FOLLOWERS, LEADER, SKEWED, Step, cut, drift, heal, kill, reset_clock, skew, strobe
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.systems.cluster import refuse_unavailable_faults
from nemesis.journal import UndoJournal, pending
from nemesis.session import NemesisSession

SECOND_NS = 1_000_000_000


class FakeClocks:
    """Fake clocks; those of nodes in `stuck` never change, and 3 ms pass with every reading."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.moved: dict[tuple[int, Clock], tuple[int, int, float]] = {}  # origin, offset there, rate
        self.stuck: set[int] = set()
        self.actions: list[tuple[str, int]] = []
        self.before_change = lambda: None

    async def skew(self, node: int, clocks: Iterable[Clock], offset_ns: int) -> None:
        self._move("skew", node, {(node, clock): (self.now_ns, offset_ns, 1.0) for clock in clocks})

    async def drift(self, node: int, clocks: Iterable[Clock], rate: float) -> None:
        self._move("drift", node, {(node, clock): (self.now_ns, self.offset_ns(node, clock), rate) for clock in clocks})

    async def reset(self, node: int) -> None:
        true: list[Clock] = ["realtime", "monotonic"]
        self._move("reset", node, {(node, clock): (0, 0, 1.0) for clock in true})

    async def read(self, node: int) -> Mapping[Clock, ClockReading]:
        self.now_ns += 3_000_000
        clocks: list[Clock] = ["realtime", "monotonic"]
        return {clock: ClockReading(self.now_ns, self.now_ns + self.offset_ns(node, clock)) for clock in clocks}

    def offset_ns(self, node: int, clock: Clock) -> int:
        origin_ns, offset_ns, rate = self.moved.get((node, clock), (0, 0, 1.0))
        return offset_ns + round((self.now_ns - origin_ns) * (rate - 1))

    def _move(self, action: str, node: int, change: Mapping[tuple[int, Clock], tuple[int, int, float]]) -> None:
        self.before_change()
        self.actions.append((action, node))
        if node not in self.stuck:
            self.moved.update(change)


@pytest.fixture
def clocks():
    return FakeClocks()


@pytest.fixture
def clock_context(context, clocks):
    context.clocks = clocks
    return context


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def run(context, path, *steps):
    """Run steps one after another; returns their completions."""

    async def until(_condition, _seconds):
        return True

    async def one_by_one():
        session = NemesisSession(context, UndoJournal(path), until, plugins.faults())
        return [await session.invoke(Op("invoke", step.f, NEMESIS, value=step.value)) for step in steps]

    return asyncio.run(one_by_one())


DONE = {
    "the leader's realtime clock ahead": (skew(LEADER, 30), "n2's realtime clock 30 s ahead"),
    "a follower's behind": (skew(FOLLOWERS, -0.5), "n3's realtime clock 0.5 s behind"),
    "both of a node by name": (skew("n1", 4, ["realtime", "monotonic"]), "n1's clocks 4 s ahead"),
    "too slow": (drift(LEADER, 0.2), "n2's clocks at 0.2 times the true rate"),
    "stopped": (drift("n1", 0, ["monotonic"]), "n1's monotonic clock at 0 times the true rate"),
    "omitted arguments": (Step("drift", {"who": "n1", "rate": 2}), "n1's clocks at 2 times the true rate"),
    "nothing to reset": (reset_clock(), "no clock to reset"),
}


@pytest.mark.parametrize(("step", "label"), DONE.values(), ids=DONE)
def test_a_step_is_verified_and_described(clock_context, path, step, label):
    (done,) = run(clock_context, path, step)
    assert done.error is None
    assert done.value["label"] == label


def test_skew_affects_the_realtime_clock_and_drift_both(clock_context, path, clocks):
    run(clock_context, path, skew("n1", 9), drift("n3", 0.5))
    clocks.now_ns += SECOND_NS
    assert (clocks.offset_ns(1, "realtime"), clocks.offset_ns(1, "monotonic")) == (9 * SECOND_NS, 0)
    assert clocks.offset_ns(3, "realtime") == clocks.offset_ns(3, "monotonic") < -SECOND_NS / 2


def test_the_undo_is_in_the_journal_before_a_clock_moves(clock_context, path, clocks):
    seen = []
    clocks.before_change = lambda: seen.append([(undo.fault, undo.kind, undo.details) for undo in pending(path)])
    run(clock_context, path, drift(LEADER, 0.2))
    assert seen == [[("drift", "reset-clocks", {"nodes": [2]})]]


def test_heal_resets_only_skewed_nodes(clock_context, path, clocks):
    *_, healed = run(clock_context, path, skew("n1", 9), drift("n1", 2), skew("n3", 9), heal())
    assert healed.error is None
    assert [action for action in clocks.actions if action[0] == "reset"] == [("reset", 1), ("reset", 3)]
    assert [clocks.offset_ns(node, "realtime") for node in (1, 3)] == [0, 0]
    assert (clock_context.skewed, pending(path)) == ((), [])


def test_heal_does_not_reset_the_clocks_of_a_process_that_has_ended(clock_context, path, clocks):
    *_, healed = run(clock_context, path, skew("n1", 9), kill("n1"), heal())
    assert healed.error is None
    assert ("reset", 1) not in clocks.actions
    assert clock_context.processes.states[1] == "running"


def test_the_role_skewed_means_nodes_until_their_clocks_are_reset(clock_context, path):
    _, done, reset = run(clock_context, path, drift(LEADER, 0.2), cut(SKEWED), reset_clock())
    assert done.value["label"] == "n2 cut off"
    assert reset.value == {"nodes": [2], "label": "n2's clocks reset"}
    assert clock_context.nodes_in_role(SKEWED) == ()


STUCK = {
    "skew": (skew("n1", 9), "verifying n1's realtime clock: 0 s off the true time, expected 9 s"),
    "drift": (drift("n1", 0.2), "verifying n1's realtime clock: it runs at 1.000 times the true rate, expected 0.2"),
}


@pytest.mark.parametrize(("step", "error"), STUCK.values(), ids=STUCK)
def test_a_clock_that_does_not_change_is_an_error(clock_context, path, clocks, step, error):
    clocks.stuck = {1}
    (failed,) = run(clock_context, path, step)
    assert failed.error == error


def test_a_clock_that_does_not_reset_stays_in_the_journal_and_other_faults_heal(clock_context, path, clocks):
    run(clock_context, path, skew("n1", 9))
    clocks.stuck = {1}
    clock_context.processes.states[3] = "paused"
    (failed,) = run(clock_context, path, heal())
    assert failed.error == "verifying n1's realtime clock: 9 s off the true time, expected 0 s"
    assert clock_context.processes.states[3] == "running"
    assert [undo.kind for undo in pending(path)] == ["reset-clocks"]


TOO_SMALL = {
    "offset": (skew("n1", 0.001), "skew: offset_seconds: expected 0 or at least 0.01 s, to be verified, found 0.001"),
    "rate": (drift("n1", 1.001), "drift: rate: expected 1, or a difference from 1 of at least 0.02, found 1.001"),
}


@pytest.mark.parametrize(("step", "problem"), TOO_SMALL.values(), ids=TOO_SMALL)
def test_a_fault_too_small_to_verify_is_refused_before_a_run_and_read_from_a_stored_one(step, problem):
    plan = Plan(name="clocks", seed=1, story=[StoryStep.of(step)])
    with pytest.raises(BadInput, match=problem):
        refuse_unavailable_faults(plan)
    assert Plan.model_validate_json(plan.as_json()) == plan


@pytest.mark.parametrize("step", [skew("n1", 9), drift("n1", 2), reset_clock("n1")], ids=lambda step: step.f)
def test_hosts_without_clocks_refuse_clock_actions(context, path, step):
    (failed,) = run(replace(context, clocks=None), path, step)
    assert failed.error == f"{step.f}: hosts of this kind have no clocks"


def test_a_strobe_jumps_and_returns_the_given_number_of_times():
    steps = strobe(LEADER, 2, 0.5, times=3)
    assert [step.f for step in steps] == ["skew", "sleep"] * 6
    assert [step.value["offset_seconds"] for step in steps if step.f == "skew"] == [2, 0] * 3
    assert sum(step.value for step in steps if step.f == "sleep") == 1.5


@pytest.mark.parametrize("step", [skew(LEADER, -3.5), drift(SKEWED, 0.2), reset_clock()], ids=lambda step: step.f)
def test_a_plan_accepts_the_steps(step):
    assert StoryStep(f=step.f, value=step.value).step() == step


@pytest.mark.parametrize(
    ("f", "value"),
    [
        ("skew", {"who": "leader"}),
        ("skew", {"who": "leader", "offset_seconds": 1e12}),
        ("skew", {"who": "leader", "offset_seconds": 1, "clocks": ["wall"]}),
        ("skew", {"who": "leader", "offset_seconds": 1, "clocks": []}),
        ("drift", {"who": "leader", "rate": -1}),
        ("reset_clock", {}),
    ],
)
def test_a_plan_refuses_invalid_arguments(f, value):
    with pytest.raises(ValueError, match=f):
        StoryStep(f=f, value=value)
