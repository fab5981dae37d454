"""A comparison names what got worse, and shows nothing between equal builds."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from harness.comparing.compare import Samples, compared
from harness.comparing.primary import PRIMARY
from harness.judging.index import Problem, RunRow
from harness.judging.known import Known, KnownFinding
from harness.model import Verdict
from harness.model.records.tables import COMPARED, RUNS
from results.comparison import CaseChange, Comparison

LOST = Problem("lost-write", "invalid", 1, "the write of 7 was lost")
DIVERGED = Problem("diverged-logs", "invalid", 1, "n1 and n2 differ at offset 9")
KNOWN = Known((KnownFinding(finding="lost-*", issue="KAFKA-1", expires=date(2030, 1, 1)),))


def rows(*problems: Problem | None, system: str = "reference", case: str = "explore", **values: object) -> list[RunRow]:
    """A run for each problem; None is a run that passed."""
    return [
        RunRow(
            f"run-{number}", "run", case=case, system=system, outcome="failed" if problem else "passed",
            problems=(problem,) if problem else (), command=f"splitbrain run --seed {number}", **values,  # type: ignore[arg-type]
        )
        for number, problem in enumerate(problems)
    ]  # fmt: skip


def samples(*runs: RunRow) -> Samples:
    found: dict[tuple[str, str], list[RunRow]] = {}
    for row in runs:
        found.setdefault((row.case, row.family), []).append(row)
    return found


def comparison(base: Sequence[RunRow], head: Sequence[RunRow], known: Known | None = None) -> Comparison:
    return compared(samples(*base), samples(*head), known or Known(), "base", "head")


def only(result: Comparison) -> CaseChange:
    (case,) = result.cases
    return case


def test_every_compared_quantity_is_a_column_of_the_runs() -> None:
    assert set(PRIMARY) == set(COMPARED) <= set(RUNS.names)


@pytest.mark.parametrize(
    ("base", "head", "status", "verdict"),
    [
        ([None] * 8, [LOST] * 8, "newly failing", Verdict.INVALID),
        ([LOST] * 8, [None] * 8, "newly passing", Verdict.VALID),
        ([LOST] * 8, [LOST] * 8, "still failing", Verdict.VALID),
        ([LOST, *[None] * 7], [LOST, LOST, *[None] * 6], "flaky", Verdict.VALID),
        ([None] * 8, [None] * 8, "passing", Verdict.VALID),
        ([None], [LOST], "more failures, may be chance", Verdict.UNKNOWN),
        ([LOST], [DIVERGED], "more failures, may be chance", Verdict.UNKNOWN),
        ([LOST], [None], "fewer failures, may be chance", Verdict.VALID),
        ([None], [], "not run", Verdict.UNKNOWN),
    ],
)
def test_status_of_a_case(
    base: list[Problem | None], head: list[Problem | None], status: str, verdict: Verdict
) -> None:
    result = comparison(rows(*base), rows(*head))
    assert (only(result).status, result.verdict) == (status, verdict)


def test_case_that_is_new_is_not_compared() -> None:
    result = comparison(rows(None, case="PV-01 good"), [*rows(None, case="PV-01 good"), *rows(LOST)])
    assert [(case.case, case.status) for case in result.cases] == [("explore", "new case"), ("PV-01 good", "passing")]
    assert result.verdict is Verdict.VALID


def test_nothing_to_compare_is_unknown() -> None:
    assert comparison([], []).verdict is Verdict.UNKNOWN
    assert comparison([], rows(None)).verdict is Verdict.UNKNOWN


def test_unknown_runs_are_not_counted_as_passed() -> None:
    unknown = [replace(row, outcome="unknown") for row in rows(None, None)]
    result = comparison(rows(None, None), unknown)
    assert (only(result).status, only(result).head.text) == ("unknown", "none decided, 2 unknown")
    assert result.verdict is Verdict.UNKNOWN


def test_single_variants_are_compared_whatever_they_are() -> None:
    case = only(comparison(rows(*[None] * 8, system="kafka:4.3.1"), rows(*[LOST] * 8, system="kafka:3.9.1")))
    assert (case.status, case.system) == ("newly failing", "kafka:3.9.1")
    assert case.change == "system kafka:4.3.1, now kafka:3.9.1"
    mutant = only(comparison(rows(None), rows(LOST, variant="reference.mutant=no-truncation")))
    assert mutant.change == "switches none, now reference.mutant=no-truncation"


def test_of_several_variants_equal_ones_are_compared() -> None:
    base = [*rows(None, system="kafka:3.9.1"), *rows(None, system="kafka:4.3.1")]
    result = comparison(base, rows(None, system="kafka:4.3.1"))
    assert {case.system: case.status for case in result.cases} == {"kafka:3.9.1": "not run", "kafka:4.3.1": "passing"}


def test_new_findings_are_told_from_old_ones() -> None:
    case = only(comparison(rows(LOST, None), rows(LOST, DIVERGED)))
    assert (case.problems, case.new_problems) == (("lost-write", "diverged-logs"), ("diverged-logs",))
    assert case.status == "more failures, may be chance"


def test_known_findings_count_apart_and_hide_no_new_one() -> None:
    both = replace(rows(LOST)[0], problems=(LOST, DIVERGED))
    result = comparison(rows(*[None] * 8), [*rows(*[LOST] * 7), both], KNOWN)
    case = only(result)
    assert (case.head.known, case.head.failed, case.head.decided) == (7, 1, 1)
    assert case.problems == ("diverged-logs",)
    assert case.known_problems == {"lost-write": "KAFKA-1"}


def test_known_finding_that_no_longer_appears_is_reported() -> None:
    assert comparison(rows(LOST), rows(None), KNOWN).gone == ("lost-* (KAFKA-1)",)
    assert comparison(rows(LOST), rows(LOST), KNOWN).gone == ()
    assert comparison(rows(LOST), rows(None, case="PV-01 good"), KNOWN).gone == (), "its case did not run"


def timed(scale: float, seed: int, case: str = "explore") -> list[RunRow]:
    """Eight runs whose times are spread as real ones are: a third up or down, and now and then twice as long."""
    choice = random.Random(seed)
    quantities = [
        {
            "commit_gap_ms": 900 * scale * choice.lognormvariate(0, 0.3) * choice.choice((1, 1, 1, 2)),
            "recover_ms": 400 * scale * choice.lognormvariate(0, 0.4),
            "unavailable_ms_max": 1200 * scale * choice.lognormvariate(0, 0.3),
            "epochs_burned": float(choice.choice((0, 1, 1, 2))),
        }
        for _ in range(8)
    ]
    failed = [LOST if choice.random() < 0.1 else None for _ in range(8)]
    runs = rows(*failed, case=case)
    return [replace(row, quantities=measured) for row, measured in zip(runs, quantities, strict=True)]


def test_times_that_are_five_times_longer_are_worse() -> None:
    base = [replace(row, outcome="passed", problems=()) for row in timed(1, 1)]
    head = [replace(row, outcome="passed", problems=()) for row in timed(5, 2)]
    result = comparison(base, head)
    case = only(result)
    assert (case.status, result.verdict) == ("worse", Verdict.INVALID)
    gap = next(each for each in case.quantities if each.name == "commit_gap_ms")
    assert gap.is_worse
    assert gap.low > 0
    assert "of 1.96 s instead of 0.43 s" in result.headline
    back = only(comparison(head, base))
    assert (back.status, comparison(head, base).verdict) == ("better", Verdict.VALID)


def test_change_that_is_significant_but_small_is_not_worse() -> None:
    base = [replace(row, quantities={"commit_gap_ms": 900.0 + n}) for n, row in enumerate(rows(*[None] * 8))]
    head = [replace(row, quantities={"commit_gap_ms": 950.0 + n}) for n, row in enumerate(rows(*[None] * 8))]
    case = only(comparison(base, head))
    assert case.quantities[0].p_corrected < 0.001
    assert (case.quantities[0].is_worse, case.status) == (None, "passing")


def test_equal_builds_differ_by_chance_alone_at_the_stated_level() -> None:
    """A hundred pairs of nights of the same build, 10 scenarios with 8 runs: at most 3 % may raise an alarm."""
    alarms = 0
    for pair in range(100):
        base, head = (
            [row for number in range(10) for row in timed(1, pair * 1000 + side + number, f"PV-{number:02} good")]
            for side in (0, 500)
        )
        result = comparison(base, head)
        alarms += bool(result.of("newly failing", "newly passing", "worse", "better"))
    assert alarms <= 3


def test_regression_of_one_scenario_among_ten_is_on_top() -> None:
    base = [row for number in range(10) for row in timed(1, number, f"PV-{number:02} good")]
    head = [row for number in range(10) for row in timed(1, 500 + number, f"PV-{number:02} good")]
    broken = [replace(row, outcome="failed", problems=(DIVERGED,)) if row.case == "PV-07 good" else row for row in head]
    result = comparison(
        [replace(row, outcome="passed", problems=()) if row.case == "PV-07 good" else row for row in base], broken
    )
    assert (result.cases[0].case, result.cases[0].status) == ("PV-07 good", "newly failing")
    assert result.headline.startswith(
        "head is worse than base: PV-07 good on reference fails in 8 of 8 runs (diverged-"
    )
    assert json.loads(json.dumps(result.to_json()))["cases"][0]["case"] == "PV-07 good"
