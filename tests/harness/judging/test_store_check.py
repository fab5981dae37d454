"""`splitbrain check STORE`: every run is judged again, and what changed is listed; --write keeps it."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from harness.judging.index import Problem, RunRow
from harness.judging.store_check import JudgedAgain
from harness.model import Verdict
from harness.model.errors import EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID
from results.run_verdict import RunVerdict, read_verdict, write_verdict
from results.store import RunDirectory, new_run
from tests.support import SUPPORT
from tests.support.command import json_lines, splitbrain, splitbrain_here
from tests.support.stored_runs import BEGIN


def row(outcome: str | None, *problems: str) -> RunRow:
    """A run with this outcome and these problems."""
    verdict = {"passed": "valid", "failed": "invalid", "unknown": "unknown"}.get(outcome or "", "-")
    found = tuple(Problem(name, "invalid", 1, "") for name in problems)
    return RunRow("a", "run", outcome=outcome, verdict=verdict, problems=found)


def test_changes_are_verdicts_and_names_of_problems() -> None:
    same = JudgedAgain(row("failed", "lost", "stale"), row("failed", "stale", "lost"))
    assert not same.is_changed
    other = JudgedAgain(row("failed", "lost", "stale"), row("failed", "lost", "forked"))
    assert (other.is_changed, other.gained, other.lost) == (True, ["forked"], ["stale"])
    assert JudgedAgain(row(None), row("passed")).is_changed
    assert not JudgedAgain(row("failed", "lost"), None, "damaged").is_changed


def recorded(store: Path, seconds: int) -> RunDirectory:
    """A recorded run, whose verdict is unknown since one of its faults had no effect."""
    run = new_run(store, "run", BEGIN + timedelta(seconds=seconds))
    shutil.rmtree(run.path)
    shutil.copytree(SUPPORT / "runs" / "old_names", run.path)
    return run


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(240)
def test_store_is_judged_again(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    same, changed, damaged = (recorded(store, seconds) for seconds in range(3))
    write_verdict(changed, RunVerdict("run", Verdict.VALID, "No broken guarantee."))
    for chunk in damaged.history.iterdir():
        chunk.write_text("no Parquet")
    before = {run.name: run.verdict.read_bytes() for run in (same, changed)}

    result = splitbrain_here("check", store, "--json")
    assert result.code == EXIT_UNKNOWN, result.messages
    found = {each["run"]: each for each in json_lines(result, least=3)}
    assert [found[run.name]["is_changed"] for run in (same, changed, damaged)] == [False, True, False]
    assert found[changed.name]["gained"] == ["fault-not-effective"]
    assert found[changed.name]["before"]["outcome"] == "passed"
    assert str(damaged.history) in found[damaged.name]["problem"]
    assert before == {run.name: run.verdict.read_bytes() for run in (same, changed)}

    written = splitbrain_here("check", store, "--write")
    assert written.out.splitlines()[0] == "3 runs: 1 as before, 1 changed, 1 not judged"
    assert read_verdict(changed.verdict).verdict is Verdict.UNKNOWN
    assert changed.report.exists()
    again = splitbrain_here("check", store)
    assert (again.code, again.out.splitlines()[0]) == (EXIT_VALID, "3 runs: 2 as before, 0 changed, 1 not judged")


def test_write_needs_a_store(tmp_path: Path) -> None:
    run = recorded(tmp_path / "runs", 0)
    refused = splitbrain("check", run.path, "--write")
    assert refused.code == EXIT_USAGE
    assert "--write: expected a store" in refused.messages[-1]
    assert json.loads(run.verdict.read_text())["verdict"] == "unknown"
