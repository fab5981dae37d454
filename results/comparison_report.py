"""A comparison as text, as Markdown for a pull request, as JUnit XML, and as one self-contained HTML page.

    text(comparison)      markdown(comparison)      junit(comparison)      page(comparison, sides)

Each begins with the verdict in one sentence; then what changed, the most important first; what is as before is counted.
Contains the rendering. The values are in comparison.py.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from functools import cache
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from harness.model.plurals import counted
from results.comparison import REGRESSIONS, UNDECIDED, CaseChange, Comparison, QuantityChange
from results.data import SideData
from results.drawing.svg import markup
from results.drawing.timeline import timeline
from results.markdown import cell, code, table
from results.pages import templates
from results.text_tables import text_table
from results.xml import valid_xml_text

HEADERS: Final = ("status", "case", "system", "before", "now", "chance", "problems")
QUANTITY_HEADERS: Final = ("case", "system", "quantity", "before", "now", "shift, 95 %", "chance")
UNCHANGED: Final = ("passing",)
WIDTHS: Final = (14, 26, 28, 18, 18, 8, 34)
QUANTITY_WIDTHS: Final = (26, 28, 26, 12, 12, 20, 8)
MARKDOWN_ROWS_MAX: Final = 20
METHODS: Final = (
    "Chance: the probability of such a difference between equal builds. Failures: Fisher's exact test. Quantities: "
    "Mann-Whitney test; shift: Hodges-Lehmann. Both with Holm's correction; family-wise levels {failures:g} and "
    "{quantities:g}. A quantity counts if it also moves by 20 % and by a least amount."
)


def text(comparison: Comparison) -> str:
    """The comparison for a terminal."""
    changed = [case for case in comparison.cases if case.status not in UNCHANGED]
    quantities = _changed_quantities(comparison)
    rows = [_row(case) for case in changed]
    quantity_rows = [_quantity_row(*each) for each in quantities]
    command = _command(comparison)
    parts = [
        f"{comparison.verdict.value.upper()}: {comparison.headline}",
        _sets(comparison),
        text_table(HEADERS, rows, WIDTHS) if rows else "",
        text_table(QUANTITY_HEADERS, quantity_rows, QUANTITY_WIDTHS) if quantity_rows else "",
        "\n".join([*_notes(comparison), *([f"Repeat the first: {command}"] if command else [])]),
    ]
    return "\n\n".join(part for part in parts if part)


def _sets(comparison: Comparison) -> str:
    before, now = counted(comparison.base_runs, "run"), counted(comparison.head_runs, "run")
    return f"before: {comparison.base} ({before}); now: {comparison.head} ({now})"


def _notes(comparison: Comparison) -> list[str]:
    same = comparison.of(*UNCHANGED)
    lines = [f"{counted(len(same), 'case')} as before."] if same else []
    lines += [f"no longer found: {each}" for each in comparison.gone]
    lines += [f"expired entry of the known findings: {each}" for each in comparison.expired]
    return lines


def _command(comparison: Comparison) -> str:
    """The command that repeats the first of what is worse or undecided; "" if there is none."""
    return next((case.command for case in comparison.of(*REGRESSIONS, *UNDECIDED) if case.command), "")


def _row(case: CaseChange) -> tuple[str, ...]:
    system = f"{case.system}\n({case.change})" if case.change else case.system
    chance = f"{case.p_corrected:.2g}" if case.base.decided and case.head.decided else "-"
    return case.status, case.case, system, case.base.text, case.head.text, chance, _problems(case)


def _problems(case: CaseChange) -> str:
    new = [f"NEW {name}" for name in case.new_problems]
    others = [name for name in case.problems if name not in case.new_problems]
    known = [f"{name} (known: {issue})" for name, issue in (case.known_problems or {}).items()]
    return ", ".join([*new, *others, *known])


def _changed_quantities(comparison: Comparison) -> list[tuple[CaseChange, QuantityChange]]:
    pairs = [(case, each) for case in comparison.cases for each in case.quantities if each.is_worse is not None]
    return sorted(pairs, key=lambda pair: (not pair[1].is_worse, pair[1].p_corrected))


def _quantity_row(case: CaseChange, each: QuantityChange) -> tuple[str, ...]:
    word = "worse" if each.is_worse else "better"
    title = f"{each.title}: {word}"
    return case.case, case.system, title, each.base_text, each.head_text, each.interval_text, f"{each.p_corrected:.2g}"


def markdown(comparison: Comparison) -> str:
    """The comparison for a pull request: short, whatever the number of cases."""
    changed = [case for case in comparison.cases if case.status not in UNCHANGED]
    lines = [f"**{comparison.verdict.value}**: {cell(comparison.headline)}", "", cell(_sets(comparison)), ""]
    if changed:
        lines += table(HEADERS, [[cell(value) for value in _row(case)] for case in changed[:MARKDOWN_ROWS_MAX]])
    if len(changed) > MARKDOWN_ROWS_MAX:
        lines += [f"and {counted(len(changed) - MARKDOWN_ROWS_MAX, 'more case')}", ""]
    quantities = _changed_quantities(comparison)[:MARKDOWN_ROWS_MAX]
    if quantities:
        lines += table(QUANTITY_HEADERS, [[cell(value) for value in _quantity_row(*each)] for each in quantities])
    lines += [f"- {cell(note)}" for note in _notes(comparison)]
    if command := _command(comparison):
        lines.append(f"- Repeat the first: {code(command)}")
    return "\n".join([*lines, ""])


def junit(comparison: Comparison) -> str:
    """The comparison as JUnit XML: a case each; a regression is a failure, what is undecided an error."""
    root = ET.Element("testsuites", name="splitbrain")
    failures, errors = comparison.of(*REGRESSIONS), comparison.of(*UNDECIDED)
    numbers = {"tests": len(comparison.cases), "failures": len(failures), "errors": len(errors)}
    name = valid_xml_text(f"{comparison.base} and {comparison.head}")
    suite = ET.SubElement(root, "testsuite", name=name, attrib={key: str(value) for key, value in numbers.items()})
    for case in comparison.cases:
        element = ET.SubElement(
            suite, "testcase", classname=valid_xml_text(case.system), name=valid_xml_text(case.case)
        )
        tag = "failure" if case in failures else "error" if case in errors else None
        if tag:
            message = valid_xml_text(f"{case.status}: before {case.base.text}; now {case.head.text}; {_problems(case)}")
            ET.SubElement(element, tag, type=case.status, message=message).text = valid_xml_text(case.command)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def page(comparison: Comparison, shown: CaseChange | None, sides: Sequence[SideData]) -> str:
    """The comparison as HTML; sides are a run before and one now of the case that is shown as a picture, if any."""
    changed = [case for case in comparison.cases if case.status not in UNCHANGED]
    template = _environment().get_template("comparison.html.j2")
    return template.render(
        comparison=comparison,
        headers=HEADERS,
        rows=[_row(case) for case in changed],
        quantity_headers=QUANTITY_HEADERS,
        quantity_rows=[_quantity_row(*each) for each in _changed_quantities(comparison)],
        sets=_sets(comparison),
        notes=_notes(comparison),
        methods=METHODS.format(failures=comparison.level_failures, quantities=comparison.level_quantities),
        shown=shown,
        picture=Markup(markup(timeline(sides))) if sides else None,
        tones={
            **dict.fromkeys(REGRESSIONS, "invalid"),
            **dict.fromkeys(UNDECIDED, "unknown"),
            "newly passing": "valid",
        },
    )


@cache
def _environment() -> Environment:
    return templates({})
