"""The verdict of a reproduction, from the findings and expectations of both sides."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.judging.runs import reproduction_verdict, run_summary
from harness.model import Finding, Verdict
from harness.model.records.finding import most_severe_first, verdict_of
from harness.model.scenario import Scenario, Side, Source
from results.run_verdict import ExpectationResult, RunVerdict

SCENARIO = Scenario(
    "PV-00", "A title", "A question?", Source("KIP-996"), 3, (), bad=Side({}, breaks=("lost-write",)), good=Side({})
)


def run_verdict(found: Mapping[str, str], met: bool | None = True) -> RunVerdict:
    """The verdict of a run with findings of these names and severities, and one expectation."""
    findings = tuple(Finding("a check", name, severity, "a message") for name, severity in found.items())  # type: ignore[arg-type]
    return RunVerdict(
        "a run", verdict_of(findings), "", (), findings, expectations=(ExpectationResult("text", "1", met),)
    )


LOST = {"lost-write": "invalid"}
CASES = {
    "the bad side has the required finding": (run_verdict(LOST), run_verdict({}), Verdict.VALID),
    "the good side has it too": (run_verdict(LOST), run_verdict(LOST), Verdict.INVALID),
    "the bad side has another finding": (run_verdict(LOST | {"torn": "invalid"}), run_verdict({}), Verdict.INVALID),
    "the bad side has no finding": (run_verdict({}, met=False), run_verdict({}), Verdict.INVALID),
    "the bad side is unknown": (
        run_verdict(LOST | {"fault-not-effective": "unknown"}),
        run_verdict({}),
        Verdict.UNKNOWN,
    ),
    "an expectation cannot be decided": (run_verdict(LOST), run_verdict({}, met=None), Verdict.UNKNOWN),
}


@pytest.mark.parametrize(("bad", "good", "verdict"), CASES.values(), ids=CASES)
def test_reproduction_verdict_follows_from_both_sides(bad: RunVerdict, good: RunVerdict, verdict: Verdict) -> None:
    assert reproduction_verdict(SCENARIO, [("bad-1", bad), ("good-1", good)]) is verdict


def test_findings_are_sorted_by_severity() -> None:
    found = run_verdict({"G0": "tolerated", "not-drained": "unknown", "lost-write": "invalid", "settled": "tolerated"})
    assert [each.name for each in most_severe_first(found.findings)] == ["lost-write", "not-drained", "G0", "settled"]


@pytest.mark.parametrize(("count", "summary"), [(1, "1 broken guarantee: lost."), (5, "5 broken guarantees: lost.")])
def test_the_summary_counts_the_findings_that_a_row_stands_for(count: int, summary: str) -> None:
    assert run_summary(Verdict.INVALID, [Finding("log", "lost", "invalid", "a message", count=count)], ()) == summary
