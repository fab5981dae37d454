"""What is judged for the archive of classes is judged by every check, to its end."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from checkers.archive import rehearse


def test_no_check_crashes_or_has_nothing_to_judge(spark: SparkSession, tmp_path: Path) -> None:
    judgement = rehearse(spark, tmp_path)
    assert [found for found in judgement.findings if found.severity == "unknown"] == []
    assert {quantity.check for quantity in judgement.quantities} >= {"promised-reads", "quorum", "availability"}
