"""Disks of namespace hosts, in real sandboxes with each privilege: every fault is verified, healed and cleaned up.

Loop devices need root. Where loop devices or FUSE are not available, the tests check the reported reason.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import crc32c
import pytest

from nodes.hosts.sandbox import Privilege
from tests.support import SUPPORT

pytestmark = pytest.mark.netns

CASES = SUPPORT / "nodes" / "disk_cases.py"
CASE_SECONDS = 90
END_SECONDS = 15.0
FUSE = "/dev/fuse"


def command(sandbox, case, kind):
    return sandbox.command(case, sandbox.directory / "hosts", kind, script=CASES)


def options(sandbox):
    """The sandbox's options, with crc32c (record batches need it) on the path of any Python 3.11."""
    path = os.pathsep.join([sandbox.options["env"]["PYTHONPATH"], str(Path(crc32c.__file__).parents[1])])
    return {**sandbox.options, "env": {**sandbox.options["env"], "PYTHONPATH": path}}


@pytest.fixture
def run_case(sandbox):
    """Runs a case of disk_cases.py on disks of a kind; its result, or the last line of its error."""

    def run(case, kind):
        argv = command(sandbox, case, kind)
        result = subprocess.run(argv, capture_output=True, text=True, timeout=CASE_SECONDS, **options(sandbox))
        return json.loads(result.stdout) if result.returncode == 0 else result.stderr.strip().splitlines()[-1]

    return run


@pytest.fixture(params=["directory", "tmpfs", "ext4", "xfs"])
def kind(request, sandbox):
    """A kind of file system that this machine offers with this privilege."""
    if request.param in ("ext4", "xfs") and sandbox.privilege is not Privilege.ROOT:
        pytest.skip("loop devices need root")
    if request.param == "xfs" and not shutil.which("mkfs.xfs"):
        pytest.skip("mkfs.xfs is not installed; as root: apt-get install -y xfsprogs")
    return request.param


@pytest.fixture
def layer(sandbox):
    """Skips the test if the sandbox's user has no permission for /dev/fuse; any other failure to mount is a failure."""
    skip_without_fuse_permission(sandbox)


def skip_without_fuse_permission(sandbox):
    if not sandbox.may_open(FUSE):
        pytest.skip(f"an unprivileged user cannot open {FUSE}; as root: chmod 0666 {FUSE}")


def test_only_a_device_that_exists_and_is_closed_to_the_user_counts_as_denied(sandbox):
    closed = sandbox.directory / "closed"
    closed.touch(mode=0o600)
    assert sandbox.may_open("/dev/null")
    assert sandbox.may_open(str(sandbox.directory / "missing"))
    assert sandbox.may_open(str(closed)) is not bool(sandbox.as_user)


@pytest.mark.usefixtures("layer")
def test_each_fault_of_a_running_disk_affects_only_its_node_and_ends_when_healed(run_case, kind):
    results = run_case("live", kind)["results"]
    if kind == "directory":
        assert "a file system of its own" in results.pop("fill_disk")["missing"]
    for result in results.values():
        assert result["before"] is not None
        assert (result["during"], result["other"], result["healed"]) == (None, None, None)
        assert (result["disturbed"], result["left"]) == ([1], [])


@pytest.mark.parametrize("case", ["at_rest", "plain_at_rest"], ids=["with a layer", "without a layer"])
def test_each_damage_at_rest_is_visible_to_the_node(run_case, sandbox, kind, case):
    if case == "at_rest":
        skip_without_fuse_permission(sandbox)
    result = run_case(case, kind)
    results, batch_bytes = result["results"], result["batch_bytes"]
    assert "holds neither" in results.pop("undamaged")
    if kind in ("directory", "tmpfs"):
        assert "keeps unsynced data" in results.pop("lose_unsynced")["missing"]
    assert {name: damage["proof"] for name, damage in results.items()} == dict.fromkeys(results)
    assert len(set(results["flip_bits"]["done"]["bits"])) == 3
    assert results["flip_bits"]["size"] == 3 * batch_bytes
    assert results["truncate_log"]["size"] == 2 * batch_bytes
    assert results["lose_disk"]["size"] == 3 * batch_bytes  # the case reformats the disk with three batches
    assert all(damage["names"] == ["__cluster_metadata-0"] for damage in results.values())


