"""Compares two sets of runs, case by case: how often they fail, by what, and how long things take.

    comparison = compared(samples_of_base, samples_of_head, known, "base", "head")

The unit is a case on a family of systems. If both sets have one variant of it, these are compared whatever they are:
their difference is the change under test. Otherwise equal variants are compared, and the others were not run.

Contains the comparison of rows. Does not contain the query that groups them (checkers.store) or what a user names
(harness.comparing.selection).
"""

from __future__ import annotations

import statistics as plain
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from harness.comparing.primary import PRIMARY
from harness.comparing.statistics import (
    fisher,
    fisher_least,
    holm,
    mann_whitney,
    mann_whitney_least,
    shift,
)
from harness.judging.index import RunRow
from harness.judging.known import Known, KnownFinding
from results.comparison import STATUSES, CaseChange, Comparison, QuantityChange, Rate, Status
from results.proportions import wilson_interval
from results.quantities import quantity_text, title_of

LEVEL_FAILURES: Final = 0.01
LEVEL_QUANTITIES: Final = 0.02
"""The chance of any false alarm in a comparison. With eight runs a side, each of 129 quantities can be significant."""
SHARE_MIN: Final = 0.2
"""The smallest change that matters, as a share of the base's median."""

Samples = Mapping[tuple[str, str], Sequence[RunRow]]
"""The judged runs of a set, by case and family of systems."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Runs to compare. One side is empty where the other's variant was not run there."""

    case: str
    system: str
    change: str
    base: Sequence[RunRow]
    head: Sequence[RunRow]


def compared(base: Samples, head: Samples, known: Known, base_name: str, head_name: str) -> Comparison:
    """The comparison of two sets of runs."""
    pairs = [pair for key in sorted({*base, *head}) for pair in _pairs(key, base.get(key, ()), head.get(key, ()))]
    cases = [_case(pair, known) for pair in pairs]
    cases = _with_corrected_p(cases)
    cases = [replace(case, status=_status(case)) for case in _with_quantities(cases, pairs)]
    base_rows, head_rows = ([row for rows in samples.values() for row in rows] for samples in (base, head))
    return Comparison(
        base_name,
        head_name,
        len(base_rows),
        len(head_rows),
        tuple(sorted(cases, key=_importance)),
        gone=tuple(_gone(base_rows, head_rows, known)),
        expired=tuple(_text(entry) for entry in known.expired),
        level_failures=LEVEL_FAILURES,
        level_quantities=LEVEL_QUANTITIES,
    )


def _importance(case: CaseChange) -> tuple[int, float, float]:
    worst = max((abs(each.shift) / (abs(each.base) or 1) for each in case.quantities if each.is_worse), default=0.0)
    return STATUSES.index(case.status), case.p_corrected, -worst


def _pairs(key: tuple[str, str], base: Sequence[RunRow], head: Sequence[RunRow]) -> Iterator[_Pair]:
    case, family = key
    variants = [
        {name: list(rows) for name, rows in groupby(sorted(side, key=_variant), _variant)} for side in (base, head)
    ]
    bases, heads = variants
    if len(bases) == 1 and len(heads) == 1:
        (before,), (after,) = bases, heads
        yield _Pair(case, after[0] or family, _difference(before, after), base, head)
        return
    for name in sorted({*bases, *heads}):
        variant = f"{name[0]}{f' with {name[1]}' if name[1] else ''}"
        yield _Pair(case, variant, "", bases.get(name, ()), heads.get(name, ()))


def _variant(row: RunRow) -> tuple[str, str, str]:
    return row.system, row.variant, row.hosts or ""


