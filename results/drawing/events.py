"""Horizontal coordinates for the events of a few operations: in order but not to scale, so that short ones are legible.

Every event (a call or a return) has its own coordinate, an operation is as wide as its label, and a break marks omitted
operations of the key. Times between events are interpolated, so that faults and states can be drawn in the background.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from results.data import Operation

STEP: Final = 8.0
BREAK: Final = 44.0
"""The minimum distance between events, and the width of a break."""

LabelWidth = Callable[[Operation], float]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A break: the number of omitted operations, and the time they took."""

    x: float
    operations: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Events:
    """The coordinates of events by history index, and the breaks between them; times_ns are in order of the events."""

    operations: tuple[Operation, ...]
    xs: Mapping[int, float]
    times_ns: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    start: float
    end: float

    def of_index(self, index: int) -> float:
        """The coordinate of an event, or of the last one before it."""
        indexes = list(self.xs)
        at = bisect_right(indexes, index)
        return self.xs[indexes[at - 1]] if at else self.start

    def of_time(self, time_ns: float) -> float:
        """The coordinate of a time, interpolated between events."""
        at = bisect_right(self.times_ns, time_ns)
        if at == 0:
            return self.start
        if at == len(self.times_ns):
            return self.end
        xs = list(self.xs.values())
        before, after = self.times_ns[at - 1], self.times_ns[at]
        share = (time_ns - before) / (after - before) if after > before else 1.0
        return xs[at - 1] + share * (xs[at] - xs[at - 1])


def events_of(by_importance: Sequence[Operation], label_width: LabelWidth, start: float, end: float) -> Events:
    """The layout of the first operations that fit between start and end, at least one."""
    for count in range(len(by_importance), 0, -1):
        shown = sorted(by_importance[:count], key=lambda each: each.start.index)
        layout = _narrowest(shown, label_width)
        if layout.end <= end - start or count == 1:
            return _scaled(layout, start, end)
    return Events((), {}, (), (), start, end)


def _narrowest(shown: Sequence[Operation], label_width: LabelWidth) -> Events:
    """The narrowest layout, from coordinate 0 on."""
    by_index = {each.start.index: each for each in shown}
    by_index |= {each.end.index: each for each in shown if each.end is not None}
    xs: dict[int, float] = {}
    times: list[int] = []
    skipped: list[Skipped] = []
    x, next_position = 0.0, shown[0].position
    for index in sorted(by_index):
        each = by_index[index]
        is_call = index == each.start.index
        time_ns = each.start.time_ns if is_call or each.end is None else each.end.time_ns
        if is_call and each.position > next_position:
            skipped.append(Skipped(x + BREAK / 2, each.position - next_position, time_ns - times[-1]))
            x += BREAK
        next_position = max(next_position, each.position + 1) if is_call else next_position
        x = x + STEP if is_call else max(x + STEP, xs[each.start.index] + label_width(each))
        xs[index] = x
        times.append(time_ns)
    total = max(x, max(xs[each.start.index] + label_width(each) for each in shown)) + STEP
    return Events(tuple(shown), xs, tuple(times), tuple(skipped), 0.0, total)


def _scaled(layout: Events, start: float, end: float) -> Events:
    """The same layout between start and end."""
    scale = (end - start) / layout.end
    xs = {index: start + x * scale for index, x in layout.xs.items()}
    skipped = tuple(Skipped(start + each.x * scale, each.operations, each.duration_ns) for each in layout.skipped)
    return Events(layout.operations, xs, layout.times_ns, skipped, start, end)
