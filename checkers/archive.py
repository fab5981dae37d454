"""Writes the archive of loaded classes (Java's AppCDS) that makes a Spark session start sooner.

    python -m checkers.archive        # once per Spark and Java; about ten seconds, 160 MB in the cache directory

A rehearsal session runs the kinds of job that the checks run; Java notes the classes it loaded and writes them as it
exits. The file appears whole or not at all, so a session that starts meanwhile goes without it.

What may live here: making that file. What may not: using it, which is session.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from checkers.session import archive_file, cache_directory, spark_session
from harness.model import EnvironmentFailure

WRITING_MS_MAX = 120_000


def write_archive(cache: Path | None = None) -> Path:
    """The archive's path, written anew. Raises EnvironmentFailure where Java cannot write it."""
    cache = cache or cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    target, unfinished = archive_file(cache), cache / "unfinished.jsa"
    target.unlink(missing_ok=True)
    unfinished.unlink(missing_ok=True)
    session = spark_session(cache=cache, java_options=f"-XX:ArchiveClassesAtExit={unfinished}")
    rehearse(session, cache / "rehearsal.parquet")
    stop_and_wait(session)
    if not unfinished.exists():
        raise EnvironmentFailure(f"Java was asked for a class archive in {unfinished} and wrote none")
    return unfinished.rename(target)


def rehearse(session: SparkSession, file: Path) -> None:
    """Read, shuffle, window, call Python, collect: what a judgement does."""

    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    session.range(1000).withColumn("key", fn.col("id") % 10).write.mode("overwrite").parquet(str(file))
    rows = session.read.parquet(str(file)).repartition(2, "key").sortWithinPartitions("id")
    rows.mapInArrow(unchanged, rows.schema).groupBy("key").agg(fn.max("id").alias("id")).collect()


def stop_and_wait(session: SparkSession) -> None:
    """End the session and its Java machine; returns when the machine has exited, the archive being its last deed."""
    gateway = session.sparkContext._gateway
    assert gateway is not None, "a session that runs has a gateway"
    machine = gateway.proc
    session.stop()
    machine.stdin.close()
    machine.wait(WRITING_MS_MAX / 1000)


if __name__ == "__main__":
    print(write_archive())
