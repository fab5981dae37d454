"""Judges many runs at once: runs with the same checks and settings go through Spark together.

    for run, verdict in verdicts(prepared_runs, spark): ...     # in the order in which they are judged

Building a check's queries takes seconds, and the rows of a run of 2,000 operations a few milliseconds. So runs wait
until those with the same checks and settings have BATCH_ROWS rows, or until no more come. A run with more rows than
that is judged alone.

Contains which runs go together. The checks are in checkers/run_checks.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from harness.judging.prepared import PreparedRun
from harness.judging.runs import verdict_from
from harness.model import SplitbrainError
from results.run_verdict import RunVerdict

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession

BATCH_ROWS: Final = 3_000_000
"""How many rows of all tables go through Spark at once."""

Judged = tuple[PreparedRun, RunVerdict | SplitbrainError | OSError]
"""A run with its verdict, or why it has none."""


def verdicts(runs: Iterable[PreparedRun], spark: SparkSession) -> Iterator[Judged]:
    """The verdict on each run, as soon as its batch is judged."""
    waiting: dict[Hashable, list[PreparedRun]] = defaultdict(list)
    for run in runs:
        batch = waiting[run.kind]
        if sum(each.chunks.rows for each in batch) + run.chunks.rows > BATCH_ROWS and batch:
            yield from judged(waiting.pop(run.kind), spark)
        waiting[run.kind].append(run)
    for batch in waiting.values():
        yield from judged(batch, spark)


def judged(batch: Sequence[PreparedRun], spark: SparkSession) -> list[Judged]:
    """The verdicts on runs of one kind; those that Spark cannot read are found half by half."""
    from checkers.run_checks import judge_runs

    first = batch[0]
    try:
        measures = [each.measures for each in batch]
        results = judge_runs([each.chunks for each in batch], first.checks, first.settings, spark, measures)
        return [(run, verdict_from(run, found)) for run, found in zip(batch, results, strict=True)]
    except (SplitbrainError, OSError) as error:
        if len(batch) == 1:
            return [(first, error)]
    middle = len(batch) // 2
    return [*judged(batch[:middle], spark), *judged(batch[middle:], spark)]
