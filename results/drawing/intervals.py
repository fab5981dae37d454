"""The picture of a non-linearizable history: its operations, the nodes' states, the faults, and the check's evidence.

Each process is a lane; each operation is a bar from its call to its return, with a dashed tail if its outcome is
unknown. The nodes' states are above the lanes, faults in the background. The evidence is either the zones of two
conflicting values, or the longest order that was found, numbered, with the operations that cannot follow it.

results.reading.witnesses selects the operations.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Final

from harness.model.records.evidence import Order, Zone, Zones
from results.data import Operation, ShownFinding, SideData
from results.drawing.axis import LEFT, RIGHT, WIDTH, clip, seconds_of
from results.drawing.events import Events, Skipped, events_of
from results.drawing.faults import PlacedFault, fault_lanes, fault_lines, fault_shades, lanes_height
from results.drawing.svg import drawing, element, label, text_width, tooltip
from results.drawing.timeline import BACKGROUND_STATES

ROW: Final = 25
BAR: Final = 17
NUMBER_ROOM: Final = 12
ZONE: Final = 22
NODE_ROW: Final = 15
NODE_BAR: Final = 9
FONT: Final = 11.0
LABEL_MAX: Final = 26


def intervals(shown: ShownFinding, side: SideData, has_times: bool = True) -> ET.Element:
    """The picture of a finding's operations; without times, the axis shows indexes."""
    notes = notes_of(shown)
    events = events_of(
        shown.operations,
        lambda each: max(text_width(label_of(each), FONT) + 12, text_width(notes.get(each.start.index, ""), FONT) + 16),
        LEFT,
        WIDTH - RIGHT,
    )
    faults = _faults(side, events)
    zones = shown.evidence.zones if isinstance(shown.evidence, Zones) else ()
    zones_top = 6.0 + lanes_height(faults)
    nodes_top = zones_top + ZONE * len(zones)
    lanes_top = nodes_top + NODE_ROW * len(side.nodes) + 8
    row = ROW + (NUMBER_ROOM if isinstance(shown.evidence, Order) else 0)
    lanes = {process: lanes_top + row * at for at, process in enumerate(_processes(events))}
    bottom = lanes_top + row * len(lanes) + 6
    parts = [
        element(
            "g",
            *fault_shades([each.interval for each in faults], events.of_time, zones_top, bottom),
            *(fault_lines(each, events.of_time, 2.0, zones_top, bottom) for each in faults),
            class_="backdrop",
        ),
        *_nodes(side, events, nodes_top),
        *(_zone(zone, at, events, zones_top + ZONE * at, bottom) for at, zone in enumerate(zones)),
        *(_break(skipped, lanes_top, bottom) for skipped in events.skipped),
        *_lanes(lanes, row),
        *(_operation(each, lanes[each.start.process] + row, events, shown, notes) for each in events.operations),
        *_points(shown, events, lanes, row),
        _marks(events, bottom, has_times),
    ]
    key = f" of {shown.finding.key}" if shown.finding.key else ""
    title = f"Operations{key} around {shown.finding.name}, {side.name}"
    return drawing(title, WIDTH, bottom + 24, element("desc", _alternative_text(shown, events)), *parts)


def _processes(events: Events) -> list[int]:
    return list(dict.fromkeys(each.start.process for each in events.operations))


def label_of(each: Operation) -> str:
    """The label of an operation: `read 3 n2`."""
    node = each.start.node if each.end is None or each.end.node is None else each.end.node
    return f"{each.start.f} {_value(each)}".rstrip() + ("" if node is None else f" n{node}")


def _value(each: Operation) -> str:
    """The value that an ok operation returned, or else that of its invocation; empty for a read with info."""
    returned = each.end.value if each.end is not None and each.outcome == "ok" else None
    value = each.start.value if returned is None else returned
    if value is None:
        return "nil" if each.outcome == "ok" and each.start.f in ("read", "get", "dequeue") else ""
    return clip(json.dumps(value, ensure_ascii=False), LABEL_MAX)


def notes_of(shown: ShownFinding) -> Mapping[int, str]:
    """By index of invocation: what an operation needs that the order does not provide."""
    if not isinstance(shown.evidence, Order):
        return {}
    stuck = shown.evidence.stuck
    return {
        need.operation: f"✗ {need.words}" if need.operation == stuck else need.words for need in shown.evidence.needs
    }


