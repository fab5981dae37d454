"""Opens a run's Parquet chunks as Spark tables, after harness.chunks has checked them.

    tables = open_tables(spark, run_directory)
    tables["history"]

A run directory holds a folder of chunks for each table, history/*.parquet and so on. Only the history is required; a
table without chunks is empty. A chunk that is truncated, of another shape, or missing from the middle of the history
raises BadInput in one line that names it, instead of a Spark trace.

Contains the way from files to tables, and the session's settings for their size.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.contract import Tables
from checkers.framework.session import SHUFFLE_PARTITIONS
from harness.chunks import check_indexes, chunk_files, rows_in
from harness.model import NEMESIS, BadInput
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS
from harness.model.stored_names import NEMESIS_OPS

SMALL_ROWS = 200_000
BROADCAST_MAX = "10m"
"""Spark's own."""

PARTITION_ROWS = 2_500_000
"""How many rows a partition of a large table holds: a Python worker has one in memory at a time."""


def open_tables(spark: SparkSession, run_directory: Path) -> Tables:
    """The run's tables by name, each with its `position`. Raises BadInput as the module's docstring says."""
    history = chunk_files(run_directory / "history", HISTORY)
    if not history:
        raise BadInput(f"{run_directory / 'history'}: expected the history's Parquet chunks, found none")
    check_indexes(history)
    observations = chunk_files(run_directory / "observations", OBSERVATIONS)
    batches = chunk_files(run_directory / "batches", BATCHES)
    records = chunk_files(run_directory / "records", RECORDS)
    rpcs = chunk_files(run_directory / "rpcs", RPCS)
    configure_for(spark, max(map(rows_in, (history, batches, records))))
    return {
        "history": with_current_names(table(spark, history, HISTORY)),
        "observations": table(spark, observations, OBSERVATIONS),
        "batches": table(spark, batches, BATCHES),
        "records": table(spark, records, RECORDS),
        "rpcs": table(spark, rpcs, RPCS),
    }


def with_current_names(history: DataFrame) -> DataFrame:
    """The history with the current names of nemesis operations; earlier releases stored other names."""
    names = fn.create_map(*(fn.lit(word) for pair in NEMESIS_OPS.items() for word in pair))
    current = fn.when(fn.col("process") == NEMESIS, names[fn.col("f")])
    return history.withColumn("f", fn.coalesce(current, fn.col("f")))


def table(spark: SparkSession, files: list[Path], schema: pa.Schema) -> DataFrame:
    """The chunks as one table, with each row's position: its chunk's name, then its row there."""
    columns = from_arrow_schema(schema)
    if not files:
        empty = spark.createDataFrame([], columns)
        return empty.withColumn("position", fn.lit(0))
    # With a given schema Spark starts no job to infer it.
    table = spark.read.schema(columns).parquet(*map(str, files))
    rows = table.select("*", fn.struct("_metadata.file_name", "_metadata.row_index").alias("position"))
    # One partition satisfies every grouping and order, so a small run needs no shuffle; and it is read once. Spark
    # frees the checkpoint with the table. A cached table would have Java code generated for each of its readers. A lazy
    # checkpoint can stop Spark for ever: the jobs of two checks that read the table first wait for each other's locks.
    return rows.coalesce(1).localCheckpoint() if is_small(files) else rows


def is_small(files: list[Path]) -> bool:
    """Whether a query over these chunks takes longer to start than to run."""
    return rows_in(files) <= SMALL_ROWS


def configure_for(spark: SparkSession, rows: int) -> None:
    """Configure the session for tables of so many rows: partitions, and the effort of planning a query.

    Compiling queries to Java code takes a tenth of a large run's time and most of a small one's. Inferring constraints,
    and broadcasting the smaller side of a join, which is a job of its own, do not pay in a small run either.
    """
    is_large = rows > SMALL_ROWS
    spark.conf.set("spark.sql.constraintPropagation.enabled", str(is_large).lower())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", BROADCAST_MAX if is_large else "-1")
    spark.conf.set("spark.sql.codegen.wholeStage", str(is_large).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if is_large else "NO_CODEGEN")
    # Each partition beyond the first starts a Python worker.
    partitions = max(SHUFFLE_PARTITIONS, rows // PARTITION_ROWS) if is_large else 1
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def is_configured_for_small(spark: SparkSession) -> bool:
    """Whether configure_for was last called with so few rows that a query takes longer to start than to run."""
    return spark.conf.get("spark.sql.shuffle.partitions") == "1"
