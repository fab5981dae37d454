"""Compares what a user names, on Spark, and writes the comparison's files.

    comparison = compare_words("previous", "latest", store, known, master, report)

Contains the steps. Statistics, names and pages are in the modules beside it and in results.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.comparing.compare import PRIMARY, compared
from harness.comparing.selection import selected
from harness.judging.index import INDEX_FILE, PRUNED_FILE, RunRow, index, row_from_columns
from harness.judging.known import Known
from harness.judging.spark import start_spark
from harness.model import SplitbrainError
from harness.model.systems import Report
from results.comparison import CaseChange, Comparison
from results.comparison_report import page
from results.data import SideData
from results.run_verdict import read_verdict
from results.store import RunDirectory

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession

SHOWN_NAMES = ("before", "now")


def compare_words(base: str, head: str, store: Path, known: Known, master: str | None, report: Report) -> Comparison:
    """The comparison of two sets of runs that a user names. Raises BadInput for a name of nothing."""
    starting = start_spark(master, meanwhile=("checkers.store.samples", "scipy.stats"))
    report("reading the table of the store's runs")
    rows = index(store, with_pruned=True)
    sets = {"base": _names(selected(base, rows, store)), "head": _names(selected(head, rows, store))}
    report("comparing")
    groups = _grouped(starting.result(), store, sets)
    return compared(groups["base"], groups["head"], known, base, head)


def _names(rows: list[RunRow]) -> list[str]:
    return [row.run for row in rows]


def _grouped(
    spark: SparkSession, store: Path, sets: dict[str, list[str]]
) -> dict[str, dict[tuple[str, str], list[RunRow]]]:
    from checkers.store.samples import samples  # imported meanwhile, while Java started

    groups: dict[str, dict[tuple[str, str], list[RunRow]]] = {"base": {}, "head": {}}
    files = [file for file in (store / INDEX_FILE, store / PRUNED_FILE) if file.exists()]
    for group in samples(spark, files, sets, PRIMARY):
        groups[group["set"]][group["case"], group["family"]] = [row_from_columns(each) for each in group["runs"]]
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
