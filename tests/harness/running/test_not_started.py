"""A run on real processes in which the story starts some of the nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from harness.model.conditions import ALL_FOLLOW_LEADER, is_prospective
from harness.model.story import DOWN, mark, start, wait_until
from harness.planning.plan import Request
from harness.planning.story_steps import StoryStep
from harness.running.controller_process import carry_out
from harness.running.run import plan_to_run
from results.store import new_run

STORY = (wait_until(is_prospective(1)), mark("now"), start("n2"), start(DOWN), wait_until(ALL_FOLLOW_LEADER))


@pytest.mark.netns
def test_story_starts_the_nodes_that_do_not_start_with_the_run(tmp_path: Path) -> None:
    request = Request(
        name="later", seed=1, hosts="local", not_started=[2, 3], story=[StoryStep.of(each) for each in STORY]
    )
    run = new_run(tmp_path, "later", datetime.now(UTC))
    carry_out(plan_to_run(request, lambda _event: None), run, lambda _event: None)
    history = parquet.read_table(run.history).to_pylist()
    assert [op["error"] for op in history if op["error"]] == []
    marked_ns = next(op["time_ns"] for op in history if op["f"] == "mark" and op["value"] == '"now"')
    seen = parquet.read_table(run.observations).to_pylist()
    late = {each["node"]: each["time_ns"] > marked_ns for each in seen if each["kind"] == "started"}
    assert late == {1: False, 2: True, 3: True}
    assert {each["node"] for each in seen if each["kind"] == "transition" and each["time_ns"] < marked_ns} == {1}
