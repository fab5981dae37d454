"""What a store keeps: the newest runs within every limit, and always the failed ones that nobody has reviewed."""

from __future__ import annotations

import errno
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judging import index as index_module
from harness.judging.baselines import remove_baseline, write_baseline
from harness.judging.index import PRUNED_FILE, RunRow, index
from harness.model import BadInput
from harness.model.errors import EXIT_USAGE
from harness.model.records.tables import COMPARED, RUNS
from harness.nightly.plan import Keep
from harness.nightly.retention import REMOVED, REVIEWED_FILE, is_reviewed, keep_store, prunable, review
from tests.support.command import json_lines, splitbrain
from tests.support.stored_runs import BEGIN, failed_verdict, judged_run, passed_verdict, register_plan

NOW = datetime(2026, 11, 22, tzinfo=UTC)
OUTCOMES = ("passed", "failed", "unknown", None)


def row(name: str, outcome: str | None = "passed", days: float = 0, status: str = "judged") -> RunRow:
    return RunRow(name, "run", outcome=outcome, status=status, created=(NOW - timedelta(days=days)).isoformat())


@pytest.mark.parametrize(
    ("keep", "removed"),
    [
        (Keep(), []),
        (Keep(runs=2), ["a", "b"]),
        (Keep(days=2.5), ["a"]),
        (Keep(gib=2), ["a", "b"]),
        (Keep(runs=3, days=1.5), ["a", "b"]),
        (Keep(runs=0), ["a", "b", "c", "d"]),
    ],
)
def test_runs_beyond_any_limit_are_removed_oldest_first(keep: Keep, removed: list[str]) -> None:
    rows = [row(name, days=3 - age) for age, name in enumerate("abcd")]
    sizes = dict.fromkeys("abcd", 2**30)
    assert [each.run for each in prunable(rows, keep, NOW, sizes, ())] == removed


@given(
    outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=12),
    limit=st.integers(0, 5),
    reviewed=st.sets(st.integers(0, 11)),
    protected=st.sets(st.integers(0, 11)),
)
def test_unreviewed_failed_and_protected_runs_are_never_removed(
    outcomes: list[str | None], limit: int, reviewed: set[int], protected: set[int]
) -> None:
    rows = [row(str(number), outcome) for number, outcome in enumerate(outcomes)]
    names = [set(map(str, numbers)) for numbers in (reviewed, protected)]
    removed = {int(each.run) for each in prunable(rows, Keep(runs=limit), NOW, {}, *names)}
    assert not removed & protected
    assert all(outcomes[number] == "passed" or number in reviewed for number in removed)
    newest = set(range(len(rows))[max(0, len(rows) - limit) :])
    assert removed == {
        number
        for number, outcome in enumerate(outcomes)
        if number not in newest | protected and (outcome == "passed" or number in reviewed)
    }


@pytest.mark.parametrize("status", ["created", "running", "damaged"])
def test_runs_that_have_not_ended_are_not_removed(status: str) -> None:
    assert prunable([row("a", status=status)], Keep(runs=0), NOW, {}, ()) == []


