"""What the pages show: nights by day, and cases over time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from harness.judging.index import Problem, RunRow
from harness.judging.known import Known, KnownFinding
from harness.serving.calendar import Day, Night, months, stored_nights
from harness.serving.trends import failure_points, measured, quantity_points, trends
from results.drawing.svg import markup
from results.drawing.trend import failure_chart, quantity_chart
from results.files import write_json


def night(folder: Path, began: datetime, summary: object) -> str:
    """A stored night with this summary; None for one that has none."""
    path = folder / "nights" / f"{began:%Y%m%dT%H%M%SZ}-chaos"
    path.mkdir(parents=True)
    write_json(path / "plan.json", {"plan": {}, "asked": {}, "began": began.isoformat()})
    if summary is not None:
        write_json(path / "summary.json", summary)
    return path.name


def test_night_has_the_verdict_of_its_summary_once_it_is_finished(tmp_path: Path) -> None:
    began = datetime(2026, 11, 20, 2, tzinfo=UTC)
    ended = {"verdict": "invalid", "is_finished": True, "headline": "8 jobs"}
    night(tmp_path, began, ended)
    night(tmp_path, began + timedelta(hours=1), {**ended, "is_finished": False})
    night(tmp_path, began + timedelta(hours=2), None)
    damaged = tmp_path / "nights" / "20261121T020000Z-damaged"
    damaged.mkdir()
    (damaged / "plan.json").write_text("{")
    found = stored_nights(tmp_path / "runs")
    assert [each.verdict for each in found] == ["invalid", "not finished", "not finished"]
    assert [each.tone for each in found] == ["invalid", "unknown", "unknown"]
    assert {each.day for each in found} == {date(2026, 11, 20)}


def test_summary_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    name = night(tmp_path, datetime(2026, 11, 20, 2, tzinfo=UTC), None)
    assert stored_nights(tmp_path / "runs")[0].verdict == "not finished"
    write_json(tmp_path / "nights" / name / "summary.json", {"verdict": "valid", "is_finished": True})
    assert stored_nights(tmp_path / "runs")[0].verdict == "valid"


def test_months_have_whole_weeks_and_those_without_nights_are_left_out() -> None:
    first, last = (Night(str(day), day, "valid", "") for day in (date(2026, 9, 1), date(2026, 11, 30)))
    newest, oldest = months([first, last])
    assert (newest.title, oldest.title) == ("November 2026", "September 2026")
    assert [day and day.number for day in newest.weeks[0]] == [None] * 6 + [1]
    assert newest.weeks[-1][0] == Day(30, (last,))
    assert oldest.weeks[0][1] == Day(1, (first,))
    assert all(len(week) == 7 for month in (newest, oldest) for week in month.weeks)


def row(number: int, night: str | None, outcome: str | None, gap_ms: float, day: int = 1) -> RunRow:
    """A run of a case; a failed one has lost a write."""
    problems = (Problem("lost-write", "invalid", 1, "lost"),) if outcome == "failed" else ()
    return RunRow(
        f"run-{number}",
        "run",
        night=night,
        case="PV-01 good",
        system="reference",
        created=f"2026-11-{day:02}T02:00:00+00:00",
        outcome=outcome,
        problems=problems,
        quantities={"commit_gap_ms": gap_ms},
    )


NIGHTS = ("20261101T020000Z-chaos", "20261103T020000Z-chaos")
ROWS = (
    row(1, NIGHTS[0], "passed", 100),
    row(2, NIGHTS[0], "passed", 300),
    row(3, None, "unknown", 200, day=2),
    row(4, NIGHTS[1], "failed", 900, day=3),
    row(5, NIGHTS[1], "passed", 500, day=3),
    row(6, NIGHTS[1], None, 0, day=3),
)


def test_trend_has_a_column_for_each_night_and_day_in_order_of_time() -> None:
    (trend,) = trends(reversed(ROWS), Known())
    assert [column.label for column in trend.columns] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert [column.night for column in trend.columns] == [NIGHTS[0], None, NIGHTS[1]]
    assert [column.tone for column in trend.columns] == ["passed", "unknown", "failed"]
    assert (trend.failed, trend.decided) == (1, 4)


def test_points_have_the_share_and_its_interval_the_median_and_its_range() -> None:
    (trend,) = trends(ROWS, Known())
    passed, undecided, failed = failure_points(trend, lambda column: column.night)
    assert passed
    assert (passed.value, passed.low, passed.tone, passed.url) == (0, 0, "passed", NIGHTS[0])
    assert passed.high > 0.5
    assert undecided is None
    assert failed
    assert (failed.value, failed.text, failed.tone) == (0.5, "1 of 2 failed", "failed")
    assert measured(trend) == ["commit_gap_ms"]
    gaps = quantity_points(trend, "commit_gap_ms", lambda _column: None)
    assert [(each.value, each.low, each.high) for each in gaps if each] == [
        (200, 100, 300),
        (200, 200, 200),
        (700, 500, 900),
    ]


def test_known_failures_do_not_count_and_cases_that_failed_last_come_first() -> None:
    known = Known((KnownFinding(finding="lost-*", issue="KAFKA-1", expires=date(2099, 1, 1)),))
    assert trends(ROWS, known)[0].failed == 0
    other = RunRow("run-9", "run", case="A", system="reference", created="2026-11-09", outcome="passed")
    assert [trend.case for trend in trends((*ROWS, other), Known())] == ["PV-01 good", "A"]


def test_charts_draw_what_there_is_and_link_to_it() -> None:
    (trend,) = trends(ROWS, Known())
    failures = markup(failure_chart("failures", failure_points(trend, lambda column: column.night)))
    assert failures.count("<circle") == 2
    assert f'href="{NIGHTS[1]}"' in failures
    assert "1 of 2 failed" in failures
    gaps = markup(quantity_chart("gap", "commit_gap_ms", quantity_points(trend, "commit_gap_ms", lambda _column: None)))
    assert gaps.count("<circle") == 3
    assert "<a" not in gaps
    assert "<circle" not in markup(failure_chart("nothing", [None]))
