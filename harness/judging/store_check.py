"""Judges all runs of a store again and says what changed: how a changed rule is tried on the runs of a year.

    for judged in judge_store(store, is_written=False, master=None, report=print):
        if judged.is_changed: ...

Contains the comparison of verdicts before and now. Judging many runs is in harness.judging.batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.judging.index import RunRow, index, plan_of, with_verdict
from harness.judging.prepared import PreparedRun, prepare
from harness.judging.spark import start_spark
from harness.judging.stored import runs_in, verdict_on
from harness.model import SplitbrainError
from harness.model.errors import one_line
from harness.model.systems import Report
from harness.recovery.heal import heal_before_judging
from results.run_verdict import RunVerdict
from results.store import RunDirectory


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """A run or reproduction: its row before, and the row that it has now; None, with the problem, if it has none."""

    before: RunRow
    now: RunRow | None
    problem: str = ""

    @property
    def run(self) -> str:
        """The run's name."""
        return self.before.run

    @property
    def gained(self) -> list[str]:
        """The names of the problems that it has now and did not have before."""
        return [] if self.now is None else _missing(self.now, self.before)

    @property
    def lost(self) -> list[str]:
        """The names of the problems that it had before and does not have now."""
        return [] if self.now is None else _missing(self.before, self.now)

    @property
    def is_changed(self) -> bool:
        """Whether its verdict, its outcome or the names of its problems differ."""
        if self.now is None:
            return False
        is_same = (self.before.verdict, self.before.outcome) == (self.now.verdict, self.now.outcome)
        return not is_same or bool(self.gained or self.lost)


def _missing(these: RunRow, those: RunRow) -> list[str]:
    """The names of the problems of these that those lack."""
    names = {problem.name for problem in those.problems}
    return list(dict.fromkeys(problem.name for problem in these.problems if problem.name not in names))


@dataclass(slots=True)
class _Case:
    """A row of the store with the runs that it is judged by, one or those of a reproduction, and their verdicts."""

    row: RunRow
    directory: RunDirectory
    runs: Sequence[PreparedRun]
    verdicts: dict[str, RunVerdict] = field(default_factory=dict)
    problem: str = ""

    def take(self, run: PreparedRun, verdict: RunVerdict | Exception) -> None:
        """One of its runs was judged."""
        if isinstance(verdict, Exception):
            self.problem = self.problem or one_line(str(verdict))
        else:
            self.verdicts[run.run.name] = verdict


def judge_store(store: Path, is_written: bool, master: str | None, report: Report) -> Iterator[JudgedAgain]:
    """Judge the runs and reproductions of the store in one Spark session, many at once, those of a kind together.

    is_written: the verdicts, reports and JUnit files of runs are replaced; otherwise they stay. A run that is not
    recorded, or that cannot be read, has a problem instead of a verdict.
    """
    histories = store.glob("**/history/*.parquet")
    starting = start_spark(master, sum(table.stat().st_size for table in histories))
    report("reading the table of the store's runs while Spark starts")
    rows = [row for row in index(store) if row.part_of is None]
    spark = starting.result()
    from harness.judging.batches import verdicts  # imported meanwhile, while Java started

    cases: dict[Path, _Case] = {}
    refused: list[JudgedAgain] = []
    done = 0

    def prepared_runs() -> Iterator[PreparedRun]:
        for row in rows:
            try:
                case = _case_of(row, RunDirectory(store.absolute() / row.run), report)
            except (SplitbrainError, OSError) as error:
                refused.append(JudgedAgain(row, None, one_line(str(error))))
                continue
            cases.update({each.run.path: case for each in case.runs})
            yield from case.runs

    for prepared, verdict in verdicts(prepared_runs(), spark):
        yield from refused
        done += len(refused)
        refused.clear()
        case = cases.pop(prepared.run.path)
        case.take(prepared, verdict)
        if not any(each.run.path in cases for each in case.runs):
            done += 1
            report(f"judged {done} of {len(rows)} runs: {case.row.run}")
            yield _judged_again(case, is_written)
    yield from refused


def _case_of(row: RunRow, directory: RunDirectory, report: Report) -> _Case:
    """The runs of a row, ready to be judged. Raises BadInput where one of them cannot be read."""
    for line in heal_before_judging(directory):
        report(line)
    return _Case(row, directory, [prepare(run) for run in runs_in(directory)])


def _judged_again(case: _Case, is_written: bool) -> JudgedAgain:
    """The row that a run or reproduction has by the verdicts on its runs."""
    if case.problem:
        return JudgedAgain(case.row, None, case.problem)
    try:
        verdict = verdict_on(case.directory, case.verdicts, is_written)
        return JudgedAgain(case.row, with_verdict(case.row, plan_of(case.directory), verdict))
    except (SplitbrainError, OSError) as error:
        return JudgedAgain(case.row, None, one_line(str(error)))