@pytest.mark.usefixtures("layer")
def test_files_behave_the_same_through_a_layer(run_case, kind):
    result = run_case("same_through_a_layer", kind)
    assert result["direct"] == result["layered"]
    assert result["layered"]["appended"] == "1212121212"


@pytest.mark.usefixtures("layer")
def test_sigkill_ends_a_process_that_waits_for_a_hanging_disk(run_case):
    result = run_case("killed_waiter", "tmpfs")
    assert result["proof"] is None
    assert result["took_seconds"] < 5
    assert result["trouble"] is None


@pytest.mark.usefixtures("layer")
def test_a_process_that_waits_for_a_hanging_disk_continues_after_heal_while_the_controller_can_read(run_case):
    result = run_case("paused_waiter", "directory")
    assert result == {"proof": None, "waits": True, "read": "{}", "code": 0, "wrote": "x\n"}


REFUSALS = {
    "no file": "flipping bits in DATA: no non-empty file matches '*.index'",
    "no batches": "truncating DATA/__cluster_metadata-0/00000000000000000000.log: its 264 bytes are too few",
    "no checkpoint": "corrupting DATA/leader-epoch-checkpoint: there is no such file",
    "no layer": "hang_disk on n1: the nodes' disks were made without a layer",
}


def test_a_damage_that_is_not_possible_gives_its_reason(run_case, sandbox):
    messages = run_case("refused", "directory")["messages"]
    assert messages.pop("no action").startswith("disk fault 'melt': expected one of lose_disk, ")
    data = str(sandbox.directory / "hosts" / "n1" / "data")
    assert {name: message.replace(data, "DATA") for name, message in messages.items()} == REFUSALS


def test_disks_that_are_not_possible_give_their_reason(run_case, sandbox):
    assert run_case("small", "xfs").endswith("making xfs disks: xfs needs at least 300 MiB, got 32")
    if sandbox.privilege is not Privilege.ROOT:
        assert run_case("small", "ext4").endswith("; loop devices need root, tmpfs does not")


@pytest.mark.usefixtures("layer")
def test_only_files_are_left_behind(run_case, kind):
    result = run_case("left_behind", kind)
    assert result["during"]["mounts"] > 2
    assert result["during"]["loops"] == (2 if kind in ("ext4", "xfs") else 0)
    assert result["after"] == {"mounts": 0, "loops": 0}
    assert result["names"] == [
        f"data/__cluster_metadata-0/{name}" for name in ("00000000000000000000.log", "quorum-state")
    ]


@contextmanager
def hanging(sandbox, kind):
    """A case that hangs a disk and waits until its controller is killed; yields its first result."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command(sandbox, "stays", kind), text=True, **pipes, **options(sandbox)) as process:
        yield process, json.loads(process.stdout.readline())
        process.kill()


@pytest.mark.usefixtures("layer")
def test_a_killed_controller_leaves_no_process_and_no_device_even_if_a_disk_hangs(sandbox, kind, alive_in):
    with hanging(sandbox, kind) as (process, result):
        assert alive_in([result["namespace"]])
        os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + END_SECONDS
        while alive_in([result["namespace"]]) or loops_of(sandbox.directory):
            assert time.monotonic() < deadline, "processes or loop devices are still there"
            time.sleep(0.02)
    assert result["loops"] == (2 if kind in ("ext4", "xfs") else 0)


def loops_of(directory):
    """The loop devices whose backing file is in a directory."""
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    return [path for path in backing if path.exists() and str(directory) in path.read_text()]
