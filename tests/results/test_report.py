"""The report's structure, parsed as XML and HTML, and the coordinates in its pictures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.model import Quantity, Verdict
from harness.model.records.fault_intervals import FaultInterval
from results.data import LatencyQuantiles, ReportData, SideData, StateSpan
from results.drawing.axis import LEFT, RIGHT, WIDTH
from results.drawing.charts import latency_chart
from results.drawing.scale import Scale, round_step, ticks
from results.drawing.svg import markup
from results.drawing.timeline import fault_lanes, timeline
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


def test_fault_interval_shades_every_row_from_start_to_end(bad_side: SideData) -> None:
    svg = parsed(bad_side)
    interval = next(group for group in svg.iter(f"{SVG}g") if group.get("class") == "fault-interval")
    shade = interval.find(f"{SVG}rect")
    assert shade is not None
    assert float(shade.attrib["x"]) == pytest.approx(LEFT + PLOT_WIDTH * 4 / 20, abs=0.01)
    assert float(shade.attrib["width"]) == pytest.approx(PLOT_WIDTH * 10 / 20, abs=0.01)
    lowest_bar = max(
        float(bar.attrib["y"]) + float(bar.attrib["height"])
        for bar in svg.iter(f"{SVG}rect")
        if "n3:" in bar.findtext(f"{SVG}title", "")
    )
    assert float(shade.attrib["y"]) + float(shade.attrib["height"]) > lowest_bar
    assert interval.findtext(f"{SVG}text") == "n2 cut from all"


def test_overlapping_faults_have_separate_lanes() -> None:
    scale = Scale(0, 20, LEFT, WIDTH - RIGHT)
    intervals = [FaultInterval("n1 cut", 1, 9), FaultInterval("n2 paused", 2, 3), FaultInterval("n3 killed", 12, 13)]
    assert fault_lanes(intervals, scale) == [0, 1, 0]


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
    side = SideData("run", "reference", Verdict.UNKNOWN, "nothing was recorded", 0, ())
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
        "2 more findings are in verdict.json.",
        "splitbrain reproduce PV-01 --seed 42",
        '"seed": 42',
    ):
        assert text in page.text


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
