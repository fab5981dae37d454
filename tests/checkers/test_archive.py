"""Every check, and a comparison's query, run to their end on the tables for the archive of classes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from checkers.archive import rehearse, rehearse_comparison


def test_every_check_has_something_to_check_and_none_crashes(spark: SparkSession, tmp_path: Path) -> None:
    results = rehearse(spark, tmp_path)
    assert [found for found in results.findings if found.severity == "unknown"] == []
    assert {quantity.check for quantity in results.quantities} >= {"promised-reads", "quorum", "availability"}


def test_run_is_in_both_sets_that_are_compared(spark: SparkSession, tmp_path: Path) -> None:
    rows = rehearse_comparison(spark, tmp_path / "runs.parquet")
    assert [row["set"] for row in rows] == ["base", "head"]
    assert [(row["commit_gap_ms"], row["recover_ms"]) for row in rows] == [(1.0, None)] * 2
