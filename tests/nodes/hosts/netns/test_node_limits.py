"""Limits of memory and processors: a server that takes more than its share, and cgroups that a run leaves."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.model import EnvironmentFailure
from nodes.hosts.netns.limits import PREFIX, ROOT, Limits, NodeLimits, remove

LABEL = f"test-{os.getpid()}"
GREEDY = "block = bytearray(200 << 20); block[::4096] = b'x' * len(block[::4096]); print('had it')"
BUSY = "import time; end = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass\nprint(time.process_time())"


@pytest.fixture(autouse=True)
def _as_root():
    if os.geteuid() != 0:
        pytest.skip("making cgroups needs root")


def left() -> list[str]:
    return [str(path) for path in ROOT.glob(f"**/{PREFIX}-{LABEL}-n*")]


def play(limits: Limits, script: str) -> subprocess.CompletedProcess[str]:
    with NodeLimits.up(LABEL, [1], limits) as made:
        argv = made.join(1, [sys.executable, "-c", script])
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_a_server_that_takes_more_memory_than_its_limit_is_killed_and_one_within_it_lives():
    assert play(Limits(memory_mib=64), GREEDY).returncode == -9
    assert play(Limits(memory_mib=400), GREEDY).stdout == "had it\n"
    assert left() == []


def test_a_busy_server_gets_no_more_than_its_share_of_a_processor():
    said = play(Limits(cpus=0.2), BUSY)
    assert said.returncode == 0, said.stderr
    assert float(said.stdout) < 0.4


def test_what_a_killed_run_left_is_removed_by_its_label_alone_and_twice():
    with NodeLimits.up(LABEL, [1, 2], Limits(memory_mib=64)):
        assert len(left()) == 2
        remove(LABEL)
        assert left() == []
        remove(LABEL)


def test_no_limit_makes_no_cgroup():
    assert play(Limits(), "print('free')").stdout == "free\n"
    with NodeLimits.up(LABEL, [1], Limits()):
        assert left() == []


def test_a_machine_without_such_a_cgroup_says_so_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("nodes.hosts.netns.limits.ROOT", tmp_path / "nothing")
    with pytest.raises(EnvironmentFailure, match="has this machine cgroups"), NodeLimits.up(LABEL, [1], Limits(64)):
        pass
