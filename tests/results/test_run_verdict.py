"""verdict.json, JUnit XML and the terminal's summary of one literal verdict."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.model import BadInput, Finding, Quantity, Verdict
from harness.model.records.fault_intervals import Injections
from results.description import Judged, RunDescription
from results.headline import headline_of, tone_of
from results.junit import junit
from results.kinds import FindingKind, kinds_of
from results.run_verdict import ExpectationResult, KnownDefect, RunVerdict, SideResult, read_verdict, write_verdict
from results.store import new_run
from results.summary import summary
from tests.support.descriptions import DESCRIPTION

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
    quantities=(
        Quantity("quorum", "epochs_per_minute", 21, "epochs/min"),
        Quantity("a plugin", "lease_gap_ms", 1234, "ms"),
        Quantity("quorum", "commit_gap_ms", 620, "ms"),
        Quantity("quorum", "epochs_burned", 7, "epochs"),
    ),
    expectations=(
        ExpectationResult("no leader is deposed", "epochs_burned = 7", False, "epochs_burned", 7),
        ExpectationResult("no epoch is burned", "no epoch was seen", met=None),
        ExpectationResult("writes go on", "812 writes", met=True),
    ),
    versions={"kafka": "3.9.1"},
    command="splitbrain reproduce PV-01 --seed 42",
    headline="invalid",
    description=DESCRIPTION,
    sides=(SideResult("bad-1", "invalid", "invalid", "a summary", DESCRIPTION),),
    known_defects=(KnownDefect("EX-02", "stale-voters", 1, 3),),
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


def test_verdict_of_an_earlier_release_has_its_verdict_as_headline(tmp_path: Path) -> None:
    run = new_run(tmp_path, "PV-01", NOW)
    write_verdict(run, VERDICT)
    document = json.loads(run.verdict.read_text())
    for key in ("headline", "description", "sides"):
        del document[key]
    document["expectations"] = [
        {name: value for name, value in each.items() if name in ("text", "measured", "met")}
        for each in document["expectations"]
    ]
    run.verdict.write_text(json.dumps(document))
    verdict = read_verdict(run.verdict)
    assert (verdict.headline, verdict.description, verdict.sides) == ("", None, ())
    assert summary(verdict).startswith("PV-01: INVALID. ")
    assert verdict.expectations[0].measured_text == "epochs_burned = 7"


def test_verdict_json_keeps_its_keys_and_values() -> None:
    document = VERDICT.to_json()
    assert (document["verdict"], document["quantities"][3]["name"]) == ("invalid", "epochs_burned")
    assert {"name", "summary", "checks", "findings", "expectations", "versions", "command"} < set(document)


def test_summary_says_what_was_run_expected_found_and_measured() -> None:
    verdict = replace(VERDICT, findings=(STALE,), headline="anomaly shown, as expected", name="bad-1", sides=())
    assert summary(verdict).splitlines() == [
        "bad-1: ANOMALY SHOWN, AS EXPECTED. an acknowledged write is lost",
        "",
        "Scenario: PV-01, bad side",
        "Run:      register workload on reference (pre_vote=false), 3 nodes, netns hosts",
        "Started:  2026-11-21 05:17:00 UTC",
        "Duration: 20.9 s",
        "Seed:     42",
        "Checks:   register, availability judged 1,204 operations on 5 keys; divergence judged 1 record batch;",
        "          etcd-terms judged the run",
        "Faults:   partition 3, kill 2: all verified and healed",
        "Clients:  1,180 ok, 20 failed, 4 with an unknown outcome",
        "",
        "expected              measured           met",
        "--------------------  -----------------  -------",
        "no leader is deposed  epochs burned: 7   NO",
        "no epoch is burned    no epoch was seen  unknown",
        "writes go on          812 writes         yes",
        "",
        "tolerated: stale-read: A read returned an older value.",
        "",
        "measured            value",
        "------------------  -------",
        "epochs burned       7",
        "longest commit gap  0.62 s",
        "lease gap           1.23 s",
        "1 more number in the report",
        "",
        "Reproduce with: splitbrain reproduce PV-01 --seed 42",
    ]


def test_summary_of_a_reproduction_has_the_headline_of_each_side() -> None:
    sides = (
        SideResult("bad-1", "invalid", "anomaly shown, as expected", "1 broken guarantee: lost-write.", DESCRIPTION),
        SideResult("good-1", "valid", "valid", "No broken guarantee.", replace(DESCRIPTION, side="good", seed=43)),
        SideResult("bad-2", "invalid", "invalid", "2 broken guarantees: torn.", replace(DESCRIPTION, seed=44)),
    )
    text = summary(replace(VERDICT, description=None, sides=sides))
    assert text.startswith(
        "PV-01: INVALID. an acknowledged write is lost\n\n"
        "bad-1: anomaly shown, as expected. 1 broken guarantee: lost-write.\n"
        "good-1: valid. No broken guarantee.\n"
        "bad-2: invalid. 2 broken guarantees: torn.\n\n"
        "Run:      register workload on"
    )
    assert "Seed:     bad-1: 42; good-1: 43\n" in text


def test_summary_has_a_line_per_kind_of_finding() -> None:
    rest = Finding("appends", "lost-write", "invalid", "and 150 more like these", count=150)
    text = summary(replace(VERDICT, findings=(*(LOST,) * 13, rest, NO_PROGRESS, STALE)))
    assert text.count("lost-write") == 1
    assert "  and 162 more findings of this kind\nunknown: no-progress: No election was seen.\ntolerated:" in text


def test_findings_of_one_name_and_severity_are_a_kind() -> None:
    rest = Finding("appends", "lost-write", "invalid", "and 4 more like these", count=4)
    tolerated = replace(LOST, severity="tolerated")
    assert kinds_of([LOST, LOST, rest, NO_PROGRESS, tolerated]) == (
        FindingKind("lost-write", "invalid", 6, (LOST, LOST)),
        FindingKind("no-progress", "unknown", 1, (NO_PROGRESS,)),
        FindingKind("lost-write", "tolerated", 1, (tolerated,)),
    )


INJECTED = {
    "all": (DESCRIPTION, "partition 3, kill 2: all verified and healed"),
    "none": (replace(DESCRIPTION, faults=()), "none"),
    "one without effect": (
        replace(DESCRIPTION, faults=(Injections("disk", 2, 1),)),
        "disk 3: 1 without the effect that was planned",
    ),
    "one not healed": (replace(DESCRIPTION, open_faults=1), "partition 3, kill 2: 1 undo record not healed"),
    "a heal failed": (replace(DESCRIPTION, failed_heals=1), "partition 3, kill 2: 1 heal ended with an error"),
    "an unreadable journal": (
        replace(DESCRIPTION, open_faults=None),
        "partition 3, kill 2: whether all are healed is unknown, the journal cannot be read",
    ),
}


@pytest.mark.parametrize(("description", "text"), INJECTED.values(), ids=INJECTED)
def test_faults_are_counted_and_problems_are_named(description: RunDescription, text: str) -> None:
    assert description.injected == text


HEADLINES = [
    (None, Verdict.INVALID, None, "invalid"),
    ("bad", Verdict.VALID, True, "anomaly shown, as expected"),
    ("bad", Verdict.VALID, False, "anomaly not shown"),
    ("bad", Verdict.VALID, None, "anomaly not measured"),
    ("bad", Verdict.INVALID, True, "invalid"),
    ("bad", Verdict.UNKNOWN, True, "unknown"),
    ("good", Verdict.VALID, True, "valid"),
    ("good", Verdict.VALID, False, "anomaly shown, not expected"),
    ("good", Verdict.INVALID, False, "invalid"),
]


@pytest.mark.parametrize(("side", "verdict", "met", "headline"), HEADLINES)
def test_headline_follows_from_side_verdict_and_expectations(
    side: str | None, verdict: Verdict, met: bool | None, headline: str
) -> None:
    assert headline_of(side, verdict, met) == headline


def test_headline_has_the_colour_of_good_or_bad_news() -> None:
    assert [tone_of(headline).value for *_, headline in HEADLINES] == [
        "invalid",
        "valid",
        "invalid",
        "unknown",
        "invalid",
        "unknown",
        "valid",
        "invalid",
        "invalid",
    ]


@pytest.mark.parametrize(
    ("judged", "text"),
    [
        (Judged("divergence", "record batch", 2), "2 record batches"),
        (Judged("register", "operation", 1, 1), "1 operation on 1 key"),
        (Judged("a plugin's"), ""),
    ],
)
def test_numbers_of_a_check_have_the_right_plurals(judged: Judged, text: str) -> None:
    assert judged.numbers == text
