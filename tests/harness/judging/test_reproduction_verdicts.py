"""When a scenario is reproduced: what its sides must show, must not, and may break."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.judging.runs import reproduction_verdict
from harness.model import Finding, Verdict
from harness.model.records.finding import gravest_first, verdict_of
from harness.model.scenario import Scenario, Side, Source
from results.run_verdict import ExpectationResult, RunVerdict

LOSES = Scenario(
    "PV-00", "A title", "A question?", Source("KIP-996"), 3, (), bad=Side({}, breaks=("lost-write",)), good=Side({})
)


def judged(found: Mapping[str, str], met: bool | None = True) -> RunVerdict:
    """A run with findings of these names and severities, and one expectation."""
    findings = tuple(Finding("a check", name, severity, "a message") for name, severity in found.items())  # type: ignore[arg-type]
    return RunVerdict(
        "a run", verdict_of(findings), "", (), findings, expectations=(ExpectationResult("text", "1", met),)
    )


LOST = {"lost-write": "invalid"}
CASES = {
    "the bad side breaks what it must": (judged(LOST), judged({}), Verdict.VALID),
    "the good side breaks it too": (judged(LOST), judged(LOST), Verdict.INVALID),
    "the bad side breaks something else": (judged(LOST | {"torn": "invalid"}), judged({}), Verdict.INVALID),
    "the bad side breaks nothing": (judged({}, met=False), judged({}), Verdict.INVALID),
    "the bad side is unknown": (judged(LOST | {"fault-not-effective": "unknown"}), judged({}), Verdict.UNKNOWN),
    "an expectation cannot be told": (judged(LOST), judged({}, met=None), Verdict.UNKNOWN),
}


@pytest.mark.parametrize(("bad", "good", "verdict"), CASES.values(), ids=CASES)
def test_a_scenario_is_reproduced_exactly_where(bad: RunVerdict, good: RunVerdict, verdict: Verdict) -> None:
    assert reproduction_verdict(LOSES, [("bad-1", bad), ("good-1", good)]) is verdict


def test_what_broke_comes_before_what_is_open_and_what_is_allowed() -> None:
    found = judged({"G0": "tolerated", "not-drained": "unknown", "lost-write": "invalid", "settled": "tolerated"})
    assert [each.name for each in gravest_first(found.findings)] == ["lost-write", "not-drained", "G0", "settled"]
