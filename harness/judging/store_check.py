"""Judges all runs of a store again and says what changed: how a changed rule is tried on the runs of a year.

    for judged in judge_store(store, is_written=False, master=None, report=print):
        if judged.is_changed: ...

Contains the comparison of verdicts before and now. Judging a run is in harness.judging.runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.judging.index import RunRow, index, plan_of, with_verdict
from harness.judging.spark import start_spark
from harness.judging.stored import check_directory, refuse_damaged
from harness.model import SplitbrainError
from harness.model.errors import one_line
from harness.model.systems import Report
from harness.recovery.heal import heal_before_judging
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
    """Judge each run and reproduction of the store, oldest first, in one Spark session.

    is_written: the verdicts, reports and JUnit files of runs are replaced; otherwise they stay. A run that is not
    recorded, or that cannot be read, has a problem instead of a verdict.
    """
    starting = start_spark(master)
    report("reading the table of the store's runs while Spark starts")
    rows = [row for row in index(store) if row.part_of is None]
    spark = starting.result()
    for number, row in enumerate(rows, 1):
        directory = RunDirectory(store.absolute() / row.run)
        report(f"judging run {number} of {len(rows)}: {row.run}")
        try:
            for line in heal_before_judging(directory):
                report(line)
            refuse_damaged(directory)
            verdict = check_directory(directory, spark, lambda _text: None, is_written)
            yield JudgedAgain(row, with_verdict(row, plan_of(directory), verdict))
        except (SplitbrainError, OSError) as error:
            yield JudgedAgain(row, None, one_line(str(error)))
