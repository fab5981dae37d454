"""Limits on memory and CPU: a server that exceeds its limits, and cgroups that a run leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.model import EnvironmentFailure
from nodes.hosts.netns.limits import PREFIX, ROOT, Limits, NodeLimits, remove

LABEL = f"test-{os.getpid()}"
GREEDY = "block = bytearray(200 << 20); block[::4096] = b'x' * len(block[::4096]); print('allocated')"
BUSY = "import time; end = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass\nprint(time.process_time())"


@pytest.fixture(autouse=True)
def _as_root():
    if os.geteuid() != 0:
        pytest.skip("making cgroups needs root")


def remaining() -> list[str]:
    return [str(path) for path in ROOT.glob(f"**/{PREFIX}-{LABEL}-n*")]


def run_limited(limits: Limits, script: str) -> subprocess.CompletedProcess[str]:
    with NodeLimits.up(LABEL, [1], limits) as node_limits:
        argv = node_limits.join(1, [sys.executable, "-c", script])
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_a_server_that_exceeds_its_memory_limit_is_killed_and_one_within_it_is_not():
    assert run_limited(Limits(memory_mib=64), GREEDY).returncode == -9
    assert run_limited(Limits(memory_mib=400), GREEDY).stdout == "allocated\n"
    assert remaining() == []


def test_a_busy_server_gets_no_more_than_its_cpu_limit():
    result = run_limited(Limits(cpus=0.2), BUSY)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.4


def test_the_cgroups_of_a_killed_run_are_removed_by_its_label_alone_and_removal_can_be_repeated():
    with NodeLimits.up(LABEL, [1, 2], Limits(memory_mib=64)):
        assert len(remaining()) == 2
        remove(LABEL)
        assert remaining() == []
        remove(LABEL)


def test_without_limits_there_is_no_cgroup():
    assert run_limited(Limits(), "print('free')").stdout == "free\n"
    with NodeLimits.up(LABEL, [1], Limits()):
        assert remaining() == []


def test_a_machine_without_cgroups_is_reported_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("nodes.hosts.netns.limits.ROOT", tmp_path / "nothing")
    with (
        pytest.raises(EnvironmentFailure, match="check that this machine has cgroups"),
        NodeLimits.up(LABEL, [1], Limits(64)),
    ):
        pass