def test_rows_of_removed_runs_stay_for_comparisons(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    passed = [judged_run(store, "passed", register_plan(), passed_verdict()) for _ in range(2)]
    failed = judged_run(store, "failed", register_plan(), failed_verdict())
    removed = keep_store(store, Keep(runs=0), NOW)
    assert {each.run for each in removed} == {run.name for run in passed}
    assert [each.run for each in index(store)] == [failed.name]
    assert (store / PRUNED_FILE).exists()
    review(failed, BEGIN)
    assert [each.run for each in keep_store(store, Keep(runs=0), NOW)] == [failed.name]
    assert {each.run for each in index(store, with_pruned=True)} == {failed.name, *(run.name for run in passed)}


def test_rows_that_an_earlier_release_kept_get_the_columns_of_this_one(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    run = judged_run(store, "failed", register_plan(), failed_verdict())
    review(run, BEGIN)
    keep_store(store, Keep(runs=0), NOW)
    file = store / PRUNED_FILE
    pq.write_table(pq.read_table(file).drop_columns(list(COMPARED)), file)
    (row,) = index(store, with_pruned=True)
    assert (row.run, row.quantities) == (run.name, {"commit_gap_ms": 620.0})
    assert pq.read_table(file).schema.equals(RUNS)
    (row,) = index(store, with_pruned=True, columns=("run", "kind", *COMPARED))
    assert row.quantities == {"commit_gap_ms": 620.0}


def test_rows_of_an_earlier_release_are_read_from_a_store_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    store = tmp_path / "runs"
    judged_run(store, "passed", register_plan(), passed_verdict())
    keep_store(store, Keep(runs=0), NOW)
    file = store / PRUNED_FILE
    pq.write_table(pq.read_table(file).drop_columns(list(COMPARED)), file)
    before = file.read_bytes()
    monkeypatch.setattr(index_module, "_keep", refuse)
    assert len(index(store, with_pruned=True)) == 1
    assert file.read_bytes() == before


def test_nothing_is_removed_while_the_rows_of_removed_runs_cannot_be_read(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    run = judged_run(store, "run", register_plan(), passed_verdict())
    (store / PRUNED_FILE).write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"pruned\.parquet: expected a Parquet file with the rows of removed runs: "):
        keep_store(store, Keep(runs=0), NOW)
    assert run.path.is_dir()
    assert (store / PRUNED_FILE).read_bytes() == b"damaged"


def test_runs_of_a_baseline_are_kept(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    of_baseline, other = (judged_run(store, "run", register_plan(), passed_verdict()) for _ in range(2))
    write_baseline("good", [f"{of_baseline.name}/bad-1"], store)
    assert [each.run for each in keep_store(store, Keep(runs=0), NOW)] == [other.name]
    remove_baseline("good", store)
    assert [each.run for each in keep_store(store, Keep(runs=0), NOW)] == [of_baseline.name]


def test_nothing_is_removed_while_a_baseline_cannot_be_read(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    run = judged_run(store, "run", register_plan(), passed_verdict())
    write_baseline("good", [run.name], store)
    (tmp_path / "baselines" / "good.json").write_text("{")
    with pytest.raises(BadInput, match=r"good\.json: line 1, column 2: expected a JSON file"):
        keep_store(store, Keep(runs=0), NOW)
    assert run.path.is_dir()


def test_removal_that_was_cut_off_is_finished_by_the_next_and_lists_nothing(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    run = judged_run(store, "run", register_plan(), passed_verdict())
    left = run.path.rename(store / f"{REMOVED}{run.name}")
    assert index(store) == []
    keep_store(store, Keep(runs=9), NOW)
    assert not left.exists()


def test_store_is_pruned_by_hand(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    passed = judged_run(store, "passed", register_plan(), passed_verdict())
    failed = judged_run(store, "failed", register_plan(), failed_verdict())
    prune = ("runs", "--store", store, "--prune", "--keep-runs", "0")
    assert splitbrain(*prune).out == f"removed: {passed.name}\n"
    assert splitbrain(*prune).out == "nothing to remove\n"
    assert splitbrain("runs", "--store", store, "--reviewed", failed.name).out == f"reviewed: {failed.name}\n"
    assert json_lines(splitbrain(*prune, "--json")) == [{"removed": failed.name}]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--prune"], "--prune: expected it together with --keep-days, --keep-runs or --keep-gib"),
        (["--keep-runs", "3"], "--prune: expected it together with"),
        (["--prune", "--keep-days", "-1"], "--keep-days: expected"),
        (["--reviewed", "nothing"], "nothing: expected a path, or the name of a run"),
        (["--reviewed", "latest", "--reviewed", "."], "--reviewed: expected a stored run, found /"),
    ],
)
def test_wrong_pruning_is_refused(tmp_path: Path, flags: list[str], problem: str) -> None:
    run = judged_run(tmp_path, "passed", register_plan(), passed_verdict())
    result = splitbrain("runs", "--store", tmp_path, *flags)
    assert (result.code, len(result.messages)) == (EXIT_USAGE, 1)
    assert problem in result.messages[0]
    assert not is_reviewed(run)
    assert not Path(REVIEWED_FILE).exists()
