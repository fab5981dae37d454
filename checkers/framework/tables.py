"""Opens the Parquet chunks of runs as Spark tables, after harness.chunks has checked them.

    tables = open_tables(spark, run_directory)
    tables["history"]
    tables = open_tables(spark, one, another)   # the rows of both, told apart by `run`: 0 and 1

A run directory holds a folder of chunks for each table, history/*.parquet and so on. Only the history is required; a
table without chunks is empty. A chunk that is truncated, of another shape, or missing from the middle of the history
raises BadInput in one line that names it, instead of a Spark trace.

Contains the way from files to tables, and the session's settings for their size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.by_run import RUN
from checkers.framework.contract import TableName, Tables
from checkers.framework.session import SHUFFLE_PARTITIONS
from harness.chunks import check_indexes, chunk_files, read_files, rows_in
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from harness.model.stored_names import NEMESIS_OPS

SMALL_ROWS = 200_000
BROADCAST_MAX = "10m"
"""Spark's own."""

SCHEMAS: Final[Mapping[TableName, pa.Schema]] = {
    "history": HISTORY,
    "observations": OBSERVATIONS,
    "batches": BATCHES,
    "records": RECORDS,
    "rpcs": RPCS,
}

RUN_PARTITIONS = 4
"""Over how many partitions the runs are divided that are judged together."""

PARTITION_ROWS = 2_500_000
"""How many rows a partition of a large table holds: a Python worker has one in memory at a time."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The files of one run's tables, checked."""

    of: Mapping[TableName, Sequence[Path]]
    rows_of: Mapping[TableName, int]

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(self.rows_of.values())


def chunks_of(run_directory: Path) -> Chunks:
    """The files of a run's tables. Raises BadInput as the module's docstring says."""
    found = {name: chunk_files(run_directory / name, schema) for name, schema in SCHEMAS.items()}
    if not found["history"]:
        raise BadInput(f"{run_directory / 'history'}: expected the history's Parquet chunks, found none")
    check_indexes(found["history"])
    return Chunks(found, {name: rows_in(files) for name, files in found.items()})


def open_tables(spark: SparkSession, *run_directories: Path) -> Tables:
    """The tables of these runs by name, each row with its `run`, a number in this order, and its `position`.

    Raises BadInput as the module's docstring says.
    """
    return open_chunks(spark, [chunks_of(each) for each in run_directories])


def open_chunks(spark: SparkSession, runs: Sequence[Chunks]) -> Tables:
    """The tables of these runs, as open_tables has them."""
    large: tuple[TableName, ...] = ("history", "batches", "records")
    configure_for(spark, max(sum(run.rows_of[name] for run in runs) for name in large), len(runs))
    if len(runs) == 1:
        opened = {name: table(spark, runs[0].of[name], schema) for name, schema in SCHEMAS.items()}
    else:
        opened = {
            name: table_of_runs(spark, [run.of[name] for run in runs], schema) for name, schema in SCHEMAS.items()
        }
    return {**opened, "history": with_current_names(opened["history"])}


def with_current_names(history: DataFrame) -> DataFrame:
    """The history with the current names of nemesis operations; earlier releases stored other names."""
    names = fn.create_map(*(fn.lit(word) for pair in NEMESIS_OPS.items() for word in pair))
    current = fn.when(fn.col("process") == NEMESIS, names[fn.col("f")])
    return history.withColumn("f", fn.coalesce(current, fn.col("f")))


def table(spark: SparkSession, files: Sequence[Path], schema: pa.Schema) -> DataFrame:
    """The chunks of one run as one table, with each row's run and position: its chunk's name, then its row there."""
    columns = from_arrow_schema(schema)
    if not files:
        empty = spark.createDataFrame([], columns)
        return empty.withColumns({RUN: fn.lit(0), "position": fn.lit(0)})
    # With a given schema Spark starts no job to infer it.
    table = spark.read.schema(columns).parquet(*map(str, files))
    position = fn.struct("_metadata.file_name", "_metadata.row_index").alias("position")
    rows = table.select("*", fn.lit(0).alias(RUN), position)
    # One partition satisfies every grouping and order, so a small run needs no shuffle; and it is read once. Spark
    # frees the checkpoint with the table. A cached table would have Java code generated for each of its readers. A lazy
    # checkpoint can stop Spark forever: the jobs of two checks that read the table first wait for each other's locks.
    return rows.coalesce(1).localCheckpoint() if is_small(files) else rows


def table_of_runs(spark: SparkSession, files: Sequence[Sequence[Path]], schema: pa.Schema) -> DataFrame:
    """The chunks of each of many small runs as one table, with each row's run and position.

    Spark takes longer to open a small file than to read it, so the files are read here. Raises BadInput for one that is
    damaged behind its footer.
    """
    numbered = pa.schema([*schema, (RUN, pa.int32()), ("position", pa.int64())])
    tables = [_numbered(run, read_files(of_run, schema), numbered) for run, of_run in enumerate(files) if of_run]
    if not any(len(each) for each in tables):
        return spark.createDataFrame([], from_arrow_schema(numbered))
    # Spark ends at the first chunk without rows, so there is one chunk.
    whole = spark.createDataFrame(pa.concat_tables(tables).combine_chunks())
    # Partitioned by run, a table needs no further shuffle where a check groups, orders or joins the rows of each run.
    return whole.repartition(RUN).localCheckpoint()


def _numbered(run: int, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the run's number and their positions."""
    runs = pa.array(np.full(len(rows), run, np.int32))
    return pa.table([*rows.columns, runs, pa.array(np.arange(len(rows)))], schema=schema)


def is_small(files: Sequence[Path]) -> bool:
    """Whether a query over these chunks takes longer to start than to run."""
    return rows_in(files) <= SMALL_ROWS


def configure_for(spark: SparkSession, rows: int, runs: int = 1) -> None:
    """Configure the session for tables of so many rows of so many runs: partitions, and the effort of planning a query.

    Compiling queries to Java code takes a tenth of the time of many rows and most of that of few. Inferring
    constraints, and broadcasting the smaller side of a join, which is a job of its own, pay in a large run alone:
    tables of many runs are partitioned by run, so that a join needs no shuffle.
    """
    has_many_rows = rows > SMALL_ROWS
    is_large = has_many_rows and runs == 1
    spark.conf.set("spark.sql.constraintPropagation.enabled", str(is_large).lower())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", BROADCAST_MAX if is_large else "-1")
    spark.conf.set("spark.sql.codegen.wholeStage", str(has_many_rows).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if has_many_rows else "NO_CODEGEN")
    # Without Java code, common subexpressions are looked up in a cache that is emptied for each row.
    spark.conf.set("spark.sql.subexpressionElimination.enabled", str(has_many_rows).lower())
    # A table that is partitioned by run needs no shuffle to be joined by run and more.
    spark.conf.set("spark.sql.requireAllClusterKeysForCoPartition", str(runs == 1).lower())
    # Each partition beyond the first starts a Python worker.
    partitions = max(SHUFFLE_PARTITIONS, rows // PARTITION_ROWS) if is_large else 1 if runs == 1 else RUN_PARTITIONS
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def is_for_large_run(spark: SparkSession) -> bool:
    """Whether configure_for was last called with a large run, whose checks need memory for their rows."""
    return spark.conf.get("spark.sql.constraintPropagation.enabled") == "true"
