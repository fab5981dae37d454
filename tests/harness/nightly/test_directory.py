"""A night on disk: its ledger survives a crash at any byte, and the night is found again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.model import BadInput
from harness.nightly.directory import JobState, NightDirectory, locked, new_night, nights, unfinished_night
from harness.nightly.plan import Entry, NightPlan

PLAN = NightPlan(seed=3, entries=[Entry(explore=True)])
BEGIN = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
ASKED = {"name": "nightly"}


def night(tmp_path: Path, minutes: int = 0) -> NightDirectory:
    return new_night(tmp_path / "runs", PLAN, ASKED, BEGIN + timedelta(minutes=minutes))


def test_night_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = night(tmp_path)
    assert made.path == tmp_path / "nights" / "20261120T020000Z-nightly"
    assert (made.plan(), made.asked(), made.began()) == (PLAN, ASKED, BEGIN)
    assert night(tmp_path).name == "20261120T020000Z-nightly-2"
    assert [each.name for each in nights(tmp_path / "runs")] == [made.name, f"{made.name}-2"]


def test_ledger_says_how_far_each_job_has_come(tmp_path: Path) -> None:
    made = night(tmp_path)
    made.record("started", jobs=3)
    made.record("began", job="first", run="run-1")
    made.record("began", job="second", run="run-2")
    made.record("ended", job="first", run="run-1", outcome="failed", error="a lost write")
    made.record("began", job="second", run="run-3")
    assert made.jobs() == {
        "first": JobState(["run-1"], "failed", "a lost write"),
        "second": JobState(["run-2", "run-3"]),
    }
    assert not made.is_finished
    made.record("finished", stopped_by="")
    assert made.is_finished


def test_line_that_a_crash_cut_off_at_any_byte_costs_that_line_only(tmp_path: Path) -> None:
    made = night(tmp_path)
    made.record("began", job="first", run="run-1")
    whole = made.ledger.read_bytes()
    made.record("ended", job="first", run="run-1", outcome="passed")
    longer = made.ledger.read_bytes()
    for length in range(len(whole), len(longer)):
        made.ledger.write_bytes(longer[:length])
        made.record("began", job="second", run="run-2")
        jobs = made.jobs()
        assert jobs["second"].runs == ["run-2"]
        is_whole = length == len(longer) - 1  # only the line's end is missing
        assert jobs["first"].outcome == ("passed" if is_whole else None)


def test_only_an_interrupted_night_of_the_same_plan_resumes(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    assert unfinished_night(store, ASKED) is None
    first = night(tmp_path)
    assert unfinished_night(store, ASKED) == first
    assert unfinished_night(store, {"name": "other"}) is None
    first.record("finished", stopped_by="")
    assert unfinished_night(store, ASKED) is None
    second = night(tmp_path, minutes=5)
    assert unfinished_night(store, ASKED) == second


def test_damaged_night_does_not_hide_the_others(tmp_path: Path) -> None:
    first = night(tmp_path)
    damaged = night(tmp_path, minutes=5)
    (damaged.path / "plan.json").write_text("{")
    assert unfinished_night(tmp_path / "runs", ASKED) == first


def test_night_has_one_process_at_a_time(tmp_path: Path) -> None:
    made = night(tmp_path)
    with locked(made), pytest.raises(BadInput, match="expected a night that is not running"), locked(made):
        pass
    with locked(made):
        assert made.path.is_dir()


def test_place_without_nights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nights").write_text("")
    with pytest.raises(BadInput, match="expected a folder in which nights can be created"):
        night(tmp_path)
