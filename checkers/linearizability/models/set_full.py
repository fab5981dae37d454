"""A set with full reads, checked element by element (Jepsen's set-full): what happened to each element, not whether one
order explains the whole history.

An element is known once an add of it is acknowledged or a read that shows it returns. Reads are in the order of their
calls; a read must show the elements that were known when it was called.

    lost-element         a known element is missing from such a read, and no later one shows it again
    duplicate-element    a read shows an element twice
    phantom-element      a read shows an element that was not added before it returned, or only by a failed add
    never-read           (unknown) an acknowledged element that no read had to show
    stale-read           (tolerated) a known element is missing from such a read, and a later one shows it

Stale reads are tolerated, as after a failover to a lagging replica; `--model set` reports them as violations of
linearizability. Each finding is reported once a key, with the number of elements and the first of them.
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
from checkers.linearizability import signatures
from checkers.linearizability.models.grow_set import elements_of
from checkers.linearizability.models.model import Model, Outcome, Problem
from harness.model.plurals import counted
from harness.model.records.finding import Severity

FOUND: Mapping[str, tuple[Severity, str]] = {
    "lost-element": ("invalid", "known elements stay in a set: {count} lost, first {first}"),
    "duplicate-element": ("invalid", "a set has an element once: {count} twice in one read, first {first}"),
    "phantom-element": ("invalid", "reads show only elements that were added: {count} not added before, first {first}"),
    "never-read": ("unknown", "cannot check elements without a later read: {count}, first {first}"),
    "stale-read": (
        "tolerated",
        "reads show the elements known before them: {count} missing until a later read, first {first}",
    ),
}
"""Severity and message by finding; first is an element with the operations that witness it."""


@dataclass(slots=True)
class Element:
    """One element: its add, the row from which it is known (NEVER: not known), and the reads that show it.

    showing are positions of reads in the order of their calls, ascending.
    """

    add: int = NOBODY
    known: int = int(NEVER)
    showing: list[int] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """One key's elements by their JSON; its reads' calls in order; and element → read of those shown twice."""

    elements: dict[str, Element] = field(default_factory=dict)
    reads: list[int] = field(default_factory=list)
    twice: dict[str, int] = field(default_factory=dict)


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:  # noqa: ARG001 - keys.texts has the initial value
    """Check each key by the outcomes of its elements."""
    found = possible_operations(keys)
    outcomes = []
    for which in range(len(keys.names)):
        problems = problems_of(keys, history_of(keys, found, which))
        total = int(found.starts[which + 1] - found.starts[which])
        first = problems[0] if problems else None
        outcomes.append(Outcome("outcomes of elements", total, first, tuple(problems[1:])))
    return outcomes


def history_of(keys: Keys, found: PossibleOperations, which: int) -> History:
    """One key's adds and completed reads. Raises BadInput for a read that did not return a list."""
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
    """Add a read; its elements are known from its return on."""
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
    return [json.dumps(element) for element in elements_of(keys, value, row)]


def problems_of(keys: Keys, history: History) -> list[Problem]:
    """The problems of one key, the gravest first."""
    witnesses: dict[str, list[tuple[str, list[int]]]] = {name: [] for name in FOUND}
    for text, element in history.elements.items():
        name, rows = outcome_of(element, history.reads)
        if name:
            witnesses[name].append((text, rows))
    witnesses["duplicate-element"] = [(text, [row]) for text, row in history.twice.items()]
    return [problem_of(keys, name, found) for name, found in witnesses.items() if found]


def outcome_of(element: Element, reads: Sequence[int]) -> tuple[str, list[int]]:
    """The finding about an element, empty for none, and the operations that witness it."""
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
    """One finding about several elements, with the first of them."""
    severity, words = FOUND[name]
    text, rows = found[0]
    first = f"{text} ({', '.join(keys.describe(row) for row in rows)})" if rows else text
    count = counted(len(found), "element")
    ends = [int(keys.partner[row]) for row in rows]
    return Problem(name, severity, words.format(count=count, first=first), [*rows, *ends])


SET_FULL = Model(signatures.SET_FULL, judge)
