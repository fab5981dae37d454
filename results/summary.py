"""The verdict as plain text, without colours, for terminals, files and mails.

It answers in this order: did it pass, what was run, what was expected, what was found, what was measured, and which
command repeats it. The same tables word quantities and runs here and in the report (quantities.py, description.py).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from harness.model.plurals import counted
from results.description import facts
from results.kinds import FindingKind, kinds_of
from results.latencies import PERCENTILES, latency_rows
from results.quantities import shown_quantities
from results.run_verdict import ExpectationResult, RunVerdict, SideResult
from results.text_tables import text_table

KINDS_SHOWN: Final = 10
WIDTH: Final = 110
COLUMN: Final = 10
CELL_MAX: Final = 60
"""No cell of a table is wider."""
_WRAPPER: Final = textwrap.TextWrapper(WIDTH - COLUMN, break_long_words=False, break_on_hyphens=False)


def summary(run_verdict: RunVerdict) -> str:
    """The headline, the run, the expectations, the findings, the quantities and the command, in this order."""
    headline = run_verdict.headline or run_verdict.verdict.value
    parts = [
        f"{run_verdict.name}: {headline.upper()}. {run_verdict.summary}",
        "\n".join(_side(each) for each in run_verdict.sides),
        _facts(run_verdict),
        _table(("expected", "measured", "met"), map(_expectation_row, run_verdict.expectations)),
        _findings(kinds_of(run_verdict.findings)),
        _quantities(run_verdict),
        _table(("latency in ms", "when", *PERCENTILES), map(_latency_row, latency_rows(run_verdict.quantities))),
        f"Reproduce with: {run_verdict.command}" if run_verdict.command else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _side(side: SideResult) -> str:
    return f"{side.name}: {side.headline}. {side.summary}"


def _facts(run_verdict: RunVerdict) -> str:
    """What was run, a line for each fact, longer ones wrapped; of a reproduction, the first run of each side."""
    sides = [(each.name, each.description) for each in run_verdict.sides if each.name.endswith("-1")]
    named = [("run", run_verdict.description), *sides]
    rows = facts([(name, description) for name, description in named if description])
    return "\n".join(_fact(name, text) for name, text in rows)


def _fact(name: str, text: str) -> str:
    """The name and the text, whose lines are wrapped and begin at the same column."""
    wrapped = [_WRAPPER.wrap(line) for line in text.splitlines()]
    return f"{name + ':':{COLUMN}}" + f"\n{'':{COLUMN}}".join(chain.from_iterable(wrapped))


def _table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    all_rows = list(rows)
    return text_table(headers, all_rows, [CELL_MAX] * len(headers)) if all_rows else ""


def _expectation_row(expectation: ExpectationResult) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: "unknown"}[expectation.met]
    return expectation.text, expectation.measured_text, met


def _quantities(run_verdict: RunVerdict) -> str:
    """What was measured, the most important first, without details."""
    expected = {each.quantity for each in run_verdict.expectations if each.quantity}
    shown = shown_quantities(run_verdict.quantities, expected)
    details = sum(each.detail for each in shown)
    table = _table(("measured", "value"), ((each.title, each.text) for each in shown if not each.detail))
    return f"{table}\n{counted(details, 'more number')} in the report" if details else table


def _latency_row(row: tuple[str, str, Mapping[str, float]]) -> tuple[str, ...]:
    f, when, percentiles = row
    return f, when, *(f"{percentiles[name]:.1f}" if name in percentiles else "" for name in PERCENTILES)


def _findings(kinds: Sequence[FindingKind]) -> str:
    lines = [line for kind in kinds[:KINDS_SHOWN] for line in _kind(kind)]
    if len(kinds) > KINDS_SHOWN:
        lines.append(f"and {counted(len(kinds) - KINDS_SHOWN, 'more kind')} of findings in verdict.json")
    return "\n".join(lines)


def _kind(kind: FindingKind) -> list[str]:
    """The first finding of a kind, and the number of others."""
    lines = [f"{kind.severity}: {kind.name}: {kind.findings[0].message}"]
    others = kind.count - kind.findings[0].count
    return [*lines, f"  and {counted(others, 'more finding')} of this kind"] if others else lines
