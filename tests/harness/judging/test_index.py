"""The table of a store has a row for each run, and is read again only where a run's files have changed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from harness.judging import index as index_module
from harness.judging.index import INDEX_FILE, RunRow, index
from harness.judging.listing import RunFilter, listed
from harness.model import Verdict
from harness.model.records.tables import RUNS
from results.files import write_json
from results.headline import NOT_SHOWN, SHOWN
from results.run_verdict import RunVerdict, write_verdict
from results.store import RunDirectory, new_run
from tests.support.stored_runs import BEGIN, failed_verdict, judged_run, register_plan, reproduction


def only(rows: list[RunRow]) -> RunRow:
    (row,) = rows
    return row


def test_row_of_a_failed_run(tmp_path: Path) -> None:
    run = judged_run(tmp_path, "run", register_plan(), failed_verdict())
    row = only(index(tmp_path))
    assert (row.run, row.case, row.system, row.seed, row.seconds) == (
        run.name,
        "register with kill",
        "reference",
        7,
        20,
    )
    assert (row.verdict, row.outcome, row.night, row.part_of) == ("invalid", "failed", None, None)
    assert [(each.name, each.severity, each.count) for each in row.problems] == [("lost-write", "invalid", 3)]
    assert row.quantities == {"commit_gap_ms": 620.0}


def test_rows_of_a_reproduction_say_which_side_did_not_go_as_documented(tmp_path: Path) -> None:
    whole = reproduction(tmp_path, {"bad": NOT_SHOWN, "good": "valid"})
    rows = {row.run: row for row in index(tmp_path)}
    bad, good = rows[f"{whole.name}/bad-1"], rows[f"{whole.name}/good-1"]
    assert (bad.case, bad.outcome, bad.part_of) == ("PV-01 bad", "failed", whole.name)
    assert [each.name for each in bad.problems] == ["expected: the leader is deposed"]
    assert (good.case, good.outcome, good.problems) == ("PV-01 good", "passed", ())
    assert (rows[whole.name].kind, rows[whole.name].outcome) == ("reproduction", "failed")
    assert [row.run for row in listed(tmp_path, RunFilter(workload="PV-01"))] == [whole.name]


def test_damaged_reproduction_keeps_its_sides_and_a_new_one_is_found(tmp_path: Path) -> None:
    whole = reproduction(tmp_path, {"bad": NOT_SHOWN})
    index(tmp_path)
    whole.new_side("good", BEGIN)
    sides = [f"{whole.name}/bad-1", f"{whole.name}/good-1"]
    assert [row.run for row in index(tmp_path)] == [whole.name, *sides]
    whole.status_file.write_text("{}")
    for _ in range(2):  # read, and then kept
        rows = index(tmp_path)
        assert ([row.run for row in rows], rows[0].status) == ([whole.name, *sides], "damaged")


def test_anomaly_that_was_expected_is_no_problem(tmp_path: Path) -> None:
    whole = reproduction(tmp_path, {"bad": SHOWN})
    bad = next(row for row in index(tmp_path) if row.run == f"{whole.name}/bad-1")
    assert (bad.outcome, bad.problems) == ("passed", ())


def test_runs_of_a_night_have_its_name_and_variant(tmp_path: Path) -> None:
    run = judged_run(tmp_path, "run", register_plan(), failed_verdict())
    write_json(run.origin, {"night": "20261120T020000Z-chaos", "variant": "reference.pre_vote=false"})
    row = only(listed(tmp_path, RunFilter(night="20261120T020000Z-chaos")))
    assert (row.night, row.variant) == ("20261120T020000Z-chaos", "reference.pre_vote=false")


def test_only_changed_runs_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = judged_run(tmp_path, "first", register_plan(), failed_verdict())
    second = judged_run(tmp_path, "second", register_plan(), failed_verdict())
    before = index(tmp_path)
    read: list[str] = []
    row_of = index_module.row_of

    def counted(run: RunDirectory, part_of: RunDirectory | None = None) -> RunRow:
        read.append(run.name)
        return row_of(run, part_of)

    monkeypatch.setattr(index_module, "row_of", counted)
    assert index(tmp_path) == before
    assert read == []
    write_verdict(second, RunVerdict("run", Verdict.VALID, "No broken guarantee."))
    second.enter("judged", BEGIN + timedelta(seconds=90))
    rows = {row.run: row.outcome for row in index(tmp_path)}
    assert (read, rows) == ([second.name], {first.name: "failed", second.name: "passed"})


def test_only_wanted_columns_are_read(tmp_path: Path) -> None:
    run = judged_run(tmp_path, "run", register_plan(), failed_verdict())
    index(tmp_path)
    row = only(index(tmp_path, columns=("run", "kind", "outcome")))
    assert (row.run, row.outcome, row.problems, row.workload) == (run.name, "failed", (), "-")


@pytest.mark.parametrize("content", [b"", b"PAR1", None], ids=["empty", "damaged", "other columns"])
def test_unusable_cache_is_written_again(tmp_path: Path, content: bytes | None) -> None:
    judged_run(tmp_path, "run", register_plan(), failed_verdict())
    rows = index(tmp_path)
    file = tmp_path / INDEX_FILE
    if content is None:
        parquet.write_table(parquet.read_table(file).drop_columns("case"), file)
    else:
        file.write_bytes(content)
    assert index(tmp_path) == rows
    assert parquet.read_schema(file).equals(RUNS)


def test_removed_run_is_no_longer_a_row(tmp_path: Path) -> None:
    judged_run(tmp_path, "run", register_plan(), failed_verdict())
    gone = new_run(tmp_path, "gone", BEGIN)
    assert len(index(tmp_path)) == 2
    gone.status_file.unlink()
    gone.path.rmdir()
    assert len(index(tmp_path)) == 1


def test_damaged_origin_makes_the_run_damaged(tmp_path: Path) -> None:
    run = judged_run(tmp_path, "run", register_plan(), failed_verdict())
    write_json(run.origin, {"weather": "rain"})
    row = only(index(tmp_path))
    assert row.status == "damaged"
    assert "origin.json: expected the night and the variant of a run" in row.damage


def test_store_that_cannot_be_written_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged_run(tmp_path, "run", register_plan(), failed_verdict())

    def refuse(path: Path, _content: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(index_module, "write_bytes", refuse)
    assert only(index(tmp_path)).outcome == "failed"
    assert not (tmp_path / INDEX_FILE).exists()
