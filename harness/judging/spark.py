"""Opens the Spark session of a command, and imports the checks while Java starts.

Contains when Spark starts. Does not configure it (checkers/framework/session.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession

JUDGES = ("checkers.run_checks", "harness.judging.runs")


def open_spark(master: str | None = None, tables: Iterable[Path] = ()) -> SparkSession:
    """A session to check these Parquet files. PySpark is imported here, so that other commands do not wait for it."""
    from checkers.framework.session import LARGE_BYTES, spark_session

    large = sum(table.stat().st_size for table in tables) > LARGE_BYTES
    return spark_session(master, large=large, meanwhile=JUDGES)
