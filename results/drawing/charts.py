"""The clients' latency on a logarithmic scale, and their completions per second.

Contains the layout of these two charts. load.py computes and thins out the data.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Final

from harness.model.records.fault_intervals import FaultInterval
from results.data import OUTCOMES, LatencyPoint, LatencyQuantiles, Outcome, SecondOfLoad, SideData
from results.drawing.axis import LEFT, RIGHT, WIDTH, seconds_of, time_axis, time_scale
from results.drawing.faults import fault_shades
from results.drawing.scale import Scale, ticks
from results.drawing.svg import drawing, element, label, text_width, tooltip

HEIGHT: Final = 172
TOP: Final = 26
BOTTOM: Final = HEIGHT - 26
QUANTILES: Final = ("p50", "p95", "p99")
OUTCOME_NAMES: Final[dict[Outcome, str]] = {"ok": "ok", "fail": "failed", "info": "unknown"}


def latency_chart(side: SideData, duration_ns: int) -> ET.Element:
    """A side's latencies by the time of invocation."""
    scale = time_scale(duration_ns)
    low, high = _decades(side.latencies)
    heights = Scale(low, high, BOTTOM, TOP)
    grid = [grid_line(_power_of_ms(power), heights(power)) for power in range(low, high + 1)]
    points = [_point(point, scale, heights) for point in side.latencies]
    lines = [_quantile(name, side.quantiles, scale, heights) for name in QUANTILES] if side.quantiles else []
    title = f"Latency of client operations, {side.name}"
    names = [f"lines: {', '.join(QUANTILES)} of ok"] if lines else []
    return _chart(title, "latency", side.faults, scale, [*grid, *points, *lines], names)


def _quantile(name: str, quantiles: Sequence[LatencyQuantiles], scale: Scale, heights: Scale) -> ET.Element:
    """A quantile as a line through the middles of its periods."""
    values = [getattr(each, f"{name}_ms") for each in quantiles]
    points = [
        f"{scale(each.time_ns):.2f} {heights(math.log10(max(value, 0.001))):.2f}"
        for each, value in zip(quantiles, values, strict=True)
    ]
    text = f"{name}: {min(values):.1f} to {max(values):.1f} ms"
    return element("path", tooltip(text), d=f"M{'L'.join(points)}", class_=f"quantile {name}")


def _decades(latencies: Sequence[LatencyPoint]) -> tuple[int, int]:
    """The powers of ten, in milliseconds, that bound all latencies."""
    values = [max(point.latency_ms, 0.001) for point in latencies]
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _point(point: LatencyPoint, scale: Scale, heights: Scale) -> ET.Element:
    text = f"{OUTCOME_NAMES[point.outcome]} after {point.latency_ms:.1f} ms, invoked at {seconds_of(point.time_ns)}"
    return element(
        "circle",
        tooltip(text),
        cx=scale(point.time_ns),
        cy=heights(math.log10(max(point.latency_ms, 0.001))),
        r=1.9,
        class_=f"point {point.outcome}",
    )


def throughput_chart(side: SideData, duration_ns: int) -> ET.Element:
    """Completions per second by outcome, as step lines."""
    scale = time_scale(duration_ns)
    high = max(max(each.ok, each.fail, each.info) for each in side.load)
    heights = Scale(0, max(high, 1), BOTTOM, TOP)
    grid = [grid_line(f"{count:g}", heights(count)) for count in ticks(max(high, 1), 4)]
    steps = [_steps(outcome, side.load, scale, heights) for outcome in OUTCOMES]
    title = f"Client operations completed per second, {side.name}"
    return _chart(title, "operations per second", side.faults, scale, [*grid, *steps])


def _steps(outcome: Outcome, load: Sequence[SecondOfLoad], scale: Scale, heights: Scale) -> ET.Element:
    counts = [getattr(each, outcome) for each in load]
    path = f"M{LEFT} {heights(counts[0]):.2f}"
    for second, count in enumerate(counts):
        path += f"V{heights(count):.2f}H{scale((second + 1) * 1e9):.2f}"
    text = f"{OUTCOME_NAMES[outcome]}: {sum(counts):,} in total"
    return element("path", tooltip(text), d=path, class_=f"steps {outcome}")


def _power_of_ms(power: int) -> str:
    """A power of ten in milliseconds as a short axis label."""
    return f"{10.0**power:g} ms" if power < 3 else f"{10 ** (power - 3)} s"


def grid_line(text: str, y: float) -> ET.Element:
    """A horizontal line at a value of the vertical axis, with the value as text."""
    line = element("path", d=f"M{LEFT} {y:.2f}H{WIDTH - RIGHT}", class_="grid")
    return element("g", line, label(text, LEFT - 8, y + 3.5, "tick", "end"))


def _chart(
    title: str,
    name: str,
    faults: Sequence[FaultInterval],
    scale: Scale,
    inner: Sequence[ET.Element],
    names: Sequence[str] = (),
) -> ET.Element:
    key = _key(name, names)
    return drawing(
        title, WIDTH, HEIGHT, *fault_shades(faults, scale, TOP, BOTTOM), *inner, *key, time_axis(scale, BOTTOM)
    )


def _key(name: str, names: Sequence[str]) -> list[ET.Element]:
    key = [label(name, LEFT, 14, "tick")]
    left = LEFT + text_width(name, 11) + 22
    for outcome in OUTCOMES:
        key.append(element("circle", cx=left, cy=10, r=3.5, class_=f"point {outcome}"))
        key.append(label(OUTCOME_NAMES[outcome], left + 8, 14, "tick"))
        left += 8 + text_width(OUTCOME_NAMES[outcome], 11) + 18
    return key + [label(text, left, 14, "tick") for text in names]
