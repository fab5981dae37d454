"""Clock faults: what a step does to whom, what proves it, and that healing leaves true clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from harness import plugins
from harness.model import NEMESIS, Op
from harness.model.hosts import Clock, ClockReading
from harness.model.story import FOLLOWERS, LEADER, SKEWED, Step, cut, drift, heal, kill, reset_clock, skew, strobe
from harness.planning.story_steps import StoryStep
from nemesis.journal import UndoJournal, pending
from nemesis.session import NemesisSession

SECOND_NS = 1_000_000_000


class FakeClocks:
    """Clocks that do what they are told, but for those of nodes in `stuck`; 3 ms pass with every reading."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.moved: dict[tuple[int, Clock], tuple[int, int, float]] = {}  # origin, offset there, rate
        self.stuck: set[int] = set()
        self.actions: list[tuple[str, int]] = []
        self.before_deed = lambda: None

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
        self.before_deed()
        self.actions.append((action, node))
        if node not in self.stuck:
            self.moved.update(change)


@pytest.fixture
def clocks():
    return FakeClocks()


@pytest.fixture
def moving(context, clocks):
    context.clocks = clocks
    return context


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def play(context, path, *steps):
    """Carry out steps one after another; their completions."""

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
    "standing still": (drift("n1", 0, ["monotonic"]), "n1's monotonic clock at 0 times the true rate"),
    "arguments left out": (Step("drift", {"who": "n1", "rate": 2}), "n1's clocks at 2 times the true rate"),
    "nothing to reset": (reset_clock(), "no clock to reset"),
}


@pytest.mark.parametrize(("step", "label"), DONE.values(), ids=DONE)
def test_a_step_is_proved_and_says_what_it_did(moving, path, step, label):
    (done,) = play(moving, path, step)
    assert done.error is None
    assert done.value["label"] == label


def test_a_leap_moves_the_realtime_clock_alone_and_a_drift_both(moving, path, clocks):
    play(moving, path, skew("n1", 9), drift("n3", 0.5))
    clocks.now_ns += SECOND_NS
    assert (clocks.offset_ns(1, "realtime"), clocks.offset_ns(1, "monotonic")) == (9 * SECOND_NS, 0)
    assert clocks.offset_ns(3, "realtime") == clocks.offset_ns(3, "monotonic") < -SECOND_NS / 2


def test_the_undo_is_in_the_journal_before_a_clock_moves(moving, path, clocks):
    seen = []
    clocks.before_deed = lambda: seen.append([(undo.fault, undo.kind, undo.details) for undo in pending(path)])
    play(moving, path, drift(LEADER, 0.2))
    assert seen == [[("drift", "reset-clocks", {"nodes": [2]})]]


def test_heal_resets_whom_it_skewed_and_nobody_else(moving, path, clocks):
    *_, healed = play(moving, path, skew("n1", 9), drift("n1", 2), skew("n3", 9), heal())
    assert healed.error is None
    assert [action for action in clocks.actions if action[0] == "reset"] == [("reset", 1), ("reset", 3)]
    assert [clocks.offset_ns(node, "realtime") for node in (1, 3)] == [0, 0]
    assert (moving.skewed, pending(path)) == ((), [])


def test_a_process_that_ended_took_its_clocks_with_it(moving, path, clocks):
    *_, healed = play(moving, path, skew("n1", 9), kill("n1"), heal())
    assert healed.error is None
    assert ("reset", 1) not in clocks.actions
    assert moving.processes.states[1] == "running"


def test_the_skewed_can_be_meant_and_are_no_longer_after_their_reset(moving, path):
    _, done, reset = play(moving, path, drift(LEADER, 0.2), cut(SKEWED), reset_clock())
    assert done.value["label"] == "n2 cut off"
    assert reset.value == {"nodes": [2], "label": "n2's clocks reset"}
    assert moving.nodes_in_role(SKEWED) == ()


STUCK = {
    "skew": (skew("n1", 9), "proving n1's realtime clock: 0 s off the true time, expected 9 s"),
    "drift": (drift("n1", 0.2), "proving n1's realtime clock: it goes at 1.000 times the true rate, not 0.2"),
}


@pytest.mark.parametrize(("step", "error"), STUCK.values(), ids=STUCK)
def test_a_clock_that_does_not_move_ends_with_its_error(moving, path, clocks, step, error):
    clocks.stuck = {1}
    (failed,) = play(moving, path, step)
    assert failed.error == error


def test_a_clock_that_does_not_come_back_stays_in_the_journal_and_keeps_none_other_from_healing(moving, path, clocks):
    play(moving, path, skew("n1", 9))
    clocks.stuck = {1}
    moving.processes.states[3] = "paused"
    (failed,) = play(moving, path, heal())
    assert failed.error == "proving n1's realtime clock: 9 s off the true time, expected 0 s"
    assert moving.processes.states[3] == "running"
    assert [undo.kind for undo in pending(path)] == ["reset-clocks"]


@pytest.mark.parametrize("step", [skew("n1", 0.001), drift("n1", 1.001)], ids=["offset", "rate"])
def test_a_fault_too_small_to_prove_is_refused(moving, path, clocks, step):
    (failed,) = play(moving, path, step)
    assert failed.error is not None
    assert "expected" in failed.error
    assert clocks.actions == []


@pytest.mark.parametrize("step", [skew("n1", 9), drift("n1", 2), reset_clock("n1")], ids=lambda step: step.f)
def test_hosts_that_cannot_move_clocks_say_so(context, path, step):
    (failed,) = play(replace(context, clocks=None), path, step)
    assert failed.error == f"{step.f}: hosts of this kind have no clocks"


def test_a_strobe_leaps_and_comes_back_so_many_times():
    steps = strobe(LEADER, 2, 0.5, times=3)
    assert [step.f for step in steps] == ["skew", "sleep"] * 6
    assert [step.value["offset_seconds"] for step in steps if step.f == "skew"] == [2, 0] * 3
    assert sum(step.value for step in steps if step.f == "sleep") == 1.5


@pytest.mark.parametrize("step", [skew(LEADER, -3.5), drift(SKEWED, 0.2), reset_clock()], ids=lambda step: step.f)
def test_a_plan_on_disk_takes_the_steps(step):
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
def test_a_plan_on_disk_refuses_arguments_that_mean_nothing(f, value):
    with pytest.raises(ValueError, match=f):
        StoryStep(f=f, value=value)
