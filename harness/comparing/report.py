"""Compares what a user names, on Spark, and writes the comparison's files.

    comparison = compare_words("previous", "latest", store, known, start_spark(), report)

Contains the steps. Statistics, names and pages are in the modules beside it and in results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.comparing.selection import SELECTION_COLUMNS, selected
from harness.judging.index import INDEX_FILE, PRUNED_FILE, RunRow, index, row_from_columns
from harness.judging.known import Known
from harness.judging.spark import StartingSpark
from harness.model import SplitbrainError
from harness.model.systems import Report
from results.comparison import CaseChange, Comparison
from results.comparison_report import page
from results.data import SideData
from results.run_verdict import read_verdict
from results.store import RunDirectory

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession
    from harness.comparing.compare import Samples

SHOWN_NAMES: Final = ("before", "now")


def compare_words(
    base: str, head: str, store: Path, known: Known, starting: StartingSpark, report: Report
) -> Comparison:
    """The comparison of two sets of runs that a user names. Raises BadInput for a name of nothing."""
    report("reading the table of the store's runs")
    rows = index(store, with_pruned=True, columns=SELECTION_COLUMNS)
    sets = {"base": _names(selected(base, rows, store)), "head": _names(selected(head, rows, store))}
    report("comparing")
    with ThreadPoolExecutor(1) as beside:
        statistics = beside.submit(_statistics)
        groups = _grouped(starting.result(), store, sets)
    compared = statistics.result()
    return compared(groups["base"], groups["head"], known, base, head)


def _statistics() -> Callable[[Samples, Samples, Known, str, str], Comparison]:
    """What compares samples. Its import takes a second, for SciPy."""
    from harness.comparing.compare import compared

    return compared


def _names(rows: list[RunRow]) -> list[str]:
    return [row.run for row in rows]


def _grouped(spark: SparkSession, store: Path, sets: dict[str, list[str]]) -> Mapping[str, Samples]:
    """The samples of each set."""
    from checkers.store.samples import samples

    groups: dict[str, dict[tuple[str, str], list[RunRow]]] = {"base": {}, "head": {}}
    files = [file for file in (store / INDEX_FILE, store / PRUNED_FILE) if file.exists()]
    for columns in samples(spark, files, sets):
        group, row = groups[columns.pop("set")], row_from_columns(columns)
        group.setdefault((row.case, row.family), []).append(row)
    return groups


def comparison_page(comparison: Comparison, store: Path) -> str:
    """The comparison as HTML, with a run before and one now of the most important case, if their tables are left."""
    for case in comparison.cases:
        sides = _sides(case, store)
        if sides:
            return page(comparison, case, sides)
    return page(comparison, None, ())


def _sides(case: CaseChange, store: Path) -> list[SideData]:
    """The example runs of a case as sides of a picture; empty unless both are in the store."""
    from harness.judging.runs import side_of

    sides = []
    with suppress(SplitbrainError, OSError):
        for name, run in zip(SHOWN_NAMES, (case.base_run, case.head_run), strict=True):
            directory = RunDirectory(store / (run or ""))
            sides.append(side_of(directory, read_verdict(directory.verdict), name))
    return sides if len(sides) == len(SHOWN_NAMES) else []
