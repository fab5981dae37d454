"""Findings of known defects are counted apart from new ones, on Kafka, and hide none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.judging.known_defects import DEFECTS, counted_apart, known_in
from harness.model import Finding
from harness.model.records.finding import rest_of
from harness.plugins import scenario
from results.run_verdict import KnownDefect

STALE = Finding("divergence", "stale-voters", "invalid", "n1 was elected by voters of before", node=1)
LOST = Finding("promised-reads", "lost-write", "invalid", "an acknowledged write was lost", "r1")
APART = Finding("divergence", "voter-sets-apart", "invalid", "two voters changed at once")
EXIT = "a server runs until it is told to end: node 1, leader of epoch 2, ended: exit 1: "
ENDED = Finding("servers", "server-exited", "invalid", f"{EXIT}Unexpected acknowledgement from non-voter 3", node=1)
CRASHED = replace(ENDED, message=f"{EXIT}java.lang.OutOfMemoryError")
TOLERATED = replace(STALE, severity="tolerated")
KAFKA = "kafka:4.3.1"


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
        "both defects, and an exit that may follow from the first",
    ],
)
def test_known_defects_are_recognised(findings: list[Finding], expected: list[KnownDefect]) -> None:
    assert list(known_in(KAFKA, findings)) == expected


def test_reference_has_no_defects_of_kafka() -> None:
    assert known_in("reference", [STALE, ENDED]) == ()


def test_new_findings_stay_visible_in_the_summary() -> None:
    findings = [STALE, LOST, APART, TOLERATED]
    text = counted_apart(findings, known_in(KAFKA, findings))
    assert text == " Of these, 1 show the known defect EX-02 (stale-voters), 1 may follow from EX-02; new: 1."
    assert counted_apart([APART], known_in(KAFKA, [APART])) == ""


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect_is_a_scenario_whose_bad_side_shows_it(defect: object) -> None:
    name, shown_by = (getattr(defect, field) for field in ("name", "shown_by"))
    bad = scenario(name).bad
    assert bad is not None
    assert shown_by in bad.expected_findings
