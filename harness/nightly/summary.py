"""The summary of a night, from its ledger and the table of its store; written beside the ledger in every form.

Contains the making of the values. results.night_summary renders them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harness.exploration.coverage import Coverage, lines_of
from harness.exploration.reached import coverage_of
from harness.judging.index import RunRow, index
from harness.model import BadInput, SplitbrainError
from harness.nightly.directory import JobState, NightDirectory
from harness.nightly.plan import EXPLORE, Job
from nemesis.moves import MOVES
from results.files import read_json, write_json, write_text
from results.night_summary import JobSummary, NightSummary, junit, markdown, page, text
from results.store import RunDirectory

JOBS_FILE: Final = "jobs.json"
OutcomeOf = Callable[[RunRow], str | None]
"""The outcome of a run, e.g. `known` where each of its problems is."""


def write_jobs(night: NightDirectory, jobs: Sequence[Job]) -> None:
    """Record all jobs of a night, so that its summary has those that did not run."""
    rows = [
        {"id": job.id, "case": job.cell.what, "system": job.cell.system, "variant": job.cell.variant, "seed": job.seed}
        for job in jobs
    ]
    write_json(night.path / JOBS_FILE, rows)


def summary_of(
    night: NightDirectory, store: Path, command: str = "", outcome_of: OutcomeOf = lambda row: row.outcome
) -> NightSummary:
    """The summary of a night as far as it has come. Raises BadInput for a damaged file of the night."""
    events = list(night.events())
    states = night.jobs()
    rows = {row.run: row for row in index(store) if row.night == night.name}
    jobs_file = night.path / JOBS_FILE
    jobs: Sequence[Mapping[str, Any]] = read_json(jobs_file) if jobs_file.exists() else []
    began, ended = night.began(), datetime.fromisoformat(events[-1]["time"]) if events else night.began()
    finished = [event for event in events if event["event"] == "finished"]
    return NightSummary(
        name=night.name,
        began=began.isoformat(timespec="seconds"),
        ended=ended.isoformat(timespec="seconds"),
        seconds=(ended - began).total_seconds(),
        is_finished=bool(finished),
        stopped_by=finished[-1].get("stopped_by", "") if finished else "",
        jobs=tuple(_job(job, states.get(job["id"]), rows, night, store, outcome_of) for job in jobs),
        interrupted=sum(len(state.runs) - (state.outcome is not None) for state in states.values() if state.runs),
        coverage=tuple(_coverage(store, states, jobs)),
        command=command,
    )


def write_summary(night: NightDirectory, summary: NightSummary) -> None:
    """Write the summary into the night's directory: summary.txt, .md, .json, .html and junit.xml."""
    write_text(night.path / "summary.txt", text(summary) + "\n")
    write_text(night.path / "summary.md", markdown(summary))
    write_text(night.path / "summary.html", page(summary))
    write_text(night.path / "junit.xml", junit(summary))
    write_json(night.path / "summary.json", summary.to_json())


def stored_summary(night: NightDirectory) -> dict[str, Any]:
    """The night's summary.json; empty if it has none, or one that is damaged."""
    with suppress(BadInput):
        document = read_json(night.path / "summary.json")
        return document if isinstance(document, dict) else {}
    return {}


def _job(
    job: Mapping[str, Any],
    state: JobState | None,
    rows: Mapping[str, RunRow],
    night: NightDirectory,
    store: Path,
    outcome_of: OutcomeOf,
) -> JobSummary:
    known = JobSummary(job["case"], job["system"], job["variant"], job["seed"], None)
    if state is None:
        return known
    known = replace(known, attempts=len(state.runs), outcome=state.outcome, message=state.error)
    run = state.runs[-1] if state.runs else ""
    row = rows.get(run)
    if row is None:  # it could not begin, or its directory was removed since
        return known
    parts = [each for each in rows.values() if each.part_of == run] or [row]
    troubled = [part for part in parts if part.outcome != "passed"]
    report = RunDirectory(store.absolute() / run).report
    return replace(
        known,
        outcome=_outcome(state, troubled, outcome_of),
        problems=tuple(dict.fromkeys(problem.name for part in troubled for problem in part.problems)),
        message=_message(state, troubled),
        run=run,
        report=os.path.relpath(report, night.path) if report.exists() else "",
        command=row.command,
        seconds=sum(part.seconds or 0.0 for part in parts),
    )


def _outcome(state: JobState, troubled: Sequence[RunRow], outcome_of: OutcomeOf) -> str | None:
    """What the ledger says; `known` if it failed only by runs whose problems are known."""
    if state.outcome == "failed" and troubled and {outcome_of(part) for part in troubled} == {"known"}:
        return "known"
    return state.outcome


def _message(state: JobState, troubled: Sequence[RunRow]) -> str:
    """The first problem in words; without one, what the ledger says."""
    messages = [problem.message for part in troubled for problem in part.problems]
    return messages[0] if messages and state.outcome != "passed" else state.error


def _coverage(store: Path, states: Mapping[str, JobState], jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the explored runs of the night reached together; nothing if it explored nothing."""
    explored = [states[job["id"]] for job in jobs if job["case"] == EXPLORE and job["id"] in states]
    reached = sum((_of_run(store / state.runs[-1]) for state in explored if state.outcome and state.runs), Coverage())
    return list(lines_of(reached, MOVES)) if reached.runs else []


def _of_run(path: Path) -> Coverage:
    try:
        return coverage_of(RunDirectory(path))
    except (SplitbrainError, OSError):
        return Coverage()
