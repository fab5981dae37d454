"""Plans, runs and verdicts stored by an earlier release can still be read, checked and reported.

tests/support/runs/old_names was recorded with the operations `mend` and `hold`, the argument `ways`, conditions as
English sentences, and old plan keys. One of its faults had no effect, so its verdict is unknown.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.model import Verdict
from harness.model.errors import EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID
from harness.planning.plan import Plan
from results.run_verdict import read_verdict
from tests.support import SUPPORT
from tests.support.command import splitbrain, splitbrain_here

STORED = SUPPORT / "runs" / "old_names"
FINDINGS = [("nemesis", "fault-not-effective")]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED, tmp_path / "run"))


def test_plan_with_old_names_is_read() -> None:
    plan = Plan.read(STORED / "plan.json")
    assert plan.switches == {"reference.read_mode": "read-index"}
    assert [step.f for step in plan.story][:5] == ["await", "cut", "sleep", "heal_links", "sleep"]
    assert plan.story[1].value == {"who": "n1", "direction": "out"}
    assert plan.story[6].value["condition"] == {"name": "is_not_leader", "node": 2}


def test_verdict_with_old_names_is_read() -> None:
    verdict = read_verdict(STORED / "verdict.json")
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.checks[0] == "nemesis"
    assert [(each.check, each.name) for each in verdict.findings] == FINDINGS


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_run_with_old_names_has_the_same_verdict_when_checked_again(stored: Path) -> None:
    before = json.loads((stored / "verdict.json").read_text())
    checked = splitbrain_here("check", stored, "--format", "json")
    assert checked.code == EXIT_UNKNOWN, checked.messages
    after = json.loads(checked.out)
    assert [(each["check"], each["name"]) for each in after["findings"]] == FINDINGS
    assert after["quantities"] == before["quantities"]
    report = (stored / "report.html").read_text()
    assert "n1 cannot send" in report


def test_report_of_a_run_with_old_names_is_rendered(stored: Path) -> None:
    assert splitbrain("report", stored).code == EXIT_VALID
    assert "fault-not-effective" in (stored / "report.html").read_text()


def test_report_of_an_earlier_release_gets_its_headline_and_description_from_the_run(stored: Path) -> None:
    plan = json.loads((stored / "plan.json").read_text()) | {"scenario": "PV-01", "side": "bad"}
    (stored / "plan.json").write_text(json.dumps(plan))
    verdict = json.loads((stored / "verdict.json").read_text())
    met = {"text": "the leader is deposed", "measured": "leader_deposed = 1", "met": True}
    (stored / "verdict.json").write_text(json.dumps(verdict | {"findings": [], "expectations": [met]}))
    assert splitbrain("report", stored).code == EXIT_VALID
    report = (stored / "report.html").read_text()
    assert "Anomaly shown, as expected" in report
    assert "register workload on reference (" in report


@pytest.mark.parametrize("table", ["batches", "records"])
def test_run_with_a_damaged_table_of_logs_is_refused_by_name(stored: Path, table: str) -> None:
    chunk = stored / table / "chunk-000001.parquet"
    chunk.parent.mkdir(exist_ok=True)
    chunk.write_text("not Parquet")
    checked = splitbrain("check", stored)
    assert checked.code == EXIT_USAGE
    assert f"{chunk}: expected a whole Parquet file" in checked.messages[-1]
