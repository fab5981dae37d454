"""Cuts one history into files, batches and partitions in several ways."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession

from harness.model import Op
from harness.model.records.tables import HISTORY
from tests.support.checks.small_histories import row

WAYS = {
    "one partition": (1, 1, 100_000),
    "two partitions, three files": (2, 3, 100_000),
    "seven partitions, batches of five rows": (7, 1, 5),
    "seven partitions, eleven files of rows in no order, batches of three rows": (7, 11, 3),
}
"""By name: shuffle partitions, files, rows in a batch."""


def cut(
    spark: SparkSession, ops: Sequence[Op], directory: Path, ways: Iterable[str] = tuple(WAYS)
) -> Iterator[tuple[str, DataFrame]]:
    """Each way's name and the table; Spark keeps that way's settings until the next item is requested."""
    for name in ways:
        partitions, files, batch_rows = WAYS[name]
        with configured(
            spark,
            shuffle__partitions=str(partitions),
            files__maxPartitionBytes="20000",
            execution__arrow__maxRecordsPerBatch=str(batch_rows),
        ):
            yield name, spark.read.parquet(str(written(ops, files, directory / name)))


def written(ops: Sequence[Op], files: int, directory: Path) -> Path:
    """The ops as Parquet, in index order in one file, or distributed at random to several."""
    directory.mkdir()
    rows = [row(op) for op in ops]
    if files > 1:
        random.Random(files).shuffle(rows)
    for file in range(files):
        parquet.write_table(pa.Table.from_pylist(rows[file::files], HISTORY), directory / f"{file}.parquet")
    return directory


@contextmanager
def configured(spark: SparkSession, **settings: str) -> Iterator[None]:
    """Apply these Spark settings within the block."""
    names = {name: f"spark.sql.{name.replace('__', '.')}" for name in settings}
    before = {name: spark.conf.get(names[name]) or "" for name in settings}
    for name, setting in settings.items():
        spark.conf.set(names[name], setting)
    try:
        yield
    finally:
        for name, setting in before.items():
            spark.conf.set(names[name], setting)
