"""The report on an external history, and the overview of several: HTML files that work offline and without scripts.

    write_history_report(folder / "report.html", HistoryData(title="etcd.log", verdict=…, findings=…, …))

Contains the values that these pages show, and their rendering. Rows are read by harness.judging.check_reports, pictures
are drawn by drawing/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.model import Finding, Op, Verdict
from harness.model.plurals import counted
from results.data import ShownFinding, ShownKind, SideData
from results.drawing.axis import clip
from results.drawing.charts import latency_chart, throughput_chart
from results.drawing.intervals import caption, intervals
from results.drawing.svg import markup
from results.files import write_text
from results.kinds import kinds_of

VALUE_LENGTH_MAX: Final = 120


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
    has_charts = data.load.load and data.load.latencies
    charts = [chart(data.load, data.load.duration_ns) for chart in (latency_chart, throughput_chart) if has_charts]
    page = (
        _environment()
        .get_template("history.html.j2")
        .render(
            data=data,
            pictures=[[_picture(shown, data) for shown in kind.shown] for kind in data.kinds],
            charts=[Markup(markup(chart)) for chart in charts],
        )
    )
    write_text(path, page)


def write_overview(path: Path, rows: Sequence[OverviewRow], verdict: str, command: str) -> None:
    """Write the overview of several histories."""
    template = _environment().get_template("histories.html.j2")
    write_text(path, template.render(rows=rows, verdict=verdict, command=command))


def _picture(shown: ShownFinding, data: HistoryData) -> tuple[Markup, str] | None:
    """A finding's picture and caption, if it is drawn."""
    if not shown.operations:
        return None
    return Markup(markup(intervals(shown, data.load, data.has_times))), caption(shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"seconds": _seconds, "value": _value}
    return environment


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f}"


def _value(op: Op) -> str:
    return "" if op.value is None else clip(json.dumps(op.value, ensure_ascii=False), VALUE_LENGTH_MAX)
