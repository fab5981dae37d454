"""Judges many runs at once: they go through Spark together, whatever their checks.

    for run, verdict in verdicts(prepared_runs, spark): ...     # in the order in which they are judged
    for directory, verdict in directory_verdicts(directories, spark, report, is_written=True): ...

Building a check's queries takes seconds, and the rows of a run of 2,000 operations a few milliseconds. So runs wait
until they have BATCH_ROWS rows, or until no more come. A run with more rows than that is judged alone.

Contains which runs go together, and the verdicts on reproductions that follow. The checks are in
checkers/run_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness import plugins
from harness.judging.prepared import PreparedRun, prepare
from harness.judging.runs import judge_reproduction, keep_verdict, verdict_from, verdict_on_reproduction
from harness.model import SplitbrainError
from harness.model.systems import Report
from harness.planning.plan import Plan
from harness.recovery.heal import heal_before_judging
from results.run_verdict import RunVerdict
from results.store import RunDirectory

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession

BATCH_ROWS: Final = 3_000_000
"""How many rows of all tables go through Spark at once."""

Judged = tuple[PreparedRun, RunVerdict | SplitbrainError | OSError]
"""A run with its verdict, or why it has none."""


def verdicts(runs: Iterable[PreparedRun], spark: SparkSession) -> Iterator[Judged]:
    """The verdict on each run, as soon as its batch is judged."""
    batch: list[PreparedRun] = []
    rows = 0
    for run in runs:
        if batch and rows + run.chunks.rows > BATCH_ROWS:
            yield from judged(batch, spark)
            batch, rows = [], 0
        batch.append(run)
        rows += run.chunks.rows
    if batch:
        yield from judged(batch, spark)


def judged(batch: Sequence[PreparedRun], spark: SparkSession) -> list[Judged]:
    """The verdicts on runs; those that Spark cannot read are found half by half."""
    from checkers.run_checks import judge_runs

    try:
        results = judge_runs([each.to_judge for each in batch], spark)
        return [(run, verdict_from(run, found)) for run, found in zip(batch, results, strict=True)]
    except (SplitbrainError, OSError) as error:
        if len(batch) == 1:
            return [(batch[0], error)]
    middle = len(batch) // 2
    return [*judged(batch[:middle], spark), *judged(batch[middle:], spark)]


@dataclass(slots=True)
class _Judging:
    """A run, or a reproduction with its runs, and the verdicts on them so far."""

    directory: RunDirectory
    runs: Sequence[PreparedRun]
    verdicts: dict[str, RunVerdict] = field(default_factory=dict)
    problem: SplitbrainError | OSError | None = None

    def take(self, run: PreparedRun, verdict: RunVerdict | SplitbrainError | OSError) -> None:
        """One of its runs was judged."""
        if isinstance(verdict, RunVerdict):
            self.verdicts[run.run.name] = verdict
        else:
            self.problem = self.problem or verdict

    def verdict(self, is_written: bool) -> RunVerdict | SplitbrainError | OSError:
        """The verdict that follows, or why there is none."""
        if self.problem is not None:
            return self.problem
        try:
            return _verdict_on(self.directory, self.verdicts, is_written)
        except (SplitbrainError, OSError) as error:
            return error


def directory_verdicts(
    directories: Iterable[RunDirectory], spark: SparkSession, report: Report, is_written: bool
) -> Iterator[tuple[RunDirectory, RunVerdict | SplitbrainError | OSError]]:
    """The verdict on each run or reproduction, or why it has none, as soon as the batches of its runs are judged.

    is_written: the verdicts, reports and JUnit files are written into the directories.
    """
    pending: dict[Path, _Judging] = {}
    refused: list[tuple[RunDirectory, SplitbrainError | OSError]] = []

    def prepared_runs() -> Iterator[PreparedRun]:
        for directory in directories:
            try:
                for line in heal_before_judging(directory):
                    report(line)
                judging = _Judging(directory, [prepare(run) for run in directory.own_runs()])
            except (SplitbrainError, OSError) as error:
                refused.append((directory, error))
                continue
            pending.update({run.run.path: judging for run in judging.runs})
            yield from judging.runs

    for prepared, verdict in verdicts(prepared_runs(), spark):
        yield from refused
        refused.clear()
        judging = pending.pop(prepared.run.path)
        judging.take(prepared, verdict)
        if not any(run.run.path in pending for run in judging.runs):
            yield judging.directory, judging.verdict(is_written)
    yield from refused


def _verdict_on(directory: RunDirectory, verdicts: Mapping[str, RunVerdict], is_written: bool) -> RunVerdict:
    """The verdict on a run or a reproduction by those on its runs, by name; is_written: the results of all are kept."""
    runs = directory.own_runs()
    if is_written:
        for run in runs:
            keep_verdict(run, verdicts[run.name])
    if directory.kind == "run":
        return verdicts[directory.name]
    first = Plan.read(runs[0].plan)
    judge = judge_reproduction if is_written else verdict_on_reproduction
    return judge(directory, plugins.scenario(first.scenario or ""), first.command, verdicts)
