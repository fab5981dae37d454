"""Plain twins of the models weaker than linearizability: compare all pairs of operations."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.twins.models import Call


def completed(calls: Sequence[Call], f: str) -> list[Call]:
    """The calls of f that returned, in order of their calls."""
    return sorted((call for call in calls if call.f == f and call.back is not None), key=lambda call: call.call)


def set_full(calls: Sequence[Call]) -> set[tuple[str, int]]:
    """(name, the number of elements with it)."""
    reads = completed(calls, "read")
    elements = {call.argument for call in calls if call.f == "add"} | {each for read in reads for each in read.returned}
    outcomes = [outcome for element in elements for outcome in outcomes_of(element, calls, reads)]
    return {(name, outcomes.count(name)) for name in outcomes}


def outcomes_of(element: int, calls: Sequence[Call], reads: Sequence[Call]) -> list[str]:
    """The findings about one element."""
    outcomes = ["duplicate-element"] if any(read.returned.count(element) > 1 for read in reads) else []
    adds = [call for call in calls if call.f == "add" and call.argument == element]
    showing = [read for read in reads if element in read.returned]
    if any(not any(add.call < (read.back or 0) for add in adds) for read in showing):
        return [*outcomes, "phantom-element"]
    ends = [call.back for call in [*adds, *showing] if call.back is not None]
    if not ends:
        return outcomes
    missing = [read for read in reads if read.call > min(ends) and element not in read.returned]
    if missing:
        is_back = any(read.call > missing[-1].call for read in showing)
        return [*outcomes, "stale-read" if is_back else "lost-element"]
    return outcomes if showing else [*outcomes, "never-read"]


def counter(calls: Sequence[Call]) -> int:
    """How many reads are out of bounds."""
    wrong = 0
    for read in completed(calls, "read"):
        least = most = 0
        for call in calls:
            change = (-1 if call.f == "decrement" else 1) * (1 if call.argument is None else call.argument)
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
