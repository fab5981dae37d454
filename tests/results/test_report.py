"""The report's structure, parsed as XML and HTML, and the coordinates in its pictures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.model import Quantity
from harness.model.records.fault_intervals import FaultInterval
from results.data import LatencyQuantiles, ReportData, ShownKind, SideData, StateSpan
from results.drawing.axis import LEFT, RIGHT, WIDTH
from results.drawing.charts import latency_chart
from results.drawing.faults import LANES_MAX, PlacedFault, fault_lanes
from results.drawing.scale import Scale, round_step, ticks
from results.drawing.svg import markup, text_width
from results.drawing.timeline import timeline
from results.latencies import latency_rows
from results.report import render_report, render_timeline, write_report
from results.store import new_run

SVG = "{http://www.w3.org/2000/svg}"
SECOND = 1_000_000_000
PLOT_WIDTH = WIDTH - LEFT - RIGHT


def parsed(*sides: SideData) -> ET.Element:
    return ET.fromstring(markup(timeline(sides)))


def bars(svg: ET.Element, text: str) -> list[tuple[float, float]]:
    """Start and width of the bars whose tooltip contains this text."""
    return [
        (float(bar.attrib["x"]), float(bar.attrib["width"]))
        for bar in svg.iter(f"{SVG}rect")
        if text in bar.findtext(f"{SVG}title", "")
    ]


def test_bar_covers_its_time_span(bad_side: SideData) -> None:
    [(start, width)] = bars(parsed(bad_side), "n1: Leader in epoch 1")
    assert start == pytest.approx(LEFT + PLOT_WIDTH * 1.5 / 20, abs=0.01)
    assert width == pytest.approx(PLOT_WIDTH * (14.31 - 1.5) / 20, abs=0.01)


def test_sides_of_different_duration_share_one_time_axis(bad_side: SideData, good_side: SideData) -> None:
    svg = parsed(bad_side, replace(good_side, duration_ns=40 * SECOND))
    [(start, _)] = bars(svg, "n3: Leader in epoch 8")
    assert start == pytest.approx(LEFT + PLOT_WIDTH * 14.85 / 40, abs=0.01)


def test_state_of_a_millisecond_has_a_minimum_width(good_side: SideData) -> None:
    brief = StateSpan(1, "Candidate", 9, SECOND, SECOND + 1_000_000)
    [(_, width)] = bars(parsed(replace(good_side, spans=(brief,))), "n1: Candidate in epoch 9")
    assert width == 2.5


def test_each_epoch_has_a_label_at_its_start(bad_side: SideData) -> None:
    rows = [group for group in parsed(bad_side).iter(f"{SVG}g") if group.get("class") == "row"]
    labels = [[text.text for text in row.iter(f"{SVG}text") if text.get("class") == "epoch-number"] for row in rows]
    assert [list(reversed(row)) for row in labels] == [
        ["0", "1", "7", "8"],
        ["0", "1", "2", "3", "4", "5", "6", "7", "8"],
        ["0", "1", "7", "8"],
    ]


def test_of_overlapping_epoch_labels_the_last_is_kept(good_side: SideData) -> None:
    burst = tuple(StateSpan(1, "Candidate", epoch, SECOND + epoch, SECOND + epoch + 1) for epoch in range(50))
    row = next(
        group for group in parsed(replace(good_side, spans=burst)).iter(f"{SVG}g") if group.get("class") == "row"
    )
    assert [text.text for text in row.iter(f"{SVG}text") if text.get("class") == "epoch-number"] == ["49"]


def of_class(svg: ET.Element, class_: str) -> list[ET.Element]:
    return [each for each in svg.iter() if each.get("class") == class_]


def test_fault_interval_shades_every_row_from_start_to_end(bad_side: SideData) -> None:
    svg = parsed(bad_side)
    [shade] = [each for each in of_class(svg, "fault") if each.findtext(f"{SVG}title")]
    assert float(shade.attrib["x"]) == pytest.approx(LEFT + PLOT_WIDTH * 4 / 20, abs=0.01)
    assert float(shade.attrib["width"]) == pytest.approx(PLOT_WIDTH * 10 / 20, abs=0.01)
    lowest_bar = max(
        float(bar.attrib["y"]) + float(bar.attrib["height"])
        for bar in svg.iter(f"{SVG}rect")
        if "n3:" in bar.findtext(f"{SVG}title", "")
    )
    assert float(shade.attrib["y"]) + float(shade.attrib["height"]) > lowest_bar
    [interval] = of_class(svg, "fault-interval")
    assert interval.findtext(f"{SVG}text") == "n2 cut from all"
    [bar] = of_class(interval, "fault-bar")
    assert (bar.attrib["x"], bar.attrib["width"]) == (shade.attrib["x"], shade.attrib["width"])


SIX = tuple(
    FaultInterval(label, start * SECOND, end * SECOND)
    for label, start, end in [
        ("20 ±5 ms delay, 30% loss on n1>n2 n2>n1 n2>n3…", 2, 16),
        ("n1 cut off", 3, 15),
        ("n2's realtime clock 30 s ahead", 4, 17),
        ("n3 paused", 5, 12),
        ("n4 has a disk that is 50 ms slower", 6, 16),
        ("n5 killed", 7, 9),
    ]
)


def test_overlapping_faults_are_shaded_once(good_side: SideData) -> None:
    shades = [each for each in of_class(parsed(replace(good_side, faults=SIX)), "fault") if len(each)]
    assert [(float(each.attrib["x"]), float(each.attrib["width"])) for each in shades] == [
        pytest.approx((LEFT + PLOT_WIDTH * 2 / 20, PLOT_WIDTH * 15 / 20), abs=0.01)
    ]


def test_membership_change_is_a_mark_and_not_a_band(good_side: SideData) -> None:
    change = FaultInterval("n3 removed from the voters", 5 * SECOND, 8 * SECOND, momentary=True)
    svg = parsed(replace(good_side, faults=(change,)))
    [interval] = of_class(svg, "fault-interval")
    assert [each for each in of_class(svg, "fault") if len(each)] == []
    assert of_class(interval, "fault-bar") == []
    assert len(of_class(interval, "fault-mark")) == 1
    assert interval.findtext(f"{SVG}title") == "n3 removed from the voters: 5.000 s to 8.000 s"


CROWD = tuple(
    FaultInterval(f"n{number % 5 + 1} paused for a while", number * SECOND // 3, number * SECOND // 3 + SECOND // 2)
    for number in range(58)
)
MARKS = tuple(
    FaultInterval(f"voter n{number} removed", (19 - number) * SECOND, 19 * SECOND, momentary=True)
    for number in range(3, 0, -1)
)


@pytest.mark.parametrize("faults", [SIX, CROWD, (*SIX, *MARKS)], ids=["six", "a crowd", "six and marks"])
def test_labels_of_faults_cover_no_label_bar_or_mark(faults: tuple[FaultInterval, ...]) -> None:
    scale = Scale(0, 20 * SECOND, LEFT, WIDTH - RIGHT)
    placed = fault_lanes(faults, scale)
    for lane in {each.lane for each in placed}:
        boxes = [box for each in placed if each.lane == lane for box in boxes_of(each, scale)]
        labels = [box for box in boxes if box[2] == "label"]
        assert all(left >= LEFT and right <= WIDTH for left, right, _ in labels)
        for left, right, _ in labels:
            assert [box for box in boxes if left < box[1] and box[0] < right and box[2] != "bar"] == [
                (left, right, "label")
            ]


def boxes_of(placed: PlacedFault, scale: Scale) -> list[tuple[float, float, str]]:
    """From where to where a fault's label, bar and mark extend; a label is above the bars of its lane."""
    start, end = scale(placed.interval.start_ns), scale(placed.interval.end_ns)
    boxes = [(start - 4, start + 4, "mark") if placed.interval.momentary else (start, end, "bar")]
    if placed.label_x is not None:
        boxes.append((placed.label_x, placed.label_x + text_width(placed.interval.label, 11), "label"))
    return boxes


