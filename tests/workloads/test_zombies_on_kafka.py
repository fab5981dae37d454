"""A real Kafka refuses producers that it has fenced, whatever befalls its brokers meanwhile: nothing of them shows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from test_log_on_kafka import play

ZOMBIES = Path(__file__).with_name("zombies.toml")


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_fenced_producers_that_go_on_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    played = play(ZOMBIES, tmp_path)
    assert played.returncode == 0, played.stdout + played.stderr
    judged = json.loads(played.stdout)
    assert {found["severity"] for found in judged["findings"]} <= {"tolerated"}
    rows = parquet.read_table(Path(judged["run"]) / "history").to_pylist()
    ends = [row for row in rows if row["type"] != "invoke" and '"fence"' in (row["value"] or "")]
    refused = [row for row in ends if row["type"] == "fail" and "_FENCED" in row["error"]]
    assert len(refused) >= 3, "nobody was fenced"
    assert [row for row in ends if row["type"] == "ok"] == []
