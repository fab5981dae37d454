"""From recorded runs to verdicts: the checks on Spark, the expectations of a scenario, and the files with the results.

One Spark session checks all the runs of a command. The verdict on a run follows from its checks' findings; the verdict
on a reproduction asks whether the bad sides show what the good sides do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness import plugins
from harness.judging.describe import describe
from harness.judging.inputs import inputs_of_run
from harness.judging.known_defects import counted_apart, known_in
from harness.judging.prepared import PreparedRun, prepare, side_of_plan
from harness.model import Finding, Verdict
from harness.model.plurals import counted
from harness.model.records.finding import most_severe_first, verdict_of
from harness.model.scenario import Expectation, Scenario, alternatives
from harness.planning.plan import Plan
from harness.systems.cluster import systems_of
from results.data import ReportData, SideData
from results.files import write_text
from results.headline import headline_of, tone_of
from results.junit import junit
from results.proportions import wilson_interval
from results.reading.sides import read_side
from results.report import write_report
from results.run_verdict import ExpectationResult, RunVerdict, SideResult, write_verdict
from results.store import RunDirectory

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession
    from checkers.run_checks import CheckResults


def judge_run(run: RunDirectory, spark: SparkSession) -> RunVerdict:
    """Check a recorded run and write findings, verdict, JUnit and report into its directory.

    Raises BadInput where its plan or tables cannot be read.
    """
    run_verdict = verdict_on_run(run, spark)
    keep_verdict(run, run_verdict)
    return run_verdict


def keep_verdict(run: RunDirectory, run_verdict: RunVerdict) -> None:
    """Write findings, verdict, JUnit and report of a run into its directory."""
    write_verdict(run, run_verdict)
    write_text(run.junit, junit([run_verdict]))
    write_run_report(run, run_verdict)
    run.enter("judged", datetime.now(UTC))


def verdict_on_run(run: RunDirectory, spark: SparkSession) -> RunVerdict:
    """Check a recorded run. Raises BadInput where its plan or tables cannot be read."""
    from checkers.run_checks import judge_runs

    prepared = prepare(run)
    (results,) = judge_runs([prepared.to_judge], spark)
    return verdict_from(prepared, results)


def verdict_from(prepared: PreparedRun, results: CheckResults) -> RunVerdict:
    """The verdict on a run that follows from the results of its checks."""
    run, plan, inputs = prepared.run, prepared.plan, prepared.inputs
    findings = _in_order(plan, (*results.findings, *_interrupted(run)))
    expectations = _expectations(plan, {quantity.name: quantity.value for quantity in results.quantities}, findings)
    verdict = verdict_of(findings)
    known = known_in(systems_of(plan), findings) if plan.scenario is None else ()
    return RunVerdict(
        name=run.name,
        verdict=verdict,
        summary=f"{run_summary(verdict, findings, expectations)}{counted_apart(findings, known)}",
        headline=run_headline(plan, findings, expectations),
        description=describe(run, plan, inputs.label, {name: each.judges for name, each in prepared.checks.items()}),
        checks=inputs.checks,
        findings=findings,
        quantities=results.quantities,
        expectations=expectations,
        versions=plan.versions,
        command=plan.command,
        known_defects=known,
    )


def judge_reproduction(
    reproduction: RunDirectory, scenario: Scenario, command: str, verdicts: Mapping[str, RunVerdict]
) -> RunVerdict:
    """Judge a reproduction by the verdicts on its runs, which come by name; writes the same files as judge_run."""
    run_verdict = verdict_on_reproduction(reproduction, scenario, command, verdicts)
    write_verdict(reproduction, run_verdict)
    write_text(reproduction.junit, junit([run_verdict, *(verdicts[side.name] for side in reproduction.sides())]))
    write_reproduction_report(reproduction, scenario, run_verdict, verdicts)
    reproduction.enter("judged", datetime.now(UTC))
    return run_verdict


def verdict_on_reproduction(
    reproduction: RunDirectory, scenario: Scenario, command: str, verdicts: Mapping[str, RunVerdict]
) -> RunVerdict:
    """Judge a reproduction by the verdicts on its runs, which come by name."""
    sides = [(side, verdicts[side.name]) for side in reproduction.sides()]
    verdict = reproduction_verdict(scenario, [(side.name, run_verdict) for side, run_verdict in sides])
    return RunVerdict(
        name=scenario.id,
        verdict=verdict,
        summary=_reproduction_summary(verdict, sides),
        headline=verdict.value,
        sides=tuple(_side_result(side.name, judged) for side, judged in sides),
        checks=sides[0][1].checks,
        findings=most_severe_first(finding for _, judged in sides for finding in judged.findings),
        expectations=tuple(expectation for side, judged in sides for expectation in _of_side(side, judged)),
        versions={f"{side.name} {name}": text for side, judged in sides for name, text in judged.versions.items()},
        command=command,
    )


def write_run_report(run: RunDirectory, run_verdict: RunVerdict) -> None:
    """Render a checked run's report."""
    plan = Plan.read(run.plan)
    side = side_of(run, run_verdict)
    if plan.scenario:
        scenario = plugins.scenario(plan.scenario)
        title, question = f"{scenario.id}, {plan.side} side: {scenario.title}", scenario.question
    else:
        title = f"{plan.name}: {plan.workload} workload on {side.system}"
        question = f"Does {plan.system} keep its guarantees for the {plan.workload} workload under these faults?"
    text = run.plan.read_text()
    write_report(run, ReportData(title, question, side.headline, run_verdict.summary, (side,), text, plan.command))


