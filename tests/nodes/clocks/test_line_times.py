"""Times of log lines under skewed clocks: near the true time, and never before the previous line."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from harness.model import Observation
from nodes.clocks.line_times import AHEAD_NS, LATE_NS, LineTimes

NOW_NS = 50 * 1_000_000_000


@dataclass(slots=True)
class Forwarded:
    """The output of LineTimes at a time that the test sets."""

    now_ns: int = NOW_NS
    observations: list[Observation] = field(default_factory=list)
    lines: LineTimes = field(init=False)

    def __post_init__(self) -> None:
        self.lines = LineTimes(lambda: self.now_ns, self.observations.append)

    def line(self, time_ns: int, node: int = 1) -> int:
        """The corrected time of a line that is stamped time_ns and observed now."""
        self.lines.observe(Observation(time_ns, node, "log", "note"))
        return self.observations[-1].time_ns


def test_a_correct_stamp_is_kept():
    assert Forwarded().line(NOW_NS - 80_000_000) == NOW_NS - 80_000_000


def test_a_wrong_stamp_is_replaced_by_the_time_of_observation():
    assert Forwarded().line(NOW_NS - LATE_NS - 1) == NOW_NS
    assert Forwarded().line(NOW_NS + AHEAD_NS + 1) == NOW_NS


def test_a_clock_that_is_set_back_does_not_reorder_lines():
    forwarded = Forwarded()
    assert forwarded.line(NOW_NS - 10) == NOW_NS - 10
    assert forwarded.line(NOW_NS - 500_000_000) == NOW_NS - 10
    assert forwarded.line(NOW_NS - 500_000_000, node=2) == NOW_NS - 500_000_000


def test_an_observation_that_is_not_a_log_line_is_unchanged():
    forwarded = Forwarded()
    poll = Observation(3, 1, "describe-quorum", "silence")
    forwarded.lines.observe(poll)
    assert forwarded.observations == [poll]


@given(st.lists(st.tuples(st.integers(0, 100_000_000), st.integers(-(10**12), 10**12)), max_size=30))
def test_lines_stay_in_order_and_near_the_true_time_with_any_stamps(steps):
    forwarded = Forwarded()
    before_ns = 0
    for elapsed_ns, offset_ns in steps:
        forwarded.now_ns += elapsed_ns
        line_ns = forwarded.line(forwarded.now_ns + offset_ns)
        assert before_ns <= line_ns
        assert forwarded.now_ns - LATE_NS <= line_ns <= forwarded.now_ns + AHEAD_NS
        before_ns = line_ns