def _faults(side: SideData, events: Events) -> list[PlacedFault]:
    """The faults within the picture."""
    if not events.times_ns:
        return []
    first, last = events.times_ns[0], events.times_ns[-1]
    return fault_lanes(
        [fault for fault in side.faults if fault.end_ns >= first and fault.start_ns <= last], events.of_time
    )


def _nodes(side: SideData, events: Events, top: float) -> list[ET.Element]:
    """A thin row per node with its states."""
    rows = []
    for at, node in enumerate(side.nodes):
        y = top + NODE_ROW * at
        spans = [span for span in side.spans if span.node == node]
        spans = [span for span in spans if events.of_time(span.end_ns) > events.of_time(span.start_ns)]
        bars = [
            element(
                "rect",
                tooltip(f"n{node}: {span.state}, epoch {'?' if span.epoch is None else span.epoch}"),
                x=events.of_time(span.start_ns),
                y=y + 3,
                width=events.of_time(span.end_ns) - events.of_time(span.start_ns),
                height=NODE_BAR,
                class_=f"state {span.state.lower()}",
            )
            for span in sorted(spans, key=lambda span: span.state not in BACKGROUND_STATES)
        ]
        rows.append(element("g", label(f"n{node}", LEFT - 12, y + 11, "tick", "end"), *bars))
    return rows


def _zone(zone: Zone, at: int, events: Events, top: float, bottom: float) -> ET.Element:
    """A value's zone as a labelled bar, with its shading over the lanes."""
    holds = zone.first_return < zone.last_call
    ends = sorted((zone.first_return, zone.last_call))
    start, end = (events.start if index < 0 else events.of_index(index) for index in ends)
    text = f"the value is {zone.value} throughout" if holds else f"the value is {zone.value} at some time here"
    width = max(end - start, 3.0)
    x = min(start + 5, WIDTH - RIGHT - text_width(text, FONT))
    return element(
        "g",
        tooltip(text),
        element("rect", x=start, y=top + 15, width=width, height=bottom - top - 15, class_=f"zone-shade zone-{at}"),
        element("rect", x=start, y=top + 15, width=width, height=5, class_=f"zone zone-{at}"),
        label(text, x, top + 12, f"zone-label zone-{at}"),
    )


def _break(skipped: Skipped, top: float, bottom: float) -> ET.Element:
    """A break, with the number of omitted operations."""
    return element(
        "g",
        tooltip(f"{skipped.operations:,} operations of this key are omitted here, {seconds_of(skipped.duration_ns)}"),
        element("path", d=f"M{skipped.x:.2f} {top:.2f}V{bottom:.2f}", class_="break"),
        label(f"+{skipped.operations:,}", skipped.x, bottom + 16, "tick", "middle"),
    )


def _lanes(lanes: Mapping[int, float], row: float) -> list[ET.Element]:
    return [
        element(
            "g",
            label(f"p{process}", LEFT - 12, top + row - 5, "tick", "end"),
            element("path", d=f"M{LEFT} {top + row:.2f}H{WIDTH - RIGHT}", class_="grid"),
        )
        for process, top in lanes.items()
    ]


def _operation(
    each: Operation, bottom: float, events: Events, shown: ShownFinding, notes: Mapping[int, str]
) -> ET.Element:
    """A bar with its label, the stripe of its zone, and its note."""
    top = bottom - BAR - 2
    start = events.xs[each.start.index]
    end = events.end if each.end is None else events.xs[each.end.index]
    ends = {each.start.index} | ({each.end.index} if each.end is not None else set())
    role = " witness" if ends & set(shown.finding.witnesses) else ""
    role += " stuck" if isinstance(shown.evidence, Order) and shown.evidence.stuck == each.start.index else ""
    parts = [
        tooltip(_description(each)),
        element("rect", x=start, y=top, width=end - start, height=BAR, rx=2, class_=f"op {each.outcome}{role}"),
    ]
    if each.outcome == "info" and each.end is not None:
        tail = f"M{end:.2f} {top:.2f}H{events.end:.2f}M{end:.2f} {top + BAR}H{events.end:.2f}"
        parts.append(element("path", d=tail, class_="op-tail"))
    parts += _zone_stripe(each, start, end, bottom, shown)
    parts.append(label(label_of(each), start + 5, top + 12.5, "op-label"))
    if each.start.index in notes:
        parts.append(label(notes[each.start.index], start + 3, top - 3, f"need{role}"))
    return element("g", *parts)


