"""The tester is tested: the checks find each mutant of the reference quorum under random faults, on real processes.

The runs are the product's own command; two at a time, since most of a run is waiting.
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
PLANTED: Mapping[str, tuple[list[str], int]] = {
    "vote forgotten over a restart": (["reference.mutant=vote-forgotten-on-restart", "kill"], 1),
    "half is a majority": (["reference.mutant=half-is-a-majority", "partition"], 1),
    "no truncation": (["reference.mutant=no-truncation", "partition,kill"], 1),
    "a lease longer than the fetch timeout": (["reference.read_lease_ms=3000", "partition"], 1),
    "nothing": (["reference.read_lease_ms=1500", "partition"], 0),
}
FINDS = {
    "vote forgotten over a restart": "vote-forgotten",
    "half is a majority": "two-leaders-in-one-epoch",
    "no truncation": "diverged-logs",
    "a lease longer than the fetch timeout": "non-linearizable",
}
SECONDS_MAX = 120


def run(bug: str, store: Path) -> tuple[int, dict[str, Any]]:
    (switch, faults), _ = PLANTED[bug]
    flags = ["--switch", switch, "--faults", faults, "--switch", "reference.read_mode=lease"]
    how = ["--workload", "register", "--rate", "200", "--time-limit", "20", "--interval", "10", "--seed", "5"]
    command = [str(COMMAND), "run", *how, *flags, "--store", str(store), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[int, dict[str, Any]]]:
    store = tmp_path_factory.mktemp("planted")
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(PLANTED, pool.map(lambda bug: run(bug, store), PLANTED), strict=True))


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found_and_nothing_else_is(bug: str, outcomes: Mapping[str, tuple[int, dict[str, Any]]]) -> None:
    exit_code, judged = outcomes[bug]
    names = {finding["name"] for finding in judged["findings"]}
    assert exit_code == PLANTED[bug][1], names
    assert FINDS.get(bug) in names or bug == "nothing"
