"""Judges all runs of a store again and says what changed: how a changed rule is tried on the runs of a year.

    for judged in judge_store(store, is_written=False, master=None, report=print):
        if judged.is_changed: ...

Contains the comparison of verdicts before and now. Judging many runs is in harness.judging.batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.judging.index import RunRow, index, plan_of, with_verdict
from harness.judging.spark import start_spark
from harness.model import SplitbrainError
from harness.model.errors import one_line
from harness.model.systems import Report
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


def judge_store(store: Path, is_written: bool, master: str | None, report: Report) -> Iterator[JudgedAgain]:
    """Judge the runs and reproductions of the store in one Spark session, many at once.

    is_written: the verdicts, reports and JUnit files of runs are replaced; otherwise they stay. A run that is not
    recorded, or that cannot be read, has a problem instead of a verdict.
    """
    histories = store.glob("**/history/*.parquet")
    starting = start_spark(master, sum(table.stat().st_size for table in histories))
    report("reading the table of the store's runs while Spark starts")
    rows = [row for row in index(store) if row.part_of is None]
    spark = starting.result()
    from harness.judging.batches import directory_verdicts  # imported meanwhile, while Java started

    row_of = {store.absolute() / row.run: row for row in rows}
    judged = directory_verdicts(map(RunDirectory, row_of), spark, report, is_written)
    for done, (directory, verdict) in enumerate(judged, 1):
        report(f"judged {done} of {len(rows)} runs: {directory.name}")
        yield _judged_again(row_of[directory.path], directory, verdict)


def _judged_again(row: RunRow, directory: RunDirectory, verdict: RunVerdict | SplitbrainError | OSError) -> JudgedAgain:
    """The row that a run or reproduction has by this verdict."""
    try:
        if not isinstance(verdict, RunVerdict):
            raise verdict
        return JudgedAgain(row, with_verdict(row, plan_of(directory), verdict))
    except (SplitbrainError, OSError) as error:
        return JudgedAgain(row, None, one_line(str(error)))