def write_reproduction_report(
    reproduction: RunDirectory, scenario: Scenario, run_verdict: RunVerdict, verdicts: Mapping[str, RunVerdict]
) -> None:
    """Render a reproduction's report: the first run of each side, bad above good."""
    shown = [run for run in reproduction.sides() if run.name.endswith("-1")]
    sides = tuple(side_of(run, verdicts[run.name]) for run in shown)
    title = f"{scenario.id}: {scenario.title}"
    plan_text = "[" + ",\n".join(run.plan.read_text() for run in shown) + "]\n"
    headline, summary, command = run_verdict.verdict.value, run_verdict.summary, run_verdict.command
    write_report(reproduction, ReportData(title, scenario.question, headline, summary, sides, plan_text, command))


def side_of(run: RunDirectory, run_verdict: RunVerdict, name: str = "") -> SideData:
    """The run as a side of a report, with this name or that of its side.

    What a verdict of an earlier release lacks follows from the run.
    """
    plan = Plan.read(run.plan)
    description = run_verdict.description or describe(run, plan, inputs_of_run(run, plan).label, {})
    headline = run_verdict.headline or run_headline(plan, run_verdict.findings, run_verdict.expectations)
    verdict = replace(run_verdict, headline=headline)
    return read_side(run, name or plan.side or plan.name, description, plugins.ops(), verdict)