def test_faults_without_room_for_their_labels_have_bars_and_tooltips(good_side: SideData) -> None:
    svg = parsed(replace(good_side, faults=CROWD))
    assert len(of_class(svg, "fault-bar")) == len(CROWD) + 1  # one is in the legend
    assert len(of_class(svg, "fault-label")) < len(CROWD)
    assert {each.lane for each in fault_lanes(CROWD, Scale(0, 20 * SECOND, LEFT, WIDTH - RIGHT))} == set(
        range(LANES_MAX)
    )


def test_faults_apart_share_a_lane() -> None:
    scale = Scale(0, 20, LEFT, WIDTH - RIGHT)
    intervals = [FaultInterval("n1 cut", 1, 9), FaultInterval("n2 paused", 2, 3), FaultInterval("n3 killed", 12, 13)]
    assert [each.lane for each in fault_lanes(intervals, scale)] == [0, 1, 0]


def test_finding_of_a_node_has_a_pointer_at_its_time(bad_side: SideData) -> None:
    pointers = [path for path in parsed(bad_side).iter(f"{SVG}path") if path.get("class") == "pointer invalid"]
    x = LEFT + PLOT_WIDTH * 14.31 / 20
    assert pointers[0].attrib["d"].startswith(f"M{x:.2f} ")
    assert pointers[0].findtext(f"{SVG}title", "").startswith("leader-deposed: A healthy leader was deposed")


