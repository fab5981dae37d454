"""Findings of known defects are counted apart from new ones, on Kafka, and hide none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judging.known_defects import DEFECTS, counted_apart, known_in, known_reason
from harness.model import Finding
from harness.model.records.finding import rest_of
from harness.plugins import scenario
from results.run_verdict import KnownDefect

STALE = Finding("divergence", "stale-voters", "invalid", "n1 was elected by voters of before", node=1)
LOST = Finding("promised-reads", "lost-write", "invalid", "an acknowledged write was lost", "r1")
APART = Finding("divergence", "voter-sets-apart", "invalid", "two voters changed at once")
EXIT = "a server runs until it is told to end: node 1, leader of epoch 2, ended: exit 1: "
ENDED = Finding("servers", "server-exited", "invalid", f"{EXIT}Unexpected acknowledgement from non-voter 3", node=1)
UNKNOWN_LEADER = replace(ENDED, message=f"{EXIT}java.lang.IllegalArgumentException: Unknown leader endpoints (…)")
NEVER_STARTED = replace(
    ENDED, name="server-cannot-start", message=f"{EXIT}java.lang.IllegalArgumentException: Local replica (2, …) must be"
)
APPENDED_TWICE = replace(ENDED, message=f"{EXIT}Unexpected offset in append to __cluster_metadata-0. First offset 78")
CRASHED = replace(ENDED, message=f"{EXIT}java.lang.OutOfMemoryError")
TOLERATED = replace(STALE, severity="tolerated")
FINDINGS = Path(__file__).parents[3] / "docs/findings"
KAFKA = ("kafka:4.3.1",)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], []),
        ([STALE], [KnownDefect("EX-02", "stale-voters", 1, 0)]),
        ([STALE, LOST, APART], [KnownDefect("EX-02", "stale-voters", 1, 1)]),
        ([LOST, APART], []),
        ([ENDED], [KnownDefect("EX-03", "server-exited", 1, 0)]),
        ([CRASHED], []),
        ([ENDED, rest_of(ENDED, 4)], [KnownDefect("EX-03", "server-exited", 5, 0)]),
        ([CRASHED, rest_of(CRASHED, 4)], []),
        ([TOLERATED], []),
        ([UNKNOWN_LEADER], [KnownDefect("EX-16 or EX-17", "server-exited", 1, 0)]),
        ([NEVER_STARTED], [KnownDefect("EX-04", "server-cannot-start", 1, 0)]),
        ([APPENDED_TWICE], []),
        (
            [STALE, ENDED, CRASHED],
            [KnownDefect("EX-02", "stale-voters", 1, 1), KnownDefect("EX-03", "server-exited", 1, 0)],
        ),
    ],
    ids=[
        "nothing",
        "EX-02",
        "EX-02, a write that may be lost by it, and something new",
        "effects without their cause",
        "EX-03",
        "another exit",
        "EX-03, several times",
        "another exit, several times",
        "what is tolerated",
        "two defects that look alike",
        "EX-04",
        "a defect that this release does not have",
        "both defects, and an exit that may follow from the first",
    ],
)
def test_known_defects_are_recognised(findings: list[Finding], expected: list[KnownDefect]) -> None:
    assert list(known_in(KAFKA, findings)) == expected


def test_reference_has_no_defects_of_kafka() -> None:
    assert known_in(["reference"], [STALE, ENDED]) == ()
    assert known_reason(["reference"], "no-spin") is None


def test_defects_of_any_release_in_the_cluster_are_known() -> None:
    systems = ["kafka:4.3.1", "kafka:3.9.1"]
    assert known_in(systems, [APPENDED_TWICE]) == (KnownDefect("EX-15", "server-exited", 1, 0),)
    assert known_in(["kafka"], [APPENDED_TWICE]) == (KnownDefect("EX-15", "server-exited", 1, 0),)


@pytest.mark.parametrize(
    ("reason", "release", "expected"),
    [
        ("voter-set-matches-log", "4.3.1", "EX-02"),
        ("no-exception: IllegalArgumentException: Unexpected acknowledgement from non-voter", "3.9.1", "EX-03"),
        ("no-exception: IllegalArgumentException: Local replica", "4.3.1", "EX-04"),
        ("no-exception: IllegalArgumentException: Local replica", "3.9.1", None),
        ("no-recovery: no node can be elected", "4.3.1", "EX-06 or EX-11"),
        ("no-recovery: no node can be elected, and all voters know the same voters", "4.3.1", None),
        ("no-recovery: none has committed", "3.9.1", None),
        ("no-exception: IllegalArgumentException: Illegal append at offset", "3.9.1", "EX-15"),
        ("no-exception: NullPointerException", "4.3.1", None),
        ("log-matching", "4.3.1", None),
        ("no-spin", "4.3.1", "busy-observers"),
        ("vote-once", "4.3.1", None),
    ],
)
def test_reasons_of_simulated_runs_are_known_or_new(reason: str, release: str, expected: str | None) -> None:
    assert known_reason([f"kafka:{release}"], reason) == expected


def test_new_findings_stay_visible_in_the_summary() -> None:
    findings = [STALE, LOST, APART, TOLERATED]
    text = counted_apart(findings, known_in(KAFKA, findings))
    assert text == " Of these, 1 show the known defect EX-02 (stale-voters), 1 may follow from EX-02; new: 1."
    assert counted_apart([APART], known_in(KAFKA, [APART])) == ""


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect_has_scenarios_or_a_page(defect: Any) -> None:
    names = defect.name.split(" or ")
    for name in names:
        if name.startswith("EX-"):
            bad = scenario(name).bad
            assert bad is not None
            assert defect.shown_by.intersection(bad.expected_findings) or "no-recovery" in defect.shown_by
        else:
            assert (FINDINGS / f"{name}.md").is_file()
