"""A lease is only as good as its clock: a leader, slowed and cut off, by the product's own command.

The story is one plan; beside it, the same with reads that trust no clock, and the same without the slow clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("splitbrain")
PLAN = Path(__file__).with_name("slow_leader.toml")
SECONDS_MAX = 150

pytestmark = [pytest.mark.netns, pytest.mark.spark, pytest.mark.timeout(400)]


def run(plan: Path, store: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    command = [str(COMMAND), "run", "--plan", str(plan), *flags, "--store", str(store), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[int, dict[str, Any]]]:
    store = tmp_path_factory.mktemp("slow-leader")
    in_time = store / "in_time.toml"
    text = PLAN.read_text()
    in_time.write_text(text.replace('f = "drift"', 'f = "skew"').replace("rate = 0.2", "offset_seconds = -60.0"))
    runs = {
        "lease": (PLAN, store),
        "read-index": (PLAN, store, "--switch", "reference.read_mode=read-index"),
        "realtime alone": (in_time, store),
    }
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(runs, pool.map(lambda arguments: run(*arguments), runs.values()), strict=True))


def test_under_a_lease_a_leader_with_a_slow_clock_answers_stale_reads(outcomes):
    code, judged = outcomes["lease"]
    assert code == 1
    assert {finding["name"] for finding in judged["findings"]} == {"non-linearizable"}


def test_reads_that_trust_no_clock_are_not_stale_with_the_same_slow_clock(outcomes):
    code, judged = outcomes["read-index"]
    assert (code, judged["findings"]) == (0, [])


def test_a_lease_survives_a_leap_of_the_realtime_clock_which_it_does_not_use(outcomes):
    code, judged = outcomes["realtime alone"]
    assert (code, judged["findings"]) == (0, [])
