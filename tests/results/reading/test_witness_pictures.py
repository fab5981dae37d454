"""Pictures of findings on literal histories: their contents, coordinates and omissions."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import chain, pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from harness import plugins
from harness.engine import Recorder, VirtualClock
from harness.model import BadInput, Finding, Op, Verdict
from harness.model.records.evidence import Cycle, CycleStep, Evidence, Need, Order, Zone, Zones, encoded
from harness.model.records.fault_intervals import FaultInterval
from harness.model.records.tables import HISTORY
from results.data import Operation, ReportData, ShownFinding, SideData, StateSpan
from results.drawing.axis import LEFT, RIGHT, WIDTH
from results.drawing.cycle import cycle
from results.drawing.events import events_of
from results.drawing.intervals import caption, intervals, label_of
from results.drawing.svg import markup
from results.reading.sides import read_side
from results.reading.witnesses import OPERATIONS_MAX, operations_shown
from results.report import render_report
from results.run_verdict import RunVerdict, read_verdict, write_verdict
from results.store import RunDirectory
from tests.support.checks.small_histories import MS, history, row
from tests.support.descriptions import DESCRIPTION

SVG = "{http://www.w3.org/2000/svg}"


def read(process: int, value: object, key: str = "x") -> tuple[Op, Op]:
    start = Op("invoke", "read", process, key, node=process + 1)
    return start, start.ok(value)


def write(process: int, value: object, key: str = "x") -> tuple[Op, Op]:
    start = Op("invoke", "write", process, key, value)
    return start, start.ok()


def table(ops: Sequence[Op]) -> pa.Table:
    return pa.Table.from_pylist([row(op) for op in ops], HISTORY)


def shown(ops: Sequence[Op], witnesses: tuple[int, ...], evidence: Evidence | None = None) -> ShownFinding:
    finding = Finding("register", "non-linearizable", "invalid", "reads see the latest write", "x", witnesses=witnesses)
    return ShownFinding(finding, (), operations_shown(finding, evidence, table(ops)), evidence)


SIDE = SideData(
    "bad",
    "reference",
    "invalid",
    "broken",
    20 * MS,
    (1, 2),
    spans=(StateSpan(1, "Leader", 4, 0, 20 * MS), StateSpan(2, "Follower", 4, 0, 20 * MS)),
    faults=(FaultInterval("n1 cut off", 2 * MS, 3 * MS), FaultInterval("long ago", -9, -5)),
)

STALE = history(*write(0, 1), *write(0, 2), *read(1, 2), *read(1, 1))
ZONES = Zones((Zone("1", 1, 6), Zone("2", 3, 4)))


def draw(found: ShownFinding, side: SideData = SIDE) -> ET.Element:
    return ET.fromstring(markup(intervals(found, side)))


def of_class(svg: ET.Element, tag: str, name: str) -> list[ET.Element]:
    return [each for each in svg.iter(f"{SVG}{tag}") if name in each.get("class", "").split()]


def texts(svg: ET.Element, name: str) -> list[str | None]:
    return [each.text for each in of_class(svg, "text", name)]


def test_operation_is_a_labelled_bar_from_its_call_to_its_return() -> None:
    svg = draw(shown(STALE, (1, 3, 4, 6), ZONES))
    assert texts(svg, "op-label") == ["write 1", "write 2", "read 2 n2", "read 1 n2"]
    bars = [(float(bar.attrib["x"]), float(bar.attrib["width"])) for bar in of_class(svg, "rect", "op")]
    assert [start for start, _ in bars] == sorted(start for start, _ in bars)
    assert all(start + width < following for (start, width), (following, _) in pairwise(bars))
    assert bars[0][0] >= LEFT
    assert right_of(of_class(svg, "rect", "op")[-1]) <= WIDTH - RIGHT


def test_each_process_has_a_lane_and_each_node_its_states() -> None:
    svg = draw(shown(STALE, (1, 3, 4, 6), ZONES))
    assert [text for text in texts(svg, "tick") if text and text[0] in "pn"] == ["n1", "n2", "p0", "p1"]
    assert len(of_class(svg, "rect", "leader")) == 1


def test_only_faults_during_the_operations_are_drawn() -> None:
    assert texts(draw(shown(STALE, (1, 3, 4, 6), ZONES)), "fault-label") == ["n1 cut off"]


def test_zones_reach_from_first_return_to_last_call() -> None:
    svg = draw(shown(STALE, (1, 3, 4, 6), ZONES))
    bars = dict(zip("abcd", of_class(svg, "rect", "op"), strict=True))
    first, second = (of_class(svg, "rect", f"zone-{at}")[0] for at in (0, 1))
    assert texts(svg, "zone-label") == ["the value is 1 throughout", "the value is 2 throughout"]
    assert float(first.attrib["x"]) == pytest.approx(right_of(bars["a"]), abs=0.02)
    assert right_of(first) == pytest.approx(float(bars["d"].attrib["x"]), abs=0.02)
    assert float(second.attrib["x"]) == pytest.approx(right_of(bars["b"]), abs=0.02)


def right_of(bar: ET.Element) -> float:
    return float(bar.attrib["x"]) + float(bar.attrib["width"])


@pytest.mark.parametrize(
    ("zones", "text"),
    [
        (ZONES, "the zones of 1 and 2 overlap"),
        (Zones((Zone("1", 1, 8), Zone("2", 4, 3))), "the zone of 2 is within that of 1"),
    ],
    ids=["zones overlap", "one inside the other"],
)
def test_caption_names_the_conflicting_zones(zones: Zones, text: str) -> None:
    assert text in caption(shown(STALE, (1, 3), zones))


CRASHED = Op("invoke", "write", 3, "x", 4)
STUCK = history(*write(0, 1), CRASHED, *write(0, 2), CRASHED.info("timeout"), *read(1, 3))
ORDER = Order((0, 3), 5, 6, (Need(6, "needs 3"), Need(2, "leaves 4")), "2")


def test_longest_order_is_numbered_and_the_needs_of_the_next_operations_are_noted() -> None:
    found = shown(STUCK, (6, 7), ORDER)
    svg = draw(found)
    assert texts(svg, "order-number") == ["6", "7"]
    assert sorted(filter(None, texts(svg, "need"))) == ["leaves 4", "✗ needs 3"]
    assert [bar.findtext(f"{SVG}title") for bar in svg.iter(f"{SVG}g") if of_class(bar, "rect", "stuck")][-1:] == [
        "read 3 n2, process 1, index 6 to 7, 0.006 s to 0.007 s: ok"
    ]
    expected = "Numbers are positions in the longest order, which has 7 operations, after which the state is 2."
    assert caption(found) == expected


def test_unknown_order_is_not_drawn() -> None:
    found = shown(STUCK, (6, 7), replace(ORDER, order=(), before=0))
    assert texts(draw(found), "order-number") == []
    assert caption(found) == "✗ is the operation that fits into no order."


def test_operation_with_unknown_outcome_has_an_open_end() -> None:
    svg = draw(shown(STUCK, (6, 7), ORDER))
    [tail] = of_class(svg, "path", "op-tail")
    assert f"H{WIDTH - RIGHT}" in tail.attrib["d"]


LONG = history(*chain.from_iterable(write(number % 3, number) for number in range(500)), *read(0, 1))


def test_picture_of_a_long_history_has_the_witnesses_and_counts_omitted_operations() -> None:
    found = shown(LONG, (3, 1000))
    svg = draw(found)
    labels = texts(svg, "op-label")
    assert len(labels) <= OPERATIONS_MAX
    assert {"write 1", "read 1 n1"} <= set(labels)
    omitted = [int(text[1:].replace(",", "")) for text in texts(svg, "tick") if text and text.startswith("+")]
    first = label_of(min(found.operations, key=lambda each: each.start.index))
    assert (first, len(labels) + sum(omitted)) == ("write 0", 501)


def test_layout_has_the_most_important_operations_that_fit() -> None:
    operations = [Operation(start, end, at) for at, (start, end) in enumerate(zip(LONG[::2], LONG[1::2], strict=True))]
    events = events_of(operations[::-1], lambda _: 100.0, 0, 1000)
    assert [each.position for each in events.operations] == list(range(492, 501))
    assert events.of_time(events.times_ns[0]) == events.xs[984]
    assert events.of_time(-1) == 0
    assert events.of_time(10**18) == 1000


def test_operations_on_other_keys_and_findings_without_a_key_are_not_drawn() -> None:
    ops = history(*write(0, 1), *write(1, 9, "y"), *read(1, 2))
    assert [each.start.value for each in shown(ops, (4,)).operations] == [None, 1]
    deposed = Finding("quorum", "leader-deposed", "invalid", "deposed", witnesses=(4,))
    assert operations_shown(deposed, None, table(ops)) == ()


def txn(process: int, *micro_ops: list) -> tuple[Op, Op]:
    start = Op("invoke", "txn", process, value=list(micro_ops))
    return start, start.ok()


TORN = history(
    *txn(0, ["append", "x", 1], ["append", "y", 1]), *txn(1, ["r", "x", [1]], ["r", "y", []], ["r", "z", []])
)
TORN_STEPS = (CycleStep(0, 2, "wr", "x", "1"), CycleStep(2, 0, "rw", "y", None, "1"))


def shown_cycle(ops: Sequence[Op], steps: tuple[CycleStep, ...]) -> ET.Element:
    finding = Finding("transactions", "G-single", "invalid", "transactions have an order", witnesses=(0, 1, 2, 3))
    found = ShownFinding(finding, (), operations_shown(finding, Cycle(steps), table(ops)), Cycle(steps))
    return ET.fromstring(markup(cycle(found, SIDE)))


def test_cycle_has_cards_with_micro_ops_and_arrows_with_keys() -> None:
    svg = shown_cycle(TORN, TORN_STEPS)
    assert texts(svg, "card-name") == ["T0", "T2"]
    assert [each.text for each in of_class(svg, "text", "edge-label")] == ["wr x: 1", "rw y: nothing, then 1"]
    assert texts(svg, "on-cycle") == ["append x 1", "append y 1", "r x → [1]", "r y → []"]
    assert texts(svg, "micro-op")[-1] == "r z → []"


def test_all_text_classes_of_a_cycle_are_in_the_style_sheet() -> None:
    style = (files("results") / "templates" / "drawing.css").read_text()
    texts_of_cards = shown_cycle(TORN, TORN_STEPS).iter(f"{SVG}text")
    unstyled = {name for text in texts_of_cards for name in text.get("class", "").split() if f".{name}" not in style}
    assert unstyled == set()


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_cards_of_a_cycle_do_not_overlap_and_are_inside_the_picture(count: int) -> None:
    ops = history(*chain.from_iterable(txn(each, ["append", "x", each]) for each in range(count)))
    steps = tuple(CycleStep(2 * each, 2 * ((each + 1) % count), "ww", "x", "1", "2") for each in range(count))
    svg = shown_cycle(ops, steps)
    height = float(svg.attrib["viewBox"].split()[3])
    cards = [
        [float(card.attrib[name]) for name in ("x", "y", "width", "height")] for card in of_class(svg, "rect", "card")
    ]
    assert len(cards) == count
    assert all(x >= 0 and y >= 0 and x + w <= WIDTH and y + h <= height for x, y, w, h in cards)
    for at, (x, y, w, h) in enumerate(cards):
        assert all(x + w < a or a + c < x or y + h < b or b + d < y for a, b, c, d in cards[at + 1 :])


def test_picture_has_a_title_and_a_description_and_escapes_values() -> None:
    hostile = history(*write(0, "</text><script>"), *read(1, '"<img src=x>'))
    finding = Finding("register", "non-linearizable", "invalid", "broken", "x", witnesses=(2, 3))
    operations = operations_shown(finding, None, table(STALE))
    operations += (Operation(hostile[0], hostile[1]), Operation(hostile[2], hostile[3]))
    svg = draw(ShownFinding(finding, (), operations))
    assert {each.tag.removeprefix(SVG) for each in svg.iter()} <= {"svg", "title", "desc", "g", "rect", "path", "text"}
    assert svg.get("aria-label") == "Operations of x around non-linearizable, bad"
    assert svg.findtext(f"{SVG}desc", "").startswith(
        "The operations around the witnesses, which have a bold border. write"
    )


def recorded(tmp_path: Path, evidence: str | None) -> RunDirectory:
    """A run with a stale read, and a verdict with its finding."""
    run = RunDirectory(tmp_path)
    clock = VirtualClock()
    with Recorder(run.path, clock) as recorder:
        for op in (*write(0, 1), *write(0, 2), *read(1, 2), *read(1, 1)):
            clock.time_ns += MS
            recorder.record(op)
    found = Finding("register", "non-linearizable", "invalid", "broken", "x", witnesses=(1, 3, 4, 6), evidence=evidence)
    write_verdict(run, RunVerdict("register", Verdict.INVALID, "broken", findings=(found,) * 9))
    return run


def test_report_has_the_pictures_of_the_first_findings(tmp_path: Path) -> None:
    run = recorded(tmp_path, encoded(ZONES))
    side = read_side(run, "bad", DESCRIPTION, plugins.ops(), read_verdict(run.verdict))
    assert [len(each.operations) for each in side.findings] == [4] * 3 + [0] * 6
    page = render_report(report_of(side))
    assert len(re.findall("Operations of x around non-linearizable", page)) == 2 * 3
    assert page.count("the zones of 1 and 2 overlap") == 2 * 3


def report_of(side: SideData) -> ReportData:
    return ReportData("t", "q", "invalid", "a", (side,), "{}", "splitbrain run")


@pytest.mark.parametrize("evidence", ["nonsense", "{}", '{"kind": "song"}', '{"kind": "zones"}', "[]"])
def test_invalid_evidence_is_bad_input_with_the_file(tmp_path: Path, evidence: str) -> None:
    with pytest.raises(BadInput, match=r"verdict\.json: invalid evidence for non-linearizable"):
        read_side(run := recorded(tmp_path, evidence), "bad", DESCRIPTION, plugins.ops(), read_verdict(run.verdict))
