"""The timeline of a run: each node's state and epoch over time, and the faults.

Each side is a block, and all blocks have the same time axis. In a block, each node is a row coloured by state, with the
epoch above each change; fault intervals shade all rows; the epochs are drawn below as step lines.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from harness.model import Finding
from harness.model.records.fault_intervals import FaultInterval
from results.data import DOWN, SideData, StateSpan
from results.drawing.axis import LEFT, RIGHT, WIDTH, clip, seconds_of, time_axis, time_scale
from results.drawing.epochs import EPOCHS_HEIGHT, epoch_lines
from results.drawing.scale import Scale
from results.drawing.svg import drawing, element, label, text_width, tooltip

HEADER_HEIGHT: Final = 30
LANE_HEIGHT: Final = 19
ROW_HEIGHT: Final = 36
BAR_HEIGHT: Final = 19
AXIS_HEIGHT: Final = 24
GAP: Final = 22
LEGEND_HEIGHT: Final = 26
WIDTH_MIN: Final = 2.5
"""The minimum width of a state, since a candidacy may last only a millisecond."""

BACKGROUND_STATES: Final = ("Follower", "Unattached", DOWN)
LEGEND: Final = ("Leader", "Prospective", "Candidate", "Resigned", "Follower", "Unattached", DOWN)


def timeline(sides: Sequence[SideData]) -> ET.Element:
    """The picture as an svg element."""
    scale = time_scale(max((side.duration_ns for side in sides), default=0))
    epochs = [step.epoch for side in sides for step in side.epochs]
    epochs_shown = range(min(epochs, default=0), max(epochs, default=0) + 1)
    parts: list[ET.Element] = [_hatching()]
    top = 4.0
    for side in sides:
        block, height = _block(side, scale, epochs_shown, top)
        parts.append(block)
        top += height + GAP
    parts.append(_legend(sides, top - GAP / 2))
    title = "Leadership over time: " + "; ".join(f"{side.name}, {side.system}, {side.verdict.value}" for side in sides)
    return drawing(title, WIDTH, top - GAP / 2 + LEGEND_HEIGHT, *parts)


def _block(side: SideData, scale: Scale, epochs_shown: range, top: float) -> tuple[ET.Element, float]:
    lanes = fault_lanes(side.faults, scale)
    rows_top = top + HEADER_HEIGHT + LANE_HEIGHT * (max(lanes, default=-1) + 1)
    rows_bottom = rows_top + ROW_HEIGHT * len(side.nodes)
    bottom = rows_bottom + (EPOCHS_HEIGHT if side.epochs else 0)
    rows = [_row(node, side, scale, rows_top + ROW_HEIGHT * position) for position, node in enumerate(side.nodes)]
    faults = [
        fault_shade(interval, scale, top + HEADER_HEIGHT + LANE_HEIGHT * lane, bottom)
        for interval, lane in zip(side.faults, lanes, strict=True)
    ]
    epochs = [epoch_lines(side, epochs_shown, scale, rows_bottom)] if side.epochs else []
    block = element("g", _header(side, top), *faults, *rows, *epochs, time_axis(scale, bottom), class_="side")
    return block, bottom + AXIS_HEIGHT - top


def _header(side: SideData, top: float) -> ET.Element:
    return element(
        "text",
        element("tspan", side.name, class_="side-name"),
        element("tspan", side.system, dx=10, class_="label"),
        element("tspan", side.verdict.value, dx=14, class_=f"verdict verdict-{side.verdict.value}"),
        element("tspan", clip(side.summary, 110), dx=8, class_="label"),
        x=4,
        y=top + 16,
    )


def fault_lanes(faults: Sequence[FaultInterval], scale: Callable[[float], float]) -> list[int]:
    """For each interval, the first lane in which neither the interval nor its label overlaps another."""
    ends: list[float] = []
    lanes: list[int] = []
    for interval in faults:
        start = _label_start(interval, scale)
        lane = next((lane for lane, end in enumerate(ends) if end < start), len(ends))
        ends[lane : lane + 1] = [max(start + text_width(interval.label, 11) + 10, scale(interval.end_ns) + 4)]
        lanes.append(lane)
    return lanes


def _label_start(interval: FaultInterval, scale: Callable[[float], float]) -> float:
    """The start of an interval, or further left if its label would leave the picture."""
    return max(LEFT, min(scale(interval.start_ns), WIDTH - RIGHT - text_width(interval.label, 11)))


def fault_shade(interval: FaultInterval, scale: Callable[[float], float], lane_top: float, bottom: float) -> ET.Element:
    """The shading of a fault down to bottom, with its label in the lane at lane_top."""
    start, end = scale(interval.start_ns), scale(interval.end_ns)
    line_y, width = lane_top + LANE_HEIGHT - 4, max(end - start, 0.0)
    when = (
        f"{seconds_of(interval.start_ns)} to {seconds_of(interval.end_ns)}" if width else seconds_of(interval.start_ns)
    )
    return element(
        "g",
        tooltip(f"{interval.label}: {when}"),
        element("rect", x=start, y=line_y, width=max(width, 1.0), height=bottom - line_y, class_="fault"),
        element("path", d=f"M{start:.2f} {bottom:.2f}V{line_y:.2f}H{end:.2f}V{bottom:.2f}", class_="fault-edge"),
        label(interval.label, _label_start(interval, scale) + 3, lane_top + LANE_HEIGHT - 7, "fault-label"),
        class_="fault-interval",
    )


def _row(node: int, side: SideData, scale: Scale, top: float) -> ET.Element:
    bar_top = top + ROW_HEIGHT - BAR_HEIGHT
    spans = [span for span in side.spans if span.node == node]
    findings = [shown.finding for shown in side.findings if shown.finding.node == node]
    # Short spans are drawn last, so that their neighbours do not cover their minimum width.
    ordered = sorted(spans, key=lambda span: (span.state not in BACKGROUND_STATES, span.start_ns))
    return element(
        "g",
        label(f"n{node}", LEFT - 12, bar_top + 14, "node", "end"),
        *[_bar(span, scale, bar_top) for span in ordered],
        *_epoch_labels(spans, scale, bar_top),
        *[_pointer(finding, scale, bar_top) for finding in findings if finding.time_ns is not None],
        class_="row",
    )


def _pointer(finding: Finding, scale: Scale, bar_top: float) -> ET.Element:
    """A wedge that points from below at the time of a finding."""
    x = scale(finding.time_ns or 0)
    text = tooltip(f"{finding.name}: {finding.message}")
    return element("path", text, d=_wedge(x, bar_top + BAR_HEIGHT - 9), class_=f"pointer {finding.severity}")


def _wedge(x: float, y: float) -> str:
    return f"M{x:.2f} {y:.2f}l6 12h-12z"


def _bar(span: StateSpan, scale: Scale, top: float) -> ET.Element:
    start = scale(span.start_ns)
    width = max(scale(span.end_ns) - start, WIDTH_MIN)
    epoch = "" if span.epoch is None else f" in epoch {span.epoch}"
    text = f"n{span.node}: {span.state}{epoch}, {seconds_of(span.start_ns)} to {seconds_of(span.end_ns)}"
    bar = element(
        "rect",
        tooltip(text),
        x=start,
        y=top,
        width=width,
        height=BAR_HEIGHT,
        rx=2,
        class_=f"state {span.state.lower()}",
    )
    if span.state not in ("Leader", DOWN) or width < text_width(span.state, 11) + 12:
        return bar
    return element("g", bar, label(span.state.lower(), start + 7, top + 13.5, f"in-{span.state.lower()}"))


def _epoch_labels(spans: Sequence[StateSpan], scale: Scale, bar_top: float) -> Iterator[ET.Element]:
    """Each new epoch above its start; of labels that would overlap, the latest is kept."""
    free_until = float(WIDTH)
    for span in reversed(_changes(spans)):
        text, x = str(span.epoch), scale(span.start_ns)
        if x + text_width(text, 10.5) + 3 > free_until:
            continue
        free_until = x
        yield element("path", d=f"M{x:.2f} {bar_top - 11:.2f}V{bar_top:.2f}", class_="epoch-tick")
        yield label(text, x + 3, bar_top - 3, "epoch-number")


def _changes(spans: Sequence[StateSpan]) -> list[StateSpan]:
    """The spans whose epoch differs from that of the previous span."""
    changes: list[StateSpan] = []
    for span in spans:
        if span.epoch is not None and (not changes or changes[-1].epoch != span.epoch):
            changes.append(span)
    return changes


def _legend(sides: Sequence[SideData], top: float) -> ET.Element:
    present = {span.state for side in sides for span in side.spans}
    samples = [(_box(f"state {state.lower()}"), state.lower()) for state in LEGEND if state in present]
    if any(side.faults for side in sides):
        samples.append((element("g", _box("fault"), element("path", d="M0 12V0H16V12", class_="fault-edge")), "fault"))
    if any(shown.finding.node is not None for side in sides for shown in side.findings):
        samples.append((element("path", d=_wedge(8, 0), class_="pointer invalid"), "finding"))
    number = element("g", element("path", d="M3 0V12", class_="epoch-tick"), label("7", 6, 9, "epoch-number"))
    samples.append((number, "the node enters epoch 7"))
    entries, left = [], float(LEFT)
    for sample, text in samples:
        entry = element("g", sample, label(text, 22, 10.5), transform=f"translate({left:.2f} {top:.2f})")
        entries.append(entry)
        left += 22 + text_width(text, 12) + 22
    return element("g", *entries, class_="legend")


def _box(class_: str) -> ET.Element:
    return element("rect", width=16, height=12, rx=2, class_=class_)


def _hatching() -> ET.Element:
    """The fill of a node that is down."""
    lines = element("path", d="M0 6L6 0M-1 1L1 -1M5 7L7 5", class_="hatch")
    return element("defs", element("pattern", lines, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse"))
