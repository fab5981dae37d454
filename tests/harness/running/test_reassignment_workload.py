"""The workload that moves voters, as the real command on real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from harness.model.errors import EXIT_VALID
from tests.support.command import json_lines, splitbrain_here

FLAGS = "--switch reference.voter_changes=kip-642 --nodes 6 --voters 3 --workload reassignment --faults kill --seed 3"


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(400)
def test_voters_move_there_and_back_under_writes_and_kills(tmp_path: Path) -> None:
    flags = [*FLAGS.split(), "--floor", "5", "--time-limit", "12", "--interval", "3", "--store", tmp_path, "--json"]
    result = splitbrain_here("run", *flags)
    (verdict,) = json_lines(result)
    assert (result.code, verdict["findings"]) == (EXIT_VALID, [])
    run = next(tmp_path.glob("2*-run-*"))
    history = parquet.read_table(run / "history").to_pylist()
    acknowledged = [row["key"] for row in history if (row["f"], row["type"]) == ("reassign", "ok")]
    assert len(acknowledged) > 2
    assert [row for row in history if (row["f"], row["type"]) == ("voters", "ok")]
    named = [row["voters"] for row in parquet.read_table(run / "batches").to_pylist() if row["voters"]]
    there = named.index("[4, 5, 6]")
    assert "[1, 2, 3]" in named[:there]
    assert "[1, 2, 3]" in named[there:]


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_partitions_move_there_and_back_under_sends_and_kills(tmp_path: Path) -> None:
    flags = [*FLAGS.split(), "--layout", "combined", "--option", "partitions=move", "--floor", "5"]
    limits = ["--time-limit", "20", "--interval", "8", "--store", tmp_path, "--json"]
    result = splitbrain_here("run", *flags, *limits)
    (verdict,) = json_lines(result)
    assert result.code == EXIT_VALID, verdict["findings"]
    history = parquet.read_table(next(tmp_path.glob("2*-run-*")) / "history").to_pylist()
    done = [(row["f"], row["key"], row["value"]) for row in history if row["type"] == "ok"]
    for key in ("log-0", "log-1", "log-2", "log-3"):
        placed = {tuple(json.loads(value)["replicas"]) for f, of, value in done if (f, of) == ("moved", key)}
        assert (1, 2, 3) in placed, "the final move"
    assert {f for f, _, _ in done} >= {"move", "moved", "partition", "send", "poll", "drain", "reassign"}
