"""Every check runs to its end on the tables for the archive of classes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from checkers.archive import rehearse


def test_every_check_has_something_to_check_and_none_crashes(spark: SparkSession, tmp_path: Path) -> None:
    results = rehearse(spark, tmp_path)
    assert [found for found in results.findings if found.severity == "unknown"] == []
    assert {quantity.check for quantity in results.quantities} >= {"promised-reads", "quorum", "availability"}
