"""Log lines under moved clocks: near the true time, and never before the line before."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from harness.model import Observation
from nodes.clocks.line_times import AHEAD_NS, LATE_NS, LineTimes

NOW_NS = 50 * 1_000_000_000


@dataclass(slots=True)
class Told:
    """What comes out of LineTimes at a time that a test sets."""

    now_ns: int = NOW_NS
    seen: list[Observation] = field(default_factory=list)
    lines: LineTimes = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LineTimes(lambda: self.now_ns, self.seen.append)

    def line(self, time_ns: int, node: int = 1) -> int:
        """The time at which a line stamped time_ns, told now, is passed on."""
        self.lines.observe(Observation(time_ns, node, "log", "note"))
        return self.seen[-1].time_ns


def test_a_true_stamp_is_kept():
    assert Told().line(NOW_NS - 80_000_000) == NOW_NS - 80_000_000


def test_a_stamp_of_another_time_gives_way_to_the_moment_of_telling():
    assert Told().line(NOW_NS - LATE_NS - 1) == NOW_NS
    assert Told().line(NOW_NS + AHEAD_NS + 1) == NOW_NS


def test_a_clock_set_back_does_not_bring_lines_out_of_order():
    told = Told()
    assert told.line(NOW_NS - 10) == NOW_NS - 10
    assert told.line(NOW_NS - 500_000_000) == NOW_NS - 10
    assert told.line(NOW_NS - 500_000_000, node=2) == NOW_NS - 500_000_000


def test_what_is_no_line_passes_as_it_is():
    told = Told()
    poll = Observation(3, 1, "describe-quorum", "silence")
    told.lines.observe(poll)
    assert told.seen == [poll]


@given(st.lists(st.tuples(st.integers(0, 100_000_000), st.integers(-(10**12), 10**12)), max_size=30))
def test_lines_stay_in_order_and_near_whatever_their_stamps(steps):
    told = Told()
    before_ns = 0
    for passed_ns, offset_ns in steps:
        told.now_ns += passed_ns
        line_ns = told.line(told.now_ns + offset_ns)
        assert before_ns <= line_ns
        assert told.now_ns - LATE_NS <= line_ns <= told.now_ns + AHEAD_NS
        before_ns = line_ns
