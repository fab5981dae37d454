"""The example in docs/spark.md prints the output shown there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.spark
def test_the_example_in_the_docs_prints_the_output_in_the_docs(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    exec(compile(shown.group(1), str(PAGE), "exec"), {})
    assert capsys.readouterr().out == shown.group(2)
