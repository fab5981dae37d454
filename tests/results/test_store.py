"""The run store: unique names, legal statuses, listing, and atomic files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.model import BadInput
from results.files import read_json, write_json
from results.store import new_run, require_new_runs, runs

NOW = datetime(2026, 11, 21, 5, 17, 0, 250, tzinfo=UTC)


def test_directory_name_has_time_and_name(tmp_path: Path) -> None:
    run = new_run(tmp_path / "store", "PV-01-reference-bad", NOW)
    assert run.name.startswith("20261121T051700Z-PV-01-reference-bad-")
    assert (run.kind, run.status) == ("run", "created")
    assert run.node(2) == run.path / "nodes" / "n2"


def test_runs_of_the_same_time_and_name_have_different_directories(tmp_path: Path) -> None:
    assert len({new_run(tmp_path, "PV-01", NOW).path for _ in range(20)}) == 20


def test_runs_are_listed_oldest_first_without_other_directories(tmp_path: Path) -> None:
    later, earlier = new_run(tmp_path, "b", NOW.replace(hour=6)), new_run(tmp_path, "c", NOW)
    (tmp_path / "notes").mkdir()
    assert runs(tmp_path) == [earlier, later]
    assert runs(tmp_path / "missing") == []


def test_time_of_each_status_is_kept(tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", NOW)
    for hour, status in enumerate(("running", "recorded", "judged", "judged"), start=10):
        run.enter(status, NOW.replace(hour=hour))  # type: ignore[arg-type]
    assert run.status == "judged"
    times = read_json(run.status_file)["times"]
    assert [times[status][11:13] for status in ("created", "running", "recorded", "judged")] == ["05", "10", "11", "13"]


def test_interrupted_run_can_be_judged(tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", NOW)
    for status in ("running", "interrupted", "judged"):
        run.enter(status, NOW)  # type: ignore[arg-type]
    assert run.status == "judged"


def test_run_cannot_be_judged_before_it_is_recorded(tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", NOW)
    run.enter("running", NOW)
    with pytest.raises(AssertionError, match="a run that is running cannot become judged"):
        run.enter("judged", NOW)


def test_reproduction_has_numbered_sides_that_the_store_does_not_list(tmp_path: Path) -> None:
    reproduction = new_run(tmp_path, "PV-01", NOW, kind="reproduction")
    for side in ("bad", "good", "bad"):
        reproduction.new_side(side, NOW)
    assert [run.name for run in reproduction.sides()] == ["bad-1", "bad-2", "good-1"]
    assert runs(tmp_path) == [reproduction]


def test_a_run_is_its_own_run_and_a_reproduction_has_those_of_its_sides(tmp_path: Path) -> None:
    run, reproduction = new_run(tmp_path, "register", NOW), new_run(tmp_path, "PV-01", NOW, "reproduction")
    assert run.own_runs() == [run]
    with pytest.raises(BadInput, match="expected a reproduction with side runs, found none"):
        reproduction.own_runs()
    side = reproduction.new_side("bad", NOW)
    assert reproduction.own_runs() == [side]


def test_store_is_created_before_its_first_run_or_refused(tmp_path: Path) -> None:
    require_new_runs(tmp_path / "new/store")
    assert runs(tmp_path / "new/store") == []
    (tmp_path / "file").touch()
    for store in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(BadInput, match="expected a folder in which runs can be created"):
            require_new_runs(store)


def test_json_file_is_replaced_without_temporary_files(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, {"seed": 1})
    write_json(path, {"seed": 2, "title": "ü"})
    assert read_json(path) == {"seed": 2, "title": "ü"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_value_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, {"seed": 1})
    with pytest.raises(TypeError):
        write_json(path, {"seed": object()})
    assert read_json(path) == {"seed": 1}


@pytest.mark.parametrize(
    ("content", "message"), [(None, "found no such file"), ("{", "not valid JSON")], ids=["missing", "truncated"]
)
def test_unreadable_json_file_is_bad_input_with_its_name(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput, match=rf"plan\.json: .*{message}"):
        read_json(path)
