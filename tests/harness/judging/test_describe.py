"""What was run, counted from a stored run's tables; and what a command prints of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.commands.output.console import Output, print_verdict
from harness.commands.output.progress import Verbosity
from harness.judging.describe import describe
from harness.model import Verdict
from harness.model.hosts import UndoRecord
from harness.model.records.fault_intervals import Injections
from harness.planning.plan import Plan
from harness.recovery.remains import open_faults
from nemesis.journal import UndoJournal
from results.description import Judged, RunDescription
from results.run_verdict import RunVerdict
from results.store import RunDirectory
from tests.support import SUPPORT


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(Path(shutil.copytree(SUPPORT / "runs" / "old_names", tmp_path / "run")))


def described(run: RunDirectory) -> RunDescription:
    judges = {"register": "operation", "quorum": "observation", "nemesis": "fault action", "a plugin's": None}
    return describe(run, Plan.read(run.plan), "reference", judges)


def test_run_is_described_by_its_plan_and_tables(run: RunDirectory) -> None:
    found = described(run)
    assert found.what == "register workload on reference, 3 nodes, netns hosts"
    assert found.judged == (
        Judged("register", "operation", 43, 8),
        Judged("quorum", "observation", 66),
        Judged("nemesis", "fault action", 9),
        Judged("a plugin's"),
    )
    assert found.faults == (Injections("partition", 1, 0), Injections("kill", 1, 0), Injections("rpc", 1, 0))
    assert found.injected == "partition 1, kill 1, rpc 1: 1 heal ended with an error"
    assert found.clients == "41 ok, 2 failed"
    assert (found.date, found.duration, found.seed) == ("2026-11-22 02:50:32 UTC", "7.00 s", 3)


def test_undo_records_that_are_not_healed_are_counted(run: RunDirectory) -> None:
    assert open_faults(run) == 0
    journal = UndoJournal(run.journal)
    journal.healed(journal.record(UndoRecord("cut", "links", {})))
    journal.record(UndoRecord("pause", "processes", {}))
    assert open_faults(run) == 1
    run.journal.write_text("nonsense\n")
    assert open_faults(run) is None


def printed(run: RunDirectory, capsys: pytest.CaptureFixture[str], *, is_json: bool) -> str:
    verdict = RunVerdict("run", Verdict.VALID, "No broken guarantee.", headline="valid", description=described(run))
    print_verdict(verdict, run, Output(is_json, Verbosity.USUAL))
    return capsys.readouterr().out


def test_printed_verdict_says_where_the_evidence_is_and_how_to_clean_up(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(run, capsys, is_json=False)
    assert text.startswith("run: VALID. No broken guarantee.\n")
    assert text.endswith(
        f"\nEvidence: {run.path}\nReport:   {run.report}\nClean up: nothing is left of this run's faults\n"
    )
    UndoJournal(run.journal).record(UndoRecord("pause", "processes", {}))
    assert f"\nClean up: splitbrain heal --store {run.path.parent}\n" in printed(run, capsys, is_json=False)


def test_verdict_as_json_has_the_directory_and_the_description(
    run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(printed(run, capsys, is_json=True))
    assert (document["verdict"], document["run"]) == ("valid", str(run.path))
    assert document["description"]["faults"][0] == {"fault": "partition", "verified": 1, "failed": 0}
