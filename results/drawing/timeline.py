"""The timeline of a run: each node's state and epoch over time, and the faults.

Each side is a block, and all blocks have the same time axis. In a block, each node is a row coloured by state, with the
epoch above each change and the findings below; the faults have lanes above the rows; the epochs are drawn below as step
lines.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import Final

from harness.model import Finding
from results.data import DOWN, SideData, StateSpan
from results.drawing.axis import LEFT, WIDTH, clip, seconds_of, time_axis, time_scale
from results.drawing.epochs import EPOCHS_HEIGHT, epoch_lines
from results.drawing.faults import fault_lanes, fault_lines, fault_samples, fault_shades, lanes_height
from results.drawing.scale import Scale
from results.drawing.svg import drawing, element, label, text_width, tooltip
from results.headline import tone_of

HEADER_HEIGHT: Final = 30
ROW_HEIGHT: Final = 40
BAR_HEIGHT: Final = 19
AXIS_HEIGHT: Final = 24
GAP: Final = 22
LEGEND_ROW: Final = 20
POINTER_WIDTH: Final = 9.0
SYSTEM_LENGTH_MAX: Final = 60
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
    legend, height = _legend(sides, top - GAP / 2)
    title = "Leadership over time: " + "; ".join(f"{side.name}, {side.system}, {side.headline}" for side in sides)
    return drawing(title, WIDTH, top - GAP / 2 + height, *parts, legend)


def _block(side: SideData, scale: Scale, epochs_shown: range, top: float) -> tuple[ET.Element, float]:
    placed = fault_lanes(side.faults, scale)
    lanes_top = top + HEADER_HEIGHT
    rows_top = lanes_top + lanes_height(placed)
    rows_bottom = rows_top + ROW_HEIGHT * len(side.nodes)
    bottom = rows_bottom + (EPOCHS_HEIGHT if side.epochs else 0)
    rows = [_row(node, side, scale, rows_top + ROW_HEIGHT * position) for position, node in enumerate(side.nodes)]
    faults = fault_shades(side.faults, scale, rows_top, bottom)
    faults += [fault_lines(each, scale, lanes_top, rows_top, bottom) for each in placed]
    epochs = [epoch_lines(side, epochs_shown, scale, rows_bottom)] if side.epochs else []
    block = element("g", _header(side, top), *faults, *rows, *epochs, time_axis(scale, bottom), class_="side")
    return block, bottom + AXIS_HEIGHT - top


def _header(side: SideData, top: float) -> ET.Element:
    """The side's name, system, headline, and as much of its summary as there is room for."""
    system = clip(side.system, SYSTEM_LENGTH_MAX)
    used = text_width(side.name, 17) + text_width(f"{system}{side.headline}", 12.5) + 40
    summary = clip(side.summary, max(1, int((WIDTH - used) / text_width(" ", 12))))
    return element(
        "text",
        element("tspan", side.name, class_="side-name"),
        element("tspan", system, dx=10, class_="label"),
        element("tspan", side.headline, dx=14, class_=f"verdict verdict-{tone_of(side.headline).value}"),
        element("tspan", summary, dx=8, class_="label"),
        x=4,
        y=top + 16,
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
        *_pointers(findings, scale, bar_top + BAR_HEIGHT + 1),
        class_="row",
    )


def _pointers(findings: Sequence[Finding], scale: Scale, top: float) -> Iterator[ET.Element]:
    """A wedge below the row at the time of each finding; of wedges that would overlap, the first is kept."""
    free = 0.0
    for finding in sorted(findings, key=lambda finding: finding.time_ns or 0):
        if finding.time_ns is None or (x := scale(finding.time_ns)) < free:
            continue
        free = x + POINTER_WIDTH
        text = tooltip(f"{finding.name}: {finding.message}")
        yield element("path", text, d=_wedge(x, top), class_=f"pointer {finding.severity}")


def _wedge(x: float, y: float) -> str:
    return f"M{x:.2f} {y:.2f}l{POINTER_WIDTH / 2} 8h-{POINTER_WIDTH}z"


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


def _legend(sides: Sequence[SideData], top: float) -> tuple[ET.Element, float]:
    """The samples of what is drawn, in as many lines as they need, and the height of these lines."""
    present = {span.state for side in sides for span in side.spans}
    samples = [(_box(f"state {state.lower()}"), state.lower()) for state in LEGEND if state in present]
    samples += fault_samples([fault for side in sides for fault in side.faults])
    if any(shown.finding.node is not None for side in sides for shown in side.findings):
        samples.append((element("path", d=_wedge(8, 0), class_="pointer invalid"), "finding"))
    number = element("g", element("path", d="M3 0V12", class_="epoch-tick"), label("7", 6, 9, "epoch-number"))
    samples.append((number, "the node enters epoch 7"))
    entries, left, y = [], float(LEFT), top
    for sample, text in samples:
        width = 22 + text_width(text, 12)
        if left + width > WIDTH:
            left, y = float(LEFT), y + LEGEND_ROW
        entry = element("g", sample, label(text, 22, 10.5), transform=f"translate({left:.2f} {y:.2f})")
        entries.append(entry)
        left += width + 16
    return element("g", *entries, class_="legend"), y - top + LEGEND_ROW + 4


def _box(class_: str) -> ET.Element:
    return element("rect", width=16, height=12, rx=2, class_=class_)


def _hatching() -> ET.Element:
    """The fill of a node that is down."""
    lines = element("path", d="M0 6L6 0M-1 1L1 -1M5 7L7 5", class_="hatch")
    return element("defs", element("pattern", lines, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse"))
