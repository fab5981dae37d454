"""The report: one HTML file that works offline and without scripts, and the timeline as an SVG file.

    write_report(run, ReportData(title="PV-01", question="…", sides=(read_side(run, "bad", "kafka:3.9"),), …))

Contains the rendering. Runs are read by sides.py, pictures are drawn by drawing/.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from harness.model import Finding
from harness.model.plurals import counted
from results.data import ReportData, ShownFinding, ShownKind, SideData
from results.description import facts
from results.drawing.messages import sequence
from results.drawing.svg import element, markup
from results.drawing.timeline import timeline
from results.files import write_text
from results.headline import tone_of
from results.latencies import PERCENTILES, latency_rows
from results.pages import charts, picture, seconds_text, templates
from results.quantities import ShownQuantity, shown_quantities
from results.store import RunDirectory


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
            tone=tone_of,
            facts=_facts(data),
            percentiles=PERCENTILES,
            timeline=Markup(markup(timeline(data.sides))),
            charts=[charts(side, duration_ns) for side in data.sides],
            kinds=[[_kind(kind, side) for kind in side.kinds] for side in data.sides],
            sequences=[Markup(markup(sequence(side))) if side.messages else None for side in data.sides],
        )
    )


def render_timeline(data: ReportData) -> str:
    """The timeline as a separate SVG file, with its style sheet."""
    picture = timeline(data.sides)
    style, _, _ = _environment().loader.get_source(_environment(), "drawing.css")  # type: ignore[union-attr]
    picture.insert(1, element("style", style))
    return markup(picture) + "\n"


def _facts(data: ReportData) -> list[tuple[str, str]]:
    """What the first screen says of the runs."""
    described = [(side.name, side.description) for side in data.sides if side.description]
    versions = dict(item for side in data.sides for item in side.versions.items())
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [*facts(described), *([("Versions", text)] if text else [])]


def _kind(kind: ShownKind, side: SideData) -> tuple[ShownKind, list[tuple[ShownFinding, tuple[Markup, str] | None]]]:
    """A kind of findings, and those that are shown with their pictures."""
    return kind, [(shown, picture(shown, side)) for shown in kind.shown]


def _quantities(side: SideData) -> list[ShownQuantity]:
    """A side's quantities, first those that its scenario has an expectation of."""
    return shown_quantities(side.quantities, {each.quantity for each in side.expectations if each.quantity})


@cache
def _environment() -> Environment:
    return templates(
        {
            "place": _place,
            "latencies": latency_rows,
            "shown": _quantities,
            "counted": counted,
            "count_shown": lambda kind: sum(each.finding.count for each in kind.shown),
            "has_pictures": lambda sides: any(each.operations for side in sides for each in side.findings),
        }
    )


def _place(finding: Finding) -> str:
    """`key r3 · n2 · at 14.310 s · 7 times`, as far as known."""
    parts = [f"key {finding.key}"] if finding.key and not finding.message.startswith(f"key {finding.key}:") else []
    parts += [f"n{finding.node}"] if finding.node is not None else []
    parts += [f"at {seconds_text(finding.time_ns)} s"] if finding.time_ns is not None else []
    parts += [f"{finding.count:,} times"] if finding.count > 1 else []
    return " · ".join(parts)
