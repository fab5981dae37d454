"""A set that is read whole, judged element by element: what became of each, not whether one order explains all.

An element is known once an add of it is acknowledged, or a read that shows it returns. Reads are in the order in which
they began; only those that began after an element was known are held to show it.

    lost-element         a known element is missing from such a read, and no later one shows it again
    duplicate-element    a read shows an element twice
    phantom-element      a read shows an element that was not added before it returned, or only by an add that failed
    never-read           (unknown) an acknowledged element that no read was to show
    stale-read           (tolerated) a known element is missing from such a read, and a later one shows it

So a read may be stale, as after a failover to a replica that lags; `--model set` takes that for the breach that it is
of linearizability. Each kind is told once a key, with how many elements it befell and the first of them.

What may live here: this model. What may not: Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import PossibleOperations, possible_operations
from checkers.kernels.rows import NEVER, NIL, NOBODY, READ
from checkers.linearizability.models.model import Model, Outcome, Problem
from harness.model import BadInput
from harness.model.records.finding import Severity

FS = ("read", "add")
FOUND: Mapping[str, tuple[Severity, str]] = {
    "lost-element": ("invalid", "what a set was known to hold stays in it: {count} gone for good, first {first}"),
    "duplicate-element": ("invalid", "a set holds an element once: {count} twice in one read, first {first}"),
    "phantom-element": ("invalid", "reads show what was added before: {count} not, first {first}"),
    "never-read": ("unknown", "no read began after these were acknowledged: {count}, first {first}"),
    "stale-read": ("tolerated", "reads show what was known before them: {count} back only later, first {first}"),
}
"""Severity and words by finding; first is an element with the operations that witness it."""


@dataclass(slots=True)
class Element:
    """What is known of one element: who added it, since when it is known (NEVER: not at all), the reads that show it.

    showing are places of reads in the order of their beginning, rising.
    """

    add: int = NOBODY
    known: int = int(NEVER)
    showing: list[int] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """One key's elements by their JSON; its reads' calls in order; (element, read) of those shown twice."""

    elements: dict[str, Element] = field(default_factory=dict)
    reads: list[int] = field(default_factory=list)
    twice: dict[str, int] = field(default_factory=dict)


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:  # noqa: ARG001 - the initial value is a text of keys
    """Each key by the fates of its elements."""
    found = possible_operations(keys)
    outcomes = []
    for which in range(len(keys.names)):
        problems = problems_of(keys, history_of(keys, found, which))
        total = int(found.starts[which + 1] - found.starts[which])
        first = problems[0] if problems else None
        outcomes.append(Outcome("fates of elements", total, first, tuple(problems[1:])))
    return outcomes


def history_of(keys: Keys, found: PossibleOperations, which: int) -> History:
    """One key's adds and completed reads. Raises BadInput for a read that returned no list."""
    history = History({text: Element(known=NOBODY) for text in members_of(keys, NIL, 0)})
    part = slice(found.starts[which], found.starts[which + 1])
    columns = (column[part].tolist() for column in (found.rows, found.ends, found.back))
    for row, end, back in zip(*columns, strict=True):
        if keys.f[row] == READ:
            note_read(keys, history, row, end)
            continue
        added = None if keys.value[row] == NIL else json.loads(keys.texts[keys.value[row]])
        element = history.elements.setdefault(json.dumps(added), Element())
        element.add = row if element.add == NOBODY else element.add
        element.known = min(element.known, back)
    return history


def note_read(keys: Keys, history: History, row: int, end: int) -> None:
    """Take a read in; its elements are known from its return on."""
    counted = Counter(members_of(keys, int(keys.value[end]), end))
    for text, times in counted.items():
        element = history.elements.setdefault(text, Element())
        element.showing.append(len(history.reads))
        element.known = min(element.known, end)
        if times > 1:
            history.twice.setdefault(text, row)
    history.reads.append(row)


def members_of(keys: Keys, value: int, row: int) -> list[str]:
    """The JSON of each element that a value lists."""
    members = json.loads("[]" if keys.texts[value] == "nil" else keys.texts[value])
    if not isinstance(members, list):
        place = f"history index {keys.index[row]}"
        raise BadInput(f"{place}: expected a list of the set's elements, found {keys.shown(value)}")
    return [json.dumps(member) for member in members]


def problems_of(keys: Keys, history: History) -> list[Problem]:
    """What befell the elements, the gravest kind first."""
    witnesses: dict[str, list[tuple[str, list[int]]]] = {name: [] for name in FOUND}
    for text, element in history.elements.items():
        name, rows = fate_of(element, history.reads)
        if name:
            witnesses[name].append((text, rows))
    witnesses["duplicate-element"] = [(text, [row]) for text, row in history.twice.items()]
    return [problem_of(keys, name, found) for name, found in witnesses.items() if found]


def fate_of(element: Element, reads: Sequence[int]) -> tuple[str, list[int]]:
    """The name of what befell an element, if anything did, and the operations that witness it."""
    added = [] if element.add == NOBODY else [element.add]
    if element.known != NOBODY and (element.add == NOBODY or element.known < element.add):
        return "phantom-element", [reads[element.showing[0]]]
    missing = last_missing(element, reads)
    if missing == NOBODY:
        unread = element.known != NEVER and not element.showing
        return ("never-read", added) if unread else ("", [])
    lost = not element.showing or element.showing[-1] < missing
    return "lost-element" if lost else "stale-read", [*added, reads[missing]]


def last_missing(element: Element, reads: Sequence[int]) -> int:
    """The last read that began after the element was known and does not show it, or NOBODY."""
    at, shown = len(reads) - 1, len(element.showing) - 1
    while at >= 0 and reads[at] > element.known:
        if shown < 0 or element.showing[shown] != at:
            return at
        at, shown = at - 1, shown - 1
    return NOBODY


def problem_of(keys: Keys, name: str, found: Sequence[tuple[str, list[int]]]) -> Problem:
    """One kind's finding, with the first element that it befell."""
    severity, words = FOUND[name]
    text, rows = found[0]
    first = f"{text} ({', '.join(keys.describe(row) for row in rows)})" if rows else text
    count = f"{len(found)} element{'s' if len(found) > 1 else ''}"
    ends = [int(keys.partner[row]) for row in rows]
    return Problem(name, severity, words.format(count=count, first=first), [*rows, *ends])


SET_FULL = Model("set-full", FS, judge)