def _zone_stripe(each: Operation, start: float, end: float, bottom: float, shown: ShownFinding) -> list[ET.Element]:
    """A stripe in the colour of the zone of the operation's value."""
    zones = shown.evidence.zones if isinstance(shown.evidence, Zones) else ()
    return [
        element("rect", x=start, y=bottom - 5, width=end - start, height=3, class_=f"zone zone-{at}")
        for at, zone in enumerate(zones)
        if each.outcome != "fail" and _value(each) == zone.value
    ]


def _description(each: Operation) -> str:
    start, end = each.start, each.end
    indexes = f"index {start.index}" + ("" if end is None else f" to {end.index}")
    times = seconds_of(start.time_ns) + ("" if end is None else f" to {seconds_of(end.time_ns)}")
    error = "" if end is None or end.error is None else f" ({end.error})"
    outcome = "outcome unknown" if each.outcome == "info" else each.outcome
    return f"{label_of(each)}, process {start.process}, {indexes}, {times}: {outcome}{error}"


def _points(shown: ShownFinding, events: Events, lanes: Mapping[int, float], row: float) -> list[ET.Element]:
    """The number of each operation in the longest order, at a time at which it may have taken effect."""
    if not isinstance(shown.evidence, Order):
        return []
    by_start = {each.start.index: each for each in events.operations}
    points, x = [], events.start
    for number, index in enumerate(shown.evidence.order, shown.evidence.before + 1):
        if index not in by_start:
            continue
        each = by_start[index]
        end = events.end if each.end is None or each.outcome == "info" else events.xs[each.end.index]
        x = min(max(x + 3, events.xs[index] + 2), end - 1)
        y = lanes[each.start.process] + row
        points.append(element("path", d=f"M{x:.2f} {y - BAR - 8:.2f}v8", class_="effect"))
        points.append(label(str(number), x + 2.5, y - BAR - 5, "order-number"))
    return points


def _marks(events: Events, bottom: float, has_times: bool) -> ET.Element:
    """The axis, with the time or index of each event whose label fits."""
    marks = [element("path", d=f"M{LEFT} {bottom:.2f}H{WIDTH - RIGHT}", class_="axis")]
    free = 0.0
    breaks = [each.x for each in events.skipped]
    for (index, x), time_ns in zip(events.xs.items(), events.times_ns, strict=True):
        marks.append(element("path", d=f"M{x:.2f} {bottom:.2f}v4", class_="axis"))
        text = seconds_of(time_ns) if has_times else str(index)
        half = text_width(text, FONT) / 2
        if x - half < free or x + half > WIDTH or any(abs(x - other) < half + 22 for other in breaks):
            continue
        marks.append(label(text, x, bottom + 16, "tick", "middle"))
        free = x + half + 10
    return element("g", *marks)


def caption(shown: ShownFinding) -> str:
    """The picture's caption: why there is no order."""
    match shown.evidence:
        case Zones(zones):
            return _zones_caption(zones)
        case Order(order, before, _, _, leaves):
            if not order:
                return "✗ is the operation that fits into no order."
            state = "" if leaves is None else f", after which the state is {leaves}"
            return f"Numbers are positions in the longest order, which has {before + len(order):,} operations{state}."
        case _:
            return "The operations around the witnesses, which have a bold border."


def _zones_caption(zones: Sequence[Zone]) -> str:
    held = [zone.value for zone in zones if zone.first_return < zone.last_call]
    if len(held) > 1:
        return f"Operations on one value are adjacent in any order, but the zones of {' and '.join(held)} overlap."
    other = next(zone.value for zone in zones if zone.value not in held)
    return f"Operations on one value are adjacent in any order, but the zone of {other} is within that of {held[0]}."


def _alternative_text(shown: ShownFinding, events: Events) -> str:
    return f"{caption(shown)} {'; '.join(_description(each) for each in events.operations)}."