def _difference(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    names = ("system", "switches", "hosts")
    differs = [(name, *pair) for name, *pair in zip(names, before, after, strict=True) if pair[0] != pair[1]]
    return ", ".join(f"{name} {old or 'none'}, now {new or 'none'}" for name, old, new in differs)


def _case(pair: _Pair, known: Known) -> CaseChange:
    """The case without corrections, quantities and status."""
    base, head = _rate(pair.base, known), _rate(pair.head, known)
    before = {problem.name for row in pair.base for problem in row.problems}
    new = [problem for row in pair.head for problem in known.new_problems(row)]
    names = tuple(dict.fromkeys(problem.name for problem in new))
    issues = {
        problem.name: entry.issue
        for row in pair.head
        for problem in row.problems
        if (entry := known.entry_of(row, problem)) is not None
    }
    failing = next((row for row in pair.head if known.outcome_of(row) == "failed"), None)
    shown = failing or next(iter(pair.head), None)
    passing = next((row for row in pair.base if row.outcome == "passed"), next(iter(pair.base), None))
    return CaseChange(
        pair.case,
        pair.system,
        pair.change,
        "passing",
        base,
        head,
        fisher(base.failed, base.decided, head.failed, head.decided),
        1.0,
        problems=names,
        new_problems=tuple(name for name in names if name not in before) if pair.base else (),
        known_problems=issues,
        message=new[0].message if new else "",
        base_run=passing.run if passing else None,
        head_run=shown.run if shown else None,
        command=shown.command if shown else "",
    )


def _rate(rows: Sequence[RunRow], known: Known) -> Rate:
    outcomes = [known.outcome_of(row) for row in rows]
    failed, passed = outcomes.count("failed"), outcomes.count("passed")
    low, high = wilson_interval(failed, failed + passed)
    return Rate(failed, failed + passed, outcomes.count("unknown"), outcomes.count("known"), low, high)


def _with_corrected_p(cases: Sequence[CaseChange]) -> list[CaseChange]:
    least = [fisher_least(case.base.failed, case.base.decided, case.head.failed, case.head.decided) for case in cases]
    corrected = holm([case.p for case in cases], least, LEVEL_FAILURES)
    return [replace(case, p_corrected=p) for case, p in zip(cases, corrected, strict=True)]


def _with_quantities(cases: Sequence[CaseChange], pairs: Sequence[_Pair]) -> list[CaseChange]:
    """The cases with their quantities, whose p-values are corrected together."""
    changes = [(at, each) for at, pair in enumerate(pairs) for each in _quantities(pair)]
    least = [mann_whitney_least(*sizes) for _, (_, sizes) in changes]
    corrected = holm([change.p for _, (change, _) in changes], least, LEVEL_QUANTITIES)
    found: dict[int, list[QuantityChange]] = {}
    for (at, (change, _)), p in zip(changes, corrected, strict=True):
        is_significant = p <= LEVEL_QUANTITIES and _matters(change)
        judged = replace(change, p_corrected=p, is_worse=change.shift > 0 if is_significant else None)
        found.setdefault(at, []).append(judged)
    return [replace(case, quantities=tuple(found.get(at, ()))) for at, case in enumerate(cases)]


def _quantities(pair: _Pair) -> Iterator[tuple[QuantityChange, tuple[int, int]]]:
    """The primary quantities that both sides measured and that are not constant, with the sizes of the samples."""
    for name in PRIMARY:
        base, head = (
            [row.quantities[name] for row in rows if name in row.quantities] for rows in (pair.base, pair.head)
        )
        if not base or not head or len({*base, *head}) == 1:
            continue
        moved, low, high = shift(base, head)
        before, after = plain.median(base), plain.median(head)
        texts = [quantity_text(name, value) for value in (before, after, low, high)]
        p = mann_whitney(base, head)
        yield (
            QuantityChange(
                name, title_of(name), before, after, texts[0], texts[1], moved, low, high,
                f"{texts[2]} to {texts[3]}", p, 1.0, None,
            ),
            (len(base), len(head)),
        )  # fmt: skip


def _matters(change: QuantityChange) -> bool:
    return abs(change.shift) >= max(PRIMARY[change.name], SHARE_MIN * abs(change.base))


def _status(case: CaseChange) -> Status:
    base, head = case.base, case.head
    is_significant = case.p_corrected <= LEVEL_FAILURES
    if not (head.decided or head.unknown or head.known):
        return "not run"
    if not (base.decided or base.unknown or base.known):
        return "new case"
    if is_significant:
        is_worse = head.failed * base.decided > base.failed * head.decided
        return "newly failing" if is_worse else "newly passing"
    changes = {each.is_worse for each in case.quantities}
    if True in changes:
        return "worse"
    if head.unknown and not head.decided:
        return "unknown"
    if head.failed and (not base.failed or case.new_problems):
        return "more failures, may be chance"
    if head.failed:
        return "still failing" if head.failed == head.decided and base.failed == base.decided else "flaky"
    if base.failed:
        return "fewer failures, may be chance"
    return "better" if False in changes else "passing"


def _gone(base: Sequence[RunRow], head: Sequence[RunRow], known: Known) -> Iterator[str]:
    """Known findings that base had and head has not, though a case ran that had them."""
    before, after = known.seen_in(base), known.seen_in(head)
    ran = {row.case for row in head}
    for entry in sorted(before - after, key=_text):
        cases = {row.case for row in base for problem in row.problems if entry.matches(row, problem)}
        if cases & ran:
            yield _text(entry)


def _text(entry: KnownFinding) -> str:
    return f"{entry.finding} ({entry.issue})"
