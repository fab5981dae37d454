"""The verdict of a reproduction, from the findings and expectations of both sides."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.judging.runs import _broken, _not_broken, reproduction_verdict, run_headline, run_summary
from harness.model import Finding, Verdict
from harness.model.records.finding import most_severe_first, verdict_of
from harness.model.scenario import Scenario, Side, Source
from harness.planning.plan import Plan
from results.run_verdict import ExpectationResult, RunVerdict

SCENARIO = Scenario(
    *("PV-00", "A title", "A question?", Source("KIP-996"), 3, ()),
    bad=Side({}, breaks=("lost-write|non-linearizable",), may_break=("server-exited",)),
    good=Side({}),
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
    "the bad side has its alternative": (run_verdict({"non-linearizable": "invalid"}), run_verdict({}), Verdict.VALID),
    "the good side has it too": (run_verdict(LOST), run_verdict(LOST), Verdict.INVALID),
    "the bad side has another finding": (run_verdict(LOST | {"torn": "invalid"}), run_verdict({}), Verdict.INVALID),
    "the bad side has a finding that may follow": (
        run_verdict(LOST | {"server-exited": "invalid"}),
        run_verdict({}),
        Verdict.VALID,
    ),
    "the good side has it": (run_verdict(LOST), run_verdict({"server-exited": "invalid"}), Verdict.INVALID),
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


@pytest.mark.parametrize(("name", "is_broken"), [("lost-write", True), ("non-linearizable", True), ("torn", False)])
def test_one_of_the_findings_that_a_bar_joins_has_to_appear(name: str, is_broken: bool) -> None:
    found = [Finding("a check", name, "invalid", "a message", count=2)]
    names = "lost-write|non-linearizable"
    counted = "2 findings" if is_broken else "0 findings"
    text = "broken guarantee: lost-write or non-linearizable"
    assert _broken(names, found) == ExpectationResult(f"a {text}", counted, is_broken)
    assert _not_broken(names, found) == ExpectationResult(f"no {text}", counted, not is_broken)


def test_findings_are_sorted_by_severity() -> None:
    found = run_verdict({"G0": "tolerated", "not-drained": "unknown", "lost-write": "invalid", "settled": "tolerated"})
    assert [each.name for each in most_severe_first(found.findings)] == ["lost-write", "not-drained", "G0", "settled"]


@pytest.mark.parametrize(("count", "summary"), [(1, "1 broken guarantee: lost."), (5, "5 broken guarantees: lost.")])
def test_the_summary_counts_the_findings_that_a_row_stands_for(count: int, summary: str) -> None:
    assert run_summary(Verdict.INVALID, [Finding("log", "lost", "invalid", "a message", count=count)], ()) == summary


def plan(scenario: str | None, side: str | None) -> Plan:
    return Plan(name="a run", seed=1, story=[], scenario=scenario, side=side)


FORGOTTEN = Finding("quorum", "vote-forgotten", "invalid", "a vote is remembered over restarts")
TORN = Finding("log", "torn", "invalid", "a message")
MET, UNMET = (ExpectationResult("text", "1", met) for met in (True, False))
HEADLINES = {
    "no scenario": (plan(None, None), [TORN], [], "invalid"),
    "the bad side shows what it should": (plan("PV-15", "bad"), [FORGOTTEN], [MET], "anomaly shown, as expected"),
    "the bad side shows something else too": (plan("PV-15", "bad"), [FORGOTTEN, TORN], [MET], "invalid"),
    "the bad side shows nothing": (plan("PV-15", "bad"), [], [UNMET], "anomaly not shown"),
    "a bad side without findings": (plan("PV-01", "bad"), [], [MET], "anomaly shown, as expected"),
    "the good side shows it": (plan("PV-15", "good"), [FORGOTTEN], [MET], "invalid"),
    "the good side is as documented": (plan("PV-01", "good"), [], [MET], "valid"),
    "the good side's expectation fails": (plan("PV-01", "good"), [], [MET, UNMET], "anomaly shown, not expected"),
}


@pytest.mark.parametrize(("of", "findings", "expectations", "headline"), HEADLINES.values(), ids=HEADLINES)
def test_headline_of_a_run_says_whether_its_side_went_as_expected(
    of: Plan, findings: list[Finding], expectations: list[ExpectationResult], headline: str
) -> None:
    assert run_headline(of, findings, expectations) == headline


def test_the_summary_names_what_was_measured_in_units_that_a_person_reads() -> None:
    measured = ExpectationResult("no commit for long", "commit_gap_ms = 620", True, "commit_gap_ms", 620)
    assert run_summary(Verdict.VALID, [], [measured]) == (
        "No broken guarantee. As documented (longest commit gap: 0.62 s)."
    )
