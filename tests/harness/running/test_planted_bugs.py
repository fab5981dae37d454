"""The tester is tested: the checks find each mutant of the reference quorum under random faults, on real processes.

The runs are the product's own command; three at a time, since most of a run is waiting.
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
LEASE = ["--switch", "reference.read_mode=lease", "--switch"]
LEADERS_CUT_OFF = ["--faults", "partition", "--seed", "395"]
"""A seed that draws cuts of the leader alone: what a long lease needs to be seen."""
PLANTED: Mapping[str, list[str]] = {
    "vote forgotten over a restart": [
        *(
            "--switch",
            "reference.mutant=vote-forgotten-on-restart",
            "--faults",
            "kill",
            "--interval",
            "4",
            "--time-limit",
            "60",
        ),
    ],
    "half is a majority": ["--switch", "reference.mutant=half-is-a-majority", "--faults", "partition"],
    "no truncation": ["--switch", "reference.mutant=no-truncation", "--faults", "partition,kill"],
    "a lease longer than the fetch timeout": [*LEASE, "reference.read_lease_ms=3000", *LEADERS_CUT_OFF],
    "nothing": [*LEASE, "reference.read_lease_ms=1500", *LEADERS_CUT_OFF],
}
FINDS = {
    "vote forgotten over a restart": {"vote-forgotten"},
    # Which of its harms a split quorum does first, chance decides.
    "half is a majority": {"two-leaders-in-one-epoch", "non-linearizable", "diverged-logs"},
    "no truncation": {"diverged-logs"},
    "a lease longer than the fetch timeout": {"non-linearizable"},
}
SECONDS_MAX = 240


def run(bug: str, store: Path) -> tuple[int, dict[str, Any]]:
    how = ["--workload", "register", "--rate", "200", "--time-limit", "25", "--interval", "10", "--seed", "5"]
    command = [str(COMMAND), "run", *how, *PLANTED[bug], "--store", str(store), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[int, dict[str, Any]]]:
    store = tmp_path_factory.mktemp("planted")
    with ThreadPoolExecutor(max_workers=3) as pool:
        return dict(zip(PLANTED, pool.map(lambda bug: run(bug, store), PLANTED), strict=True))


@pytest.mark.netns
@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found_and_nothing_else_is(bug: str, outcomes: Mapping[str, tuple[int, dict[str, Any]]]) -> None:
    exit_code, judged = outcomes[bug]
    names = {finding["name"] for finding in judged["findings"] if finding["severity"] == "invalid"}
    assert exit_code == (1 if bug in FINDS else 0), judged["findings"]
    assert names & FINDS[bug] if bug in FINDS else not names
