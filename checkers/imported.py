"""Checks imported histories, many at once: their keys become keys of one history on Spark.

    results = judge_files(spark, [Source((Path("histories.parquet"),))], range(102), "cas-register", JudgeSettings())
    results[7].findings

Contains the results of many files. Reading files is harness.histories, checking a key checkers.linearizability.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType

from checkers.framework.by_run import RUN
from checkers.framework.contract import JudgeSettings
from checkers.framework.progress import shown
from checkers.framework.tables import configure_for
from checkers.linearizability.by_key import outcomes
from checkers.linearizability.models import model_named
from checkers.linearizability.signatures import CHECK
from checkers.run_checks import FINDINGS_MAX, bounded, error_line, listed
from harness.chunks import rows_in
from harness.model import Finding
from harness.model.records.tables import HISTORY


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
    spark: SparkSession, sources: Sequence[Source], files: Sequence[int], model_name: str, settings: JudgeSettings
) -> Mapping[int, FileResults]:
    """The results of the files of these numbers; empty for a file without operations of the model.

    Raises BadInput for an unknown model.
    """
    model = model_named(model_name)
    history = reduce(DataFrame.unionByName, [opened(spark, source, files) for source in sources])
    configure_for(spark, sum(rows_in(list(source.tables)) for source in sources))
    rows = outcomes(history, model, CHECK, replace(settings, runs=tuple(files)))
    try:
        with shown(spark.sparkContext.statusTracker(), "judging histories"):
            found = collected(rows)
        return {number: found.get(number, FileResults()) for number in files}
    except Exception as crash:  # noqa: BLE001 - a crash is a finding of every file
        message = f"check {CHECK} crashed: {error_line(crash)}"
        return dict.fromkeys(files, FileResults(findings=(Finding(CHECK, "check-crashed", "unknown", message),)))


def opened(spark: SparkSession, source: Source, files: Sequence[int]) -> DataFrame:
    """The rows of a source that belong to these files; a file is a run, and its number is in `run`."""
    schema = pa.schema([("file", pa.int32()), *HISTORY]) if source.number is None else HISTORY
    # Read once: a checkpoint, as framework/tables.py makes for small runs, would only cost time.
    rows = spark.read.schema(from_arrow_schema(schema)).parquet(*map(str, source.tables))
    number = rows["file"] if source.number is None else fn.lit(source.number).cast(IntegerType())
    filed = rows.select(number.alias(RUN), *HISTORY.names)
    return filed.where(fn.col(RUN).isin(*files))


def collected(rows: DataFrame) -> Mapping[int, FileResults]:
    """Tallies and the first findings of each name, file by file, in one job."""
    found: dict[int, list[Row]] = defaultdict(list)
    tallied: dict[int, list[Row]] = defaultdict(list)
    for row in bounded(rows, FINDINGS_MAX).collect():
        (tallied if row["name"] is None else found)[row[RUN]].append(row)
    return {file: results_of(tallied[file], found[file]) for file in tallied}


def results_of(tallies: Sequence[Row], findings: Iterable[Row]) -> FileResults:
    """One file's results from its rows."""
    return FileResults(
        tuple(sorted({row["algorithm"] for row in tallies})),
        sum(row["operations"] for row in tallies),
        sum(row["keys"] for row in tallies),
        sum(row["seconds"] for row in tallies),
        tuple(listed(findings, FINDINGS_MAX)),
    )
