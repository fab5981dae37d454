"""The report on an external history, and the overview of several: HTML files that work offline and without scripts.

    write_history_report(folder / "report.html", HistoryData(title="etcd.log", verdict=…, findings=…, …))

Contains the values that these pages show, and their rendering. Rows are read by harness.judging.check_reports, pictures
are drawn by drawing/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment

from harness.model import Finding, Verdict
from harness.model.plurals import counted
from results.data import ShownKind, SideData
from results.files import write_text
from results.kinds import kinds_of
from results.pages import charts, picture, templates


@dataclass(frozen=True, slots=True)
class HistoryData:
    """The report on one history. facts are rows of `what was checked`; load has its latencies and throughput.

    has_times is false if the history's rows have no times: then pictures show indexes instead. command repeats the
    check.
    """

    title: str
    question: str
    verdict: Verdict
    answer: str
    facts: tuple[tuple[str, str], ...]
    kinds: tuple[ShownKind, ...]
    load: SideData
    has_times: bool
    command: str


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A history in the overview: its verdict (refused if it could not be read), and the link to its report."""

    path: str
    verdict: str
    text: str
    link: str | None = None


def answer_of(verdict: Verdict, findings: Sequence[Finding], operations: int, model: str) -> str:
    """The verdict in a sentence."""
    if verdict is Verdict.VALID:
        return f"{counted(operations, 'operation')} checked; a {model} can have answered every one of them like this."
    weighty = kinds_of(finding for finding in findings if finding.severity == verdict.value)
    parts = [f"{kind.name}: {counted(kind.count, 'finding')}" for kind in weighty]
    return f"{'; '.join(parts)}, among {counted(operations, 'operation')}."


def write_history_report(path: Path, data: HistoryData) -> None:
    """Write the report on one history."""
    page = (
        _environment()
        .get_template("history.html.j2")
        .render(
            data=data,
            pictures=[[picture(shown, data.load, data.has_times) for shown in kind.shown] for kind in data.kinds],
            charts=charts(data.load, data.load.duration_ns),
        )
    )
    write_text(path, page)


def write_overview(path: Path, rows: Sequence[OverviewRow], verdict: str, command: str) -> None:
    """Write the overview of several histories."""
    template = _environment().get_template("histories.html.j2")
    write_text(path, template.render(rows=rows, verdict=verdict, command=command))


@cache
def _environment() -> Environment:
    return templates({})
