"""Opens the one Spark session of a command, importing meanwhile what judges on it.

What may live here: when Spark starts. What may not: how, which is checkers/session.py's, or what it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.framework.session import SparkSession

JUDGES = ("checkers.run_checks", "harness.judging.runs")


def open_spark(master: str | None = None, tables: Iterable[Path] = ()) -> SparkSession:
    """A session to judge these Parquet files; PySpark is imported late, since commands that judge nothing should not
    wait for it.
    """
    from checkers.framework.session import LARGE_BYTES, spark_session

    large = sum(table.stat().st_size for table in tables) > LARGE_BYTES
    return spark_session(master, large=large, meanwhile=JUDGES)
