"""What the HTML pages of runs and of external histories share: the templates, the pictures of findings, the charts.

Contains rendering. The pages are report.py and history_report.py; pictures are drawn by drawing/.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.model import Op
from harness.model.records.evidence import Cycle
from results.data import ShownFinding, SideData
from results.drawing.axis import clip
from results.drawing.charts import latency_chart, throughput_chart
from results.drawing.cycle import CYCLE_CAPTION, cycle
from results.drawing.intervals import caption, intervals
from results.drawing.svg import markup

VALUE_LENGTH_MAX: Final = 120


def templates(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """The environment of the templates, with these filters beside the common ones."""
    environment = Environment(
        loader=PackageLoader("results"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"seconds": seconds_text, "value": _value, **filters}
    return environment


def charts(side: SideData, duration_ns: int) -> list[Markup]:
    """The charts of a side; none without client load."""
    if not side.load or not side.latencies:
        return []
    return [Markup(markup(chart(side, duration_ns))) for chart in (latency_chart, throughput_chart)]


def picture(shown: ShownFinding, side: SideData, has_times: bool = True) -> tuple[Markup, str] | None:
    """A finding's picture and caption, if it is drawn."""
    if not shown.operations:
        return None
    if isinstance(shown.evidence, Cycle):
        return Markup(markup(cycle(shown, side))), CYCLE_CAPTION
    return Markup(markup(intervals(shown, side, has_times))), caption(shown)


def seconds_text(time_ns: int) -> str:
    """Nanoseconds as seconds with three digits."""
    return f"{time_ns / 1e9:.3f}"


def _value(op: Op) -> str:
    return "" if op.value is None else clip(json.dumps(op.value, ensure_ascii=False), VALUE_LENGTH_MAX)
