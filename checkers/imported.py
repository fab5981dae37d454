"""Checks imported histories, many at once: their keys become keys of one history on Spark.

    results = judge_files(spark, [Source((Path("histories.parquet"),))], 102, "cas-register", JudgeSettings())
    results[7].findings

Contains the results of many files. Reading files is harness.histories, checking a key checkers.linearizability.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType

from checkers.framework.contract import JudgeSettings
from checkers.framework.progress import shown
from checkers.framework.tables import configure_for, table
from checkers.linearizability.by_key import outcomes
from checkers.linearizability.models import model_named
from checkers.run_checks import FINDINGS_MAX, bounded, error_line, listed
from harness.chunks import rows_in
from harness.model import Finding
from harness.model.records.tables import HISTORY

CHECK = "linearizability"


@dataclass(frozen=True, slots=True)
class Source:
    """A history's Parquet files and its number; with None each row has its history's number in `file`."""

    tables: tuple[Path, ...]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class FileResults:
    """The results for one file: the algorithms, how much they checked, how long they took, and the findings."""

    algorithms: tuple[str, ...] = ()
    operations: int = 0
    keys: int = 0
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()


def judge_files(
    spark: SparkSession, sources: Sequence[Source], files: int, model_name: str, settings: JudgeSettings
) -> list[FileResults]:
    """Each file's results, by its number from 0; empty for a file without operations of the model.

    Raises BadInput for an unknown model.
    """
    model = model_named(model_name)
    history = reduce(DataFrame.unionByName, [opened(spark, source) for source in sources])
    configure_for(spark, sum(rows_in(list(source.tables)) for source in sources))
    rows = outcomes(history, model, CHECK, settings).cache()
    try:
        with shown(spark.sparkContext.statusTracker(), "judging histories"):
            found = collected(rows)
        return [found.get(number, FileResults()) for number in range(files)]
    except Exception as crash:  # noqa: BLE001 - a crash is a finding of every file
        message = f"check {CHECK} crashed: {error_line(crash)}"
        return [FileResults(findings=(Finding(CHECK, "check-crashed", "unknown", message),))] * files
    finally:
        rows.unpersist()


def opened(spark: SparkSession, source: Source) -> DataFrame:
    """The rows of a source, with `file`."""
    filed = pa.schema([("file", pa.int32()), *HISTORY]) if source.number is None else HISTORY
    rows = table(spark, list(source.tables), filed)
    number = rows["file"] if source.number is None else fn.lit(source.number).cast(IntegerType())
    return rows.select(number.alias("file"), *HISTORY.names)


def collected(rows: DataFrame) -> Mapping[int, FileResults]:
    """Tallies and the first findings of each name, file by file."""
    is_tally = rows["name"].isNull()
    tallies = (
        rows.where(is_tally)
        .groupBy("file", "algorithm")
        .agg(*(fn.sum(column).alias(column) for column in ("keys", "operations", "seconds")))
    )
    found: dict[int, list[Row]] = defaultdict(list)
    for row in bounded(rows.where(~is_tally), FINDINGS_MAX, "file").collect():
        found[row["file"]].append(row)
    tallied: dict[int, list[Row]] = defaultdict(list)
    for row in tallies.collect():
        tallied[row["file"]].append(row)
    return {file: results_of(tallied[file], found[file]) for file in tallied}


def results_of(tallies: Iterable[Row], findings: Iterable[Row]) -> FileResults:
    """One file's results from its rows."""
    ordered = sorted(tallies, key=lambda row: row["algorithm"])
    return FileResults(
        tuple(row["algorithm"] for row in ordered),
        sum(row["operations"] for row in ordered),
        sum(row["keys"] for row in ordered),
        sum(row["seconds"] for row in ordered),
        tuple(listed(findings, FINDINGS_MAX)),
    )
