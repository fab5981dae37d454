"""A place for each event of a few operations: in order, not to scale, so that what took a millisecond can be read.

Every event (a call or a return) has a place of its own; an operation is as wide as its label; where operations of the
key were left out there is a break. Times between events are mapped between their places, so that faults and states can
be drawn behind.

What may live here: places. What may not: elements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from results.data import Operation

STEP: Final = 8.0
BREAK: Final = 44.0
"""The width of a step from one event to the next, and of a break."""

LabelWidth = Callable[[Operation], float]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Here so many operations were left out, which took so long."""

    place: float
    operations: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class Events:
    """The places of events, by history index, and what lies between; times are those of the events, in order."""

    operations: tuple[Operation, ...]
    places: Mapping[int, float]
    times_ns: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    start: float
    end: float

    def of_index(self, index: int) -> float:
        """The place of an event, or of the last one before it."""
        known = list(self.places)
        at = bisect_right(known, index)
        return self.places[known[at - 1]] if at else self.start

    def of_time(self, time_ns: float) -> float:
        """The place of a moment: between those of the events around it."""
        at = bisect_right(self.times_ns, time_ns)
        if at == 0:
            return self.start
        if at == len(self.times_ns):
            return self.end
        places = list(self.places.values())
        before, after = self.times_ns[at - 1], self.times_ns[at]
        share = (time_ns - before) / (after - before) if after > before else 1.0
        return places[at - 1] + share * (places[at] - places[at - 1])


def events_of(by_importance: Sequence[Operation], label_width: LabelWidth, start: float, end: float) -> Events:
    """As many of the operations as find room between start and end, the first at least."""
    for count in range(len(by_importance), 0, -1):
        shown = sorted(by_importance[:count], key=lambda each: each.start.index)
        found = _laid_out(shown, label_width)
        if found.end <= end - start or count == 1:
            return _stretched(found, start, end)
    return Events((), {}, (), (), start, end)


def _laid_out(shown: Sequence[Operation], label_width: LabelWidth) -> Events:
    """The narrowest layout, from 0 on."""
    ends = {each.start.index: each for each in shown} | {each.end.index: each for each in shown if each.end is not None}
    places: dict[int, float] = {}
    times: list[int] = []
    skipped: list[Skipped] = []
    place, following = 0.0, shown[0].position
    for index in sorted(ends):
        each = ends[index]
        begins = index == each.start.index
        time_ns = each.start.time_ns if begins or each.end is None else each.end.time_ns
        if begins and each.position > following:
            skipped.append(Skipped(place + BREAK / 2, each.position - following, time_ns - times[-1]))
            place += BREAK
        following = max(following, each.position + 1) if begins else following
        place = place + STEP if begins else max(place + STEP, places[each.start.index] + label_width(each))
        places[index] = place
        times.append(time_ns)
    total = max(place, max(places[each.start.index] + label_width(each) for each in shown)) + STEP
    return Events(tuple(shown), places, tuple(times), tuple(skipped), 0.0, total)


def _stretched(found: Events, start: float, end: float) -> Events:
    """The same between start and end."""
    scale = (end - start) / found.end
    places = {index: start + place * scale for index, place in found.places.items()}
    skipped = tuple(Skipped(start + each.place * scale, each.operations, each.duration_ns) for each in found.skipped)
    return Events(found.operations, places, found.times_ns, skipped, start, end)
