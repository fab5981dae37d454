"""The notebook of the table of runs: each of its cells runs, on a store with failed and removed runs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.judging.index import index
from harness.nightly.plan import Keep
from harness.nightly.retention import keep_store
from tests.support.stored_runs import BEGIN, failed_verdict, judged_run, passed_verdict, register_plan

NOTEBOOK = Path(__file__).parents[1] / "docs" / "runs.ipynb"


@pytest.mark.spark
def test_every_cell_of_the_notebook_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "results" / "runs"
    judged_run(store, "removed", register_plan(), passed_verdict(), BEGIN)
    failed = judged_run(store, "failed", register_plan(seed=8), failed_verdict(), BEGIN + timedelta(days=1))
    keep_store(store, Keep(runs=1), BEGIN)
    assert [row.run for row in index(store)] == [failed.name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("checkers.framework.session.spark_session", lambda: spark)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    printed = capsys.readouterr().out
    assert printed.startswith("2 runs\n")
    assert printed.endswith(f"{failed.name} register with kill reference seed 8\n")
    (rate,) = names["rates"].collect()
    assert (rate["runs"], rate["failed"], rate["problems"]) == (2, 1, ["lost-write"])
    (day,) = names["trend"].collect()
    assert (day["median_ms"], str(day["day"])) == (620.0, "2026-11-21")
