"""The report: one HTML file that works offline and without scripts, and the timeline as an SVG file.

    write_report(run, ReportData(title="PV-01", question="…", sides=(read_side(run, "bad", "kafka:3.9"),), …))

Contains the rendering. Runs are read by sides.py, pictures are drawn by drawing/.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.model import Op
from harness.model.records.evidence import Cycle
from results.data import ReportData, ShownFinding, SideData
from results.drawing.axis import clip
from results.drawing.charts import latency_chart, throughput_chart
from results.drawing.cycle import CYCLE_CAPTION, cycle
from results.drawing.intervals import caption, intervals
from results.drawing.messages import sequence
from results.drawing.svg import element, markup
from results.drawing.timeline import timeline
from results.files import write_text
from results.latencies import PERCENTILES, latency_rows, others
from results.store import RunDirectory

VALUE_LENGTH_MAX: Final = 120


def write_report(run: RunDirectory, data: ReportData) -> None:
    """Write report.html and timeline.svg into a run's directory."""
    write_text(run.report, render_report(data))
    write_text(run.timeline, render_timeline(data))


def render_report(data: ReportData) -> str:
    """The report as HTML."""
    duration_ns = max((side.duration_ns for side in data.sides), default=0)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            data=data,
            percentiles=PERCENTILES,
            timeline=Markup(markup(timeline(data.sides))),
            charts=[_charts(side, duration_ns) for side in data.sides],
            pictures=[[_picture(shown, side) for shown in side.findings] for side in data.sides],
            sequences=[Markup(markup(sequence(side))) if side.messages else None for side in data.sides],
        )
    )


def render_timeline(data: ReportData) -> str:
    """The timeline as a separate SVG file, with its style sheet."""
    picture = timeline(data.sides)
    style, _, _ = _environment().loader.get_source(_environment(), "drawing.css")  # type: ignore[union-attr]
    picture.insert(1, element("style", style))
    return markup(picture) + "\n"


def _charts(side: SideData, duration_ns: int) -> list[Markup]:
    """The charts of a side; none without client load."""
    if not side.load or not side.latencies:
        return []
    return [Markup(markup(chart(side, duration_ns))) for chart in (latency_chart, throughput_chart)]


def _picture(shown: ShownFinding, side: SideData) -> tuple[Markup, str] | None:
    """A finding's picture and caption, if it is drawn."""
    if not shown.operations:
        return None
    if isinstance(shown.evidence, Cycle):
        return Markup(markup(cycle(shown, side))), CYCLE_CAPTION
    return Markup(markup(intervals(shown, side))), caption(shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"seconds": _seconds, "value": _value, "latencies": latency_rows, "others": others}
    return environment


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f}"


def _value(op: Op) -> str:
    return "" if op.value is None else clip(json.dumps(op.value, ensure_ascii=False), VALUE_LENGTH_MAX)
