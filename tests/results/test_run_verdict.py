"""verdict.json, JUnit XML and the terminal's summary of one literal verdict."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.model import BadInput, Finding, Quantity, Verdict
from results.junit import junit
from results.run_verdict import ExpectationResult, RunVerdict, read_verdict, write_verdict
from results.store import new_run
from results.summary import summary

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LOST = Finding("appends", "lost-write", "invalid", "An acknowledged write is lost: 7 <& \x00>.", "k1", witnesses=(3, 9))
NO_PROGRESS = Finding("elections", "no-progress", "unknown", "No election was seen.")
STALE = Finding("reads", "stale-read", "tolerated", "A read returned an older value.", witnesses=(5,))
VERDICT = RunVerdict(
    name="PV-01",
    verdict=Verdict.INVALID,
    summary="an acknowledged write is lost",
    checks=("appends", "elections", "reads", "quorum"),
    findings=(LOST, NO_PROGRESS, STALE),
    quantities=(Quantity("quorum", "epochs_burned", 7, "epochs"),),
    expectations=(
        ExpectationResult("no leader is deposed", "deposed once", met=False),
        ExpectationResult("no epoch is burned", "no epoch was seen", met=None),
        ExpectationResult("writes go on", "812 writes", met=True),
    ),
    versions={"kafka": "3.9.1"},
    command="splitbrain reproduce PV-01 --seed 42",
)


def test_written_verdict_is_read_back(tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", NOW)
    write_verdict(run, VERDICT)
    assert read_verdict(run.verdict) == VERDICT
    assert [each["name"] for each in json.loads(run.findings.read_text())] == [
        "lost-write",
        "no-progress",
        "stale-read",
    ]


@pytest.mark.parametrize(
    "document",
    [[], {"format": 99}, {"format": 1, "name": "PV-01"}, {"format": 1, "verdict": "splendid"}],
    ids=["a list", "a later format", "missing fields", "unknown verdict"],
)
def test_invalid_verdict_file_is_bad_input_with_its_name(tmp_path: Path, document: object) -> None:
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=r"verdict\.json: expected a verdict of format 1"):
        read_verdict(path)


def cases() -> dict[str, list[str]]:
    root = ET.fromstring(junit([VERDICT]))
    return {case.attrib["name"]: [child.tag for child in case] for case in root.iter("testcase")}


def test_junit_has_a_case_per_check_and_per_expectation() -> None:
    assert cases() == {
        "check appends": ["failure"],
        "check elections": ["error"],
        "check reads": ["system-out"],
        "check quorum": [],
        "expected: no leader is deposed": ["failure"],
        "expected: no epoch is burned": ["error"],
        "expected: writes go on": [],
    }


def test_junit_counts_match_the_cases() -> None:
    suite = ET.fromstring(junit([VERDICT])).find("testsuite")
    assert suite is not None
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("7", "2", "2")


def test_junit_escapes_messages() -> None:
    failure = ET.fromstring(junit([VERDICT])).find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == "An acknowledged write is lost: 7 <& �>."
    assert failure.text == "occurrences: 1; witnesses: 3, 9"


def test_junit_includes_findings_of_unlisted_checks() -> None:
    assert '"check appends"' in junit([replace(VERDICT, checks=())])


def test_summary_has_verdict_expectations_findings_quantities_and_command() -> None:
    lines = summary(replace(VERDICT, findings=(STALE,))).splitlines()
    assert lines == [
        "PV-01: INVALID. an acknowledged write is lost",
        "",
        "expected              measured           met",
        "--------------------  -----------------  -------",
        "no leader is deposed  deposed once       NO",
        "no epoch is burned    no epoch was seen  unknown",
        "writes go on          812 writes         yes",
        "",
        "tolerated: stale-read: A read returned an older value.",
        "",
        "quantity       value    unit",
        "-------------  -------  ------",
        "epochs_burned  7        epochs",
        "",
        "Reproduce with: splitbrain reproduce PV-01 --seed 42",
    ]


def test_summary_limits_the_findings_and_counts_the_rest() -> None:
    text = summary(replace(VERDICT, findings=(LOST,) * 13))
    assert text.count("lost-write") == 10
    assert "and 3 more findings in verdict.json" in text