def test_every_picture_has_a_title_for_screen_readers(report_data: ReportData) -> None:
    svgs = re.findall(r"<svg.*?</svg>", render_report(report_data), re.DOTALL)
    assert len(svgs) == 3
    for text in svgs:
        svg = ET.fromstring(text)
        assert svg.get("role") == "img"
        assert svg.get("aria-label") == svg.findtext(f"{SVG}title")


def test_timeline_of_a_run_without_observations_is_empty() -> None:
    side = SideData("run", "reference", "unknown", "nothing was recorded", 0, ())
    assert bars(parsed(side), "n1") == []


class Collector(HTMLParser):
    """Collects the tags and text of a page; fails on tags that do not match."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def page(report_data: ReportData) -> Collector:
    collector = Collector()
    collector.feed(render_report(report_data))
    return collector


def test_page_is_well_formed(page: Collector) -> None:
    assert page.open == []


def test_page_has_no_scripts_and_no_external_resources(page: Collector) -> None:
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert not {name for name, _ in page.attributes} & {"src", "href", "onclick", "onload"}


def test_html_in_messages_is_escaped(page: Collector) -> None:
    assert "<script>alert('epoch & \"leader\"')</script>" in page.text


def test_markup_in_labels_is_escaped(bad_side: SideData) -> None:
    hostile = replace(bad_side, name="</text><script>", faults=(FaultInterval("</svg>\x00<img src=x>", 0, SECOND),))
    tags = {element.tag.removeprefix(SVG) for element in parsed(hostile).iter()}
    assert tags <= {"svg", "title", "defs", "pattern", "g", "rect", "path", "text", "tspan"}


def test_page_has_question_answer_measurements_and_command(page: Collector) -> None:
    for text in (
        "Does a voter that was partitioned",
        "Reproduced: the leader is deposed on the bad side",
        "deposed once, at 14.310 s",
        "NOT_LEADER_OR_FOLLOWER",
        "2 more findings in verdict.json.",
        "Anomaly shown, as expected",
        "2026-11-21 05:17:00 UTC",
        "bad: 20.9 s; good: 19.1 s",
        "bad: register workload on reference (pre_vote=false), 3 nodes, netns hosts",
        "register, availability judged 1,204 operations on 5 keys; divergence judged 1 record batch; etcd-terms judged",
        "partition 3, kill 2: all verified and healed",
        "1,180 ok, 20 failed, 4 with an unknown outcome",
        "splitbrain 0.1.0",
        "splitbrain reproduce PV-01 --seed 42",
        '"seed": 42',
    ):
        assert text in page.text


def headings(page: str) -> list[str]:
    return re.findall(r"<h[23]>(.*?)</h[23]>", page)


def test_findings_come_before_measurements_and_expected_quantities_first(report_data: ReportData) -> None:
    page = render_report(report_data)
    found = headings(page)
    assert found.index("Findings") < found.index("Expectations") < found.index("Measured") < found.index("Details")
    rows = re.findall(r"<tr(?: class=\"expected\")?><td>([a-z ]+)</td><td class=\"number\">(.*?)</td>", page)
    assert rows[:4] == [
        ("epochs burned", "7"),
        ("longest commit gap", "0.62 s"),
        ("lease gap", "0.54 s"),
        ("epochs burned", "21 per minute"),
    ]


def test_findings_of_a_kind_are_one_section_with_the_clearest_witness(bad_side: SideData) -> None:
    [first] = bad_side.findings
    again = replace(first, finding=replace(first.finding, message="another of them"))
    kind = ShownKind("leader-deposed", "invalid", 167, (first, again))
    side = replace(bad_side, kinds=(kind, ShownKind("lost-write", "tolerated", 1, (again,))))
    page = render_report(ReportData("t", "q", "invalid", "a", (side,), "{}", "splitbrain run"))
    sections = re.findall(r'<section class="kind">.*?</section>', page, re.DOTALL)
    assert len(sections) == 2
    assert "167 findings" in sections[0]
    before, folded = sections[0].split("<details>", 1)
    assert "A healthy leader was deposed" in before
    assert "another of them" not in before
    assert "another of them" in folded
    assert "166 more findings of this kind" in folded
    assert "165 more findings in verdict.json." in folded
    assert "<details>" not in sections[1]


def test_report_without_findings_says_so_once(good_side: SideData) -> None:
    page = render_report(ReportData("t", "q", "valid", "a", (good_side, good_side), "{}", "splitbrain run"))
    assert page.count("No check found a violation.") == 1


def test_charts_are_drawn_only_for_sides_with_load(report_data: ReportData) -> None:
    text = render_report(report_data)
    assert "Latency of client operations, bad" in text
    assert "Latency of client operations, good" not in text


def test_quantiles_are_lines_on_the_latency_chart(bad_side: SideData) -> None:
    side = replace(bad_side, quantiles=(LatencyQuantiles(0, 3, 5, 9), LatencyQuantiles(10 * SECOND, 4, 50, 90)))
    svg = ET.fromstring(markup(latency_chart(side, 20 * SECOND)))
    lines = {path.get("class"): path for path in svg.iter(f"{SVG}path") if "quantile" in path.get("class", "")}
    assert list(lines) == ["quantile p50", "quantile p95", "quantile p99"]
    assert lines["quantile p99"].findtext(f"{SVG}title") == "p99: 9.0 to 90.0 ms"
    [(_, before), (x, after)] = [pair.split() for pair in lines["quantile p99"].attrib["d"][1:].split("L")]
    assert float(x) == pytest.approx(LEFT + PLOT_WIDTH / 2, abs=0.01)
    assert float(after) < float(before)


def test_latencies_have_a_separate_table(report_data: ReportData, bad_side: SideData) -> None:
    names = ("latency_read_ms_p50", "latency_read_in_faults_ms_p99", "latency_end_txn_out_of_faults_ms_max")
    quantities = tuple(Quantity("availability", name, 7 + at, "ms") for at, name in enumerate(names))
    assert latency_rows((*quantities, *bad_side.quantities)) == [
        ("end_txn", "out of faults", {"max": 9}),
        ("read", "at all times", {"p50": 7}),
        ("read", "in faults", {"p99": 8}),
    ]
    page = render_report(replace(report_data, sides=(replace(bad_side, quantities=quantities),)))
    assert page.count("8.0 ms") == 1
    assert "latency read" not in page


def test_timeline_file_includes_its_style_sheet(report_data: ReportData) -> None:
    svg = ET.fromstring(render_timeline(report_data))
    assert "prefers-color-scheme: dark" in svg.findtext(f"{SVG}style", "")


def test_report_and_timeline_are_written_to_the_run_directory(report_data: ReportData, tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", datetime(2026, 11, 21, tzinfo=UTC), kind="reproduction")
    write_report(run, report_data)
    assert run.report.read_text().startswith("<!DOCTYPE html>")
    assert run.timeline.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("high", "count_max", "step"), [(20, 12, 2), (60, 12, 5), (7, 4, 2), (0.9, 10, 0.1), (0, 4, 1), (3600, 12, 500)]
)
def test_steps_of_axes_are_round(high: float, count_max: int, step: float) -> None:
    assert round_step(high, count_max) == pytest.approx(step)
    assert len(list(ticks(high, count_max))) <= count_max + 1
