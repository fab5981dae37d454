"""The pages of `splitbrain serve`: their templates, their style, and two runs side by side.

    render("runs.html.j2", url_of, rows=rows)

Contains rendering. harness.serving has the routes and finds the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from harness.model import Quantity
from results.data import SideData
from results.drawing.svg import markup
from results.drawing.timeline import timeline
from results.drawing.trend import TrendPoint, failure_chart, quantity_chart
from results.pages import charts, templates
from results.quantities import duration_text, quantity_text, shown_quantities, title_of

STYLE_SHEETS: Final = ("drawing.css", "report.css", "web/web.css")
TONES: Final = {"passed": "valid", "failed": "invalid", "unknown": "unknown", "known": "tolerated"}
"""The verdict by whose colour an outcome is shown."""
UrlOf = Callable[..., str]


@cache
def _environment() -> Environment:
    return templates(
        {
            "tone": lambda outcome: TONES.get(outcome or "", "tolerated"),
            "title": title_of,
            "duration": lambda seconds: duration_text(seconds * 1000),
            "when": _when,
        }
    )


def render(template: str, url: UrlOf, **values: object) -> str:
    """A page; url makes the address of a route from its name and its parameters."""
    return _environment().get_template(f"web/{template}").render(url=url, **values)


@cache
def style() -> str:
    """The style sheet of all pages."""
    return "\n".join(_environment().get_template(name).render() for name in STYLE_SHEETS)


def timelines(sides: Sequence[SideData]) -> Markup:
    """The runs one above the other, on one time axis."""
    return Markup(markup(timeline(sides)))


def chart_markup(title: str, quantity: str | None, points: Sequence[TrendPoint | None]) -> Markup:
    """The chart of a quantity of this name over time; of failures without one."""
    drawn = failure_chart(title, points) if quantity is None else quantity_chart(title, quantity, points)
    return Markup(markup(drawn))


def load_charts(sides: Sequence[SideData]) -> list[tuple[str, list[Markup]]]:
    """The charts of each run that had client load, on the time axis of the longest."""
    longest_ns = max((side.duration_ns for side in sides), default=0)
    drawn = [(side.name, charts(side, longest_ns)) for side in sides]
    return [(name, pictures) for name, pictures in drawn if pictures]


def quantities_side_by_side(left: SideData, right: SideData) -> Iterator[tuple[str, str, str]]:
    """The title of each quantity that both have or only one has, and its two values; `-` where it is missing."""
    values = [{each.name: each.value for each in side.quantities} for side in (left, right)]
    both = {each.name: each for side in (right, left) for each in side.quantities}
    for shown in shown_quantities(both.values()):
        texts = [_text(both[shown.name], side) for side in values]
        yield shown.title, texts[0], texts[1]


def _when(iso: str) -> str:
    """A time of the store's table, to the second."""
    return f"{datetime.fromisoformat(iso).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _text(quantity: Quantity, values: dict[str, float]) -> str:
    return quantity_text(quantity.name, values[quantity.name]) if quantity.name in values else "-"
