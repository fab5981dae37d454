"""Deliberately plain twins of the models that ask for less than one order: every pair of operations looked at.

What may live here: such twins, for the tests. What may not: anything that a check calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.twins.models import Call


def completed(calls: Sequence[Call], f: str) -> list[Call]:
    """The calls of f that returned, in the order in which they began."""
    return sorted((call for call in calls if call.f == f and call.back is not None), key=lambda call: call.call)


def set_full(calls: Sequence[Call]) -> set[tuple[str, int]]:
    """(name, how many elements it befell)."""
    reads = completed(calls, "read")
    elements = {call.asked for call in calls if call.f == "add"} | {each for read in reads for each in read.returned}
    fates = [fate for element in elements for fate in fates_of(element, calls, reads)]
    return {(name, fates.count(name)) for name in fates}


def fates_of(element: int, calls: Sequence[Call], reads: Sequence[Call]) -> list[str]:
    """What befell one element."""
    fates = ["duplicate-element"] if any(read.returned.count(element) > 1 for read in reads) else []
    adds = [call for call in calls if call.f == "add" and call.asked == element]
    showing = [read for read in reads if element in read.returned]
    if any(not any(add.call < (read.back or 0) for add in adds) for read in showing):
        return [*fates, "phantom-element"]
    timeline = [call.back for call in [*adds, *showing] if call.back is not None]
    if not timeline:
        return fates
    missing = [read for read in reads if read.call > min(timeline) and element not in read.returned]
    if missing:
        is_back = any(read.call > missing[-1].call for read in showing)
        return [*fates, "stale-read" if is_back else "lost-element"]
    return fates if showing else [*fates, "never-read"]


def counter(calls: Sequence[Call]) -> int:
    """How many reads are out of bounds."""
    wrong = 0
    for read in completed(calls, "read"):
        least = most = 0
        for call in calls:
            change = (-1 if call.f == "decrement" else 1) * (1 if call.asked is None else call.asked)
            if call.f == "read" or call.call > (read.back or 0):
                continue
            is_certain = call.back is not None and call.back < read.call
            least += change if is_certain else min(change, 0)
            most += change if is_certain else max(change, 0)
        wrong += not least <= read.returned <= most
    return wrong


def unique_ids(calls: Sequence[Call]) -> int:
    """How many ids were returned more than once."""
    returned = [call.returned for call in completed(calls, "generate")]
    return len({each for each in returned if returned.count(each) > 1})
