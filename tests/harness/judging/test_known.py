"""Known findings are read from a file, count until they expire, and hide no other finding."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.judging.index import Problem, RunRow
from harness.judging.known import read_known
from harness.model import BadInput

TODAY = date(2026, 11, 20)
HANGING = Problem("hanging-transaction", "invalid", 1, "")
LOST = Problem("lost-write", "invalid", 1, "")
ENTRY = '[[known]]\nfinding = "hanging-*"\nsystem = "kafka:4.*"\nissue = "KAFKA-20734"\nexpires = 2026-11-20\n'


def run(*problems: Problem, system: str = "kafka:4.3.1", outcome: str = "failed") -> RunRow:
    return RunRow("run", "run", case="explore", system=system, outcome=outcome, problems=problems)


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "known.toml"
    path.write_text(text)
    return path


def test_run_with_known_findings_only_is_known(tmp_path: Path) -> None:
    known = read_known(file(tmp_path, ENTRY), TODAY)
    assert known.outcome_of(run(HANGING)) == "known"
    assert known.outcome_of(run(HANGING, LOST)) == "failed"
    assert known.new_problems(run(HANGING, LOST)) == [LOST]
    assert known.outcome_of(run(HANGING, system="kafka:3.9.1")) == "failed"
    assert known.outcome_of(run(outcome="passed")) == "passed"
    assert known.outcome_of(run(HANGING, outcome="unknown")) == "unknown"
    assert known.outcome_of(run()) == "failed", "a run that failed for no known reason"


def test_entry_counts_up_to_its_day(tmp_path: Path) -> None:
    known = read_known(file(tmp_path, ENTRY), date(2026, 11, 21))
    assert known.outcome_of(run(HANGING)) == "failed"
    assert [entry.issue for entry in known.expired] == ["KAFKA-20734"]


def test_system_is_also_matched_without_its_version(tmp_path: Path) -> None:
    known = read_known(file(tmp_path, ENTRY.replace("kafka:4.*", "kafka")), TODAY)
    assert known.outcome_of(run(HANGING)) == "known"


def test_file_that_the_user_names_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_known(None, TODAY).entries == ()
    with pytest.raises(BadInput, match="expected known findings in TOML, found no such file"):
        read_known(tmp_path / "nothing.toml", TODAY)
    (tmp_path / "known-findings.toml").write_text(ENTRY)
    assert len(read_known(None, TODAY).entries) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ENTRY.replace("2026-11-20", '"soon"'), "known.toml: known.0.expires: expected"),
        (ENTRY.replace("issue", "isue"), "known.toml: known.0.issue: expected a value, found nothing"),
        (ENTRY + ENTRY.replace('"KAFKA-20734"', '""'), "known.toml: known.1.issue: expected"),
        ("known = 3", "known.toml: known: expected a list"),
    ],
)
def test_bad_file_is_refused_with_the_entry(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInput) as refusal:
        read_known(file(tmp_path, text), TODAY)
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)
