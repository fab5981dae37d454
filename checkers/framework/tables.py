"""Opens a run's Parquet chunks as Spark tables, after making sure that they are whole.

    tables = open_tables(spark, run_directory)
    tables["history"]

A run directory holds a folder of chunks for each table, history/*.parquet and so on; only the history must be there,
and a table without chunks is empty. Chunks still being written (a name that begins with a dot or ends in .tmp) are
left alone. Each footer is read first with pyarrow: a chunk that is truncated, of another
shape, or absent from the middle of the history ends in one line that names it, not in a Spark trace.

What may live here: the way from files to tables. What may not: a judgement.
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
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS
from harness.model.stored_names import NEMESIS_OPS

SMALL_ROWS = 200_000
BROADCAST_MAX = "10m"
"""Spark's own."""

PARTITION_ROWS = 2_500_000
"""How many rows of a large table a partition is to hold: a worker of Python has one in memory at a time."""


def open_tables(spark: SparkSession, run_directory: Path) -> Tables:
    """The run's tables by name, each with its `position`. Raises BadInput as the module says."""
    history = chunk_files(run_directory / "history", HISTORY)
    if not history:
        raise BadInput(f"{run_directory / 'history'}: expected the history's Parquet chunks, found none")
    check_indexes(history)
    observations = chunk_files(run_directory / "observations", OBSERVATIONS)
    batches = chunk_files(run_directory / "batches", BATCHES)
    records = chunk_files(run_directory / "records", RECORDS)
    suit(spark, max(map(rows_in, (history, batches, records))))
    return {
        "history": with_current_names(table(spark, history, HISTORY)),
        "observations": table(spark, observations, OBSERVATIONS),
        "batches": table(spark, batches, BATCHES),
        "records": table(spark, records, RECORDS),
    }


def with_current_names(history: DataFrame) -> DataFrame:
    """The history with today's names of the nemesis's operations, which runs of earlier releases call otherwise."""
    names = fn.create_map(*(fn.lit(word) for pair in NEMESIS_OPS.items() for word in pair))
    current = fn.when(fn.col("process") == NEMESIS, names[fn.col("f")])
    return history.withColumn("f", fn.coalesce(current, fn.col("f")))


def table(spark: SparkSession, files: list[Path], schema: pa.Schema) -> DataFrame:
    """The chunks as one table, with the place of each row in the record: its chunk's name, then its row there."""
    columns = from_arrow_schema(schema)
    if not files:
        empty = spark.createDataFrame([], columns)
        return empty.withColumn("position", fn.lit(0))
    # The schema is given, so that Spark starts no job to find it out.
    table = spark.read.schema(columns).parquet(*map(str, files))
    rows = table.select("*", fn.struct("_metadata.file_name", "_metadata.row_index").alias("position"))
    # One partition satisfies every grouping and order, so that a small run is judged without a single shuffle; and
    # it is read once. Spark lets go of it when nobody holds the table any more; a cached one would have Java code
    # generated for each of its readers.
    return rows.coalesce(1).localCheckpoint(eager=False) if is_small(files) else rows


def is_small(files: list[Path]) -> bool:
    """Whether starting a query costs more than running it over these chunks."""
    return rows_in(files) <= SMALL_ROWS


def suit(spark: SparkSession, rows: int) -> None:
    """Set the session up for tables of so many rows: its partitions, and how much thought goes into a query.

    Compiling queries to Java code is a tenth of a large run's time, and most of a small one's. Nor does it pay there to
    reason about what columns can be, or to send the smaller side of a join around, which is a job of its own.
    """
    worth_it = rows > SMALL_ROWS
    spark.conf.set("spark.sql.constraintPropagation.enabled", str(worth_it).lower())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", BROADCAST_MAX if worth_it else "-1")
    spark.conf.set("spark.sql.codegen.wholeStage", str(worth_it).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if worth_it else "NO_CODEGEN")
    # Each partition beyond the first is a Python worker to start.
    partitions = max(SHUFFLE_PARTITIONS, rows // PARTITION_ROWS) if worth_it else 1
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def is_set_up_for_little(spark: SparkSession) -> bool:
    """Whether suit was last told of so few rows that starting a query costs more than running it."""
    return spark.conf.get("spark.sql.shuffle.partitions") == "1"