def _in_order(plan: Plan, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The most severe first, and of these, in their order, those that the scenario's side is expected to have."""
    side = side_of_plan(plan)
    breaks = side.expected_findings if side else ()
    rank = {name: number for number, name in enumerate(breaks)}
    return most_severe_first(sorted(findings, key=lambda finding: rank.get(finding.name, len(rank))))


def _interrupted(run: RunDirectory) -> tuple[Finding, ...]:
    if "interrupted" not in run.times:
        return ()
    message = "the run was interrupted: only what it recorded was checked"
    return (Finding("run", "interrupted", "unknown", message),)


def _expectations(
    plan: Plan, measured: Mapping[str, float], findings: Sequence[Finding]
) -> tuple[ExpectationResult, ...]:
    side = side_of_plan(plan)
    if side is None:
        return ()
    bad = plugins.scenario(plan.scenario or "").bad
    breaks = [_broken(each, findings) for each in side.breaks]
    if bad is not None and side is not bad:
        breaks += [_not_broken(each, findings) for each in bad.breaks if each not in side.breaks]
    shows = [_compare(expectation, measured, True) for expectation in side.shows]
    return (*breaks, *shows, *(_compare(expectation, measured, False) for expectation in side.never))


def _broken(names: str, findings: Sequence[Finding]) -> ExpectationResult:
    """Whether there is a finding of one of the names."""
    count = sum(finding.count for finding in findings if finding.name in alternatives(names))
    return ExpectationResult(f"a broken guarantee: {_either(names)}", counted(count, "finding"), count > 0)


def _not_broken(names: str, findings: Sequence[Finding]) -> ExpectationResult:
    named = (finding for finding in findings if finding.name in alternatives(names))
    count = sum(finding.count for finding in named if finding.severity == "invalid")
    return ExpectationResult(f"no broken guarantee: {_either(names)}", counted(count, "finding"), count == 0)


def _either(names: str) -> str:
    return " or ".join(alternatives(names))


def _compare(expectation: Expectation, measured: Mapping[str, float], expected: bool) -> ExpectationResult:
    text = expectation.text if expected else f"never: {expectation.text}"
    name, value = expectation.quantity, measured.get(expectation.quantity)
    if value is None:
        return ExpectationResult(text, f"{name} could not be measured", None, name)
    return ExpectationResult(text, f"{name} = {value:g}", expectation.holds(value) is expected, name, value)


def run_headline(plan: Plan, findings: Sequence[Finding], expectations: Sequence[ExpectationResult]) -> str:
    """The headline of a run, by its side of its scenario if it has one."""
    side = side_of_plan(plan)
    if side is None:
        return headline_of(None, verdict_of(findings), None)
    met = [expectation.met for expectation in expectations]
    all_met = False if False in met else None if None in met else True
    return headline_of(plan.side, _verdict_without(side.expected_findings, findings), all_met)


def _side_result(name: str, judged: RunVerdict) -> SideResult:
    return SideResult(name, judged.verdict.value, judged.headline, judged.summary, judged.description)


def run_summary(verdict: Verdict, findings: Sequence[Finding], expectations: Sequence[ExpectationResult]) -> str:
    """The verdict on a run in a sentence."""
    if verdict is Verdict.VALID:
        return f"No broken guarantee. {_as_expected(expectations)}".strip()
    noun = "broken guarantee" if verdict is Verdict.INVALID else "open question"
    weighty = [finding for finding in findings if finding.severity == verdict.value]
    names = ", ".join(dict.fromkeys(finding.name for finding in weighty))
    count = sum(finding.count for finding in weighty)
    return f"{counted(count, noun)}: {names}."


def _as_expected(expectations: Sequence[ExpectationResult]) -> str:
    """Whether a scenario's side went as documented, with what was measured; empty for a run without a scenario."""
    if not expectations:
        return ""
    fits = all(expectation.met for expectation in expectations)
    measured = ", ".join(dict.fromkeys(expectation.measured_text for expectation in expectations))
    return f"{'As documented' if fits else 'Not as documented'} ({measured})."


def reproduction_verdict(scenario: Scenario, sides: Sequence[tuple[str, RunVerdict]]) -> Verdict:
    """Unknown if any run is unknown or an expectation could not be evaluated; else whether all expectations are met.

    Runs come with their names, e.g. `bad-1`. A finding that its side is expected to show does not count against a run.
    """
    met = [expectation.met for _, run_verdict in sides for expectation in run_verdict.expectations]
    verdicts = {
        _verdict_without(scenario.side(_side_of(name)).expected_findings, run_verdict.findings)
        for name, run_verdict in sides
    }
    if Verdict.INVALID in verdicts or False in met:
        return Verdict.INVALID
    return Verdict.UNKNOWN if Verdict.UNKNOWN in verdicts or None in met else Verdict.VALID


def _side_of(run_name: str) -> str:
    """The side that a run of a reproduction plays: `bad` of `bad-1`."""
    return run_name.rpartition("-")[0]


def _verdict_without(names: Sequence[str], findings: Sequence[Finding]) -> Verdict:
    """The verdict without the findings of these names."""
    return verdict_of(finding for finding in findings if finding.name not in names)


def _reproduction_summary(verdict: Verdict, sides: Sequence[tuple[RunDirectory, RunVerdict]]) -> str:
    headlines = {
        Verdict.VALID: "Reproduced",
        Verdict.INVALID: "Not as documented",
        Verdict.UNKNOWN: "Unknown",
    }
    tallies = [_tally(name, sides) for name in ("bad", "good") if _runs_of(name, sides)]
    return f"{headlines[verdict]}: {'; '.join(tallies)}."


def _runs_of(name: str, sides: Sequence[tuple[RunDirectory, RunVerdict]]) -> list[RunVerdict]:
    return [run_verdict for run, run_verdict in sides if run.name.startswith(f"{name}-")]


def _tally(name: str, sides: Sequence[tuple[RunDirectory, RunVerdict]]) -> str:
    """How many runs of a side went as documented, with Wilson's 95 % interval where there are several."""
    runs = _runs_of(name, sides)
    fitting = sum(tone_of(run.headline) is Verdict.VALID for run in runs)
    shown = "shows the anomaly" if name == "bad" else "does not" if _runs_of("bad", sides) else "is as documented"
    if len(runs) == 1:
        return f"the {name} side {shown if fitting else 'is not as documented'}"
    low, high = wilson_interval(fitting, len(runs))
    return f"the {name} side {shown} in {fitting} of {len(runs)} runs (95 % interval {low:.0%} to {high:.0%})"


def _of_side(side: RunDirectory, judged: RunVerdict) -> list[ExpectationResult]:
    return [replace(each, text=f"{side.name}: {each.text}") for each in judged.expectations]
