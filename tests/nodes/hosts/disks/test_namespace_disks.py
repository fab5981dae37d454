"""Disks of namespace hosts, played in real sandboxes by either right: each fault is proved, undone, and leaves nothing.

Loop devices are for root alone; where they, or FUSE, cannot be had, the reason is what is tested.
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

from nodes.hosts.sandbox import Privilege, enclose
from tests.support import SUPPORT

pytestmark = pytest.mark.netns

SCENES = SUPPORT / "nodes" / "disk_scenes.py"
SCENE_SECONDS = 90
END_SECONDS = 15.0


def command(stage, scene, kind):
    inside = [stage.python, str(SCENES), scene, str(stage.directory / "hosts"), kind]
    return [*stage.as_user, *enclose(inside, stage.privilege)]


def options(stage):
    """As the stage's, with crc32c, by which batches are told, within reach of whichever Python 3.11 plays."""
    path = os.pathsep.join([stage.options["env"]["PYTHONPATH"], str(Path(crc32c.__file__).parents[1])])
    return {**stage.options, "env": {**stage.options["env"], "PYTHONPATH": path}}


@pytest.fixture
def play(stage):
    """Plays a scene of disk_scenes.py to its end on disks of a kind; what it told, or how it failed."""

    def play_scene(scene, kind):
        asked = command(stage, scene, kind)
        result = subprocess.run(asked, capture_output=True, text=True, timeout=SCENE_SECONDS, **options(stage))
        return json.loads(result.stdout) if result.returncode == 0 else result.stderr.strip().splitlines()[-1]

    return play_scene


@pytest.fixture(params=["directory", "tmpfs", "ext4", "xfs"])
def kind(request, stage):
    """A kind of file system that can be had by this right, on this machine."""
    if request.param in ("ext4", "xfs") and stage.privilege is not Privilege.ROOT:
        pytest.skip("loop devices are for root")
    if request.param == "xfs" and not shutil.which("mkfs.xfs"):
        pytest.skip("no mkfs.xfs here; as root: apt-get install -y xfsprogs")
    return request.param


def test_each_fault_of_a_running_disk_shows_on_its_node_alone_and_is_gone_when_undone(play, kind):
    told = play("live", kind)["told"]
    if kind == "directory":
        assert "a file system of its own" in told.pop("fill_disk")["missing"]
    for met in told.values():
        assert met["before"] is not None
        assert (met["during"], met["other"], met["healed"]) == (None, None, None)
        assert (met["disturbed"], met["left"]) == ([1], [])


@pytest.mark.parametrize("scene", ["at_rest", "plain_at_rest"], ids=["beneath a layer", "without a layer"])
def test_each_damage_at_rest_shows_in_what_the_node_reads(play, kind, scene):
    played = play(scene, kind)
    told, batch = played["told"], played["batch"]
    assert "holds neither" in told.pop("undamaged")
    if kind in ("directory", "tmpfs"):
        assert "keeps what was not synced" in told.pop("lose_unsynced")["missing"]
    assert {name: met["proof"] for name, met in told.items()} == dict.fromkeys(told)
    assert len(set(told["flip_bits"]["done"]["bits"])) == 3
    assert told["flip_bits"]["size"] == 3 * batch
    assert told["truncate_log"]["size"] == 2 * batch
    assert told["lose_disk"]["size"] == 3 * batch  # as the reformat of the scene makes it
    assert all(met["names"] == ["__cluster_metadata-0"] for met in told.values())


def test_files_are_the_same_through_a_layer(play, kind):
    told = play("same_through_a_layer", kind)
    assert told["beside"] == told["through"]
    assert told["through"]["appended"] == "1212121212"


def test_a_kill_ends_who_waits_for_a_disk_that_hangs(play):
    told = play("killed_waiter", "tmpfs")
    assert told["proof"] is None
    assert told["took_seconds"] < 5
    assert told["trouble"] is None


def test_who_waits_for_a_disk_that_hangs_goes_on_when_it_is_healed_and_the_controller_reads_meanwhile(play):
    told = play("paused_waiter", "directory")
    assert told == {"proof": None, "waits": True, "read": "{}", "code": 0, "wrote": "x\n"}


REFUSALS = {
    "no file": "flipping bits in DATA: no file with anything in it fits '*.index'",
    "no batches": "truncating DATA/__cluster_metadata-0/00000000000000000000.log: its 264 bytes are too few",
    "no checkpoint": "corrupting DATA/__cluster_metadata-0/leader-epoch-checkpoint: there is no such file",
    "no layer": "hang_disk on n1: the nodes' disks were made without a layer",
}


def test_a_damage_that_cannot_be_done_says_why(play, stage):
    told = play("refused", "directory")["told"]
    assert told.pop("no deed").startswith("disk deed 'melt': expected one of lose_disk, ")
    data = str(stage.directory / "hosts" / "n1" / "data")
    assert {name: words.replace(data, "DATA") for name, words in told.items()} == REFUSALS


def test_disks_that_cannot_be_had_say_why(play, stage):
    assert play("small", "xfs").endswith("making xfs disks: xfs takes at least 300 MiB, and 32 were asked for")
    if stage.privilege is not Privilege.ROOT:
        assert play("small", "ext4").endswith("; loop devices need root, tmpfs does not")


def test_nothing_is_left_behind_but_the_files(play, kind):
    told = play("left_behind", kind)
    assert told["during"]["mounts"] > 2
    assert told["during"]["loops"] == (2 if kind in ("ext4", "xfs") else 0)
    assert told["after"] == {"mounts": 0, "loops": 0}
    assert told["names"] == [
        f"data/__cluster_metadata-0/{name}" for name in ("00000000000000000000.log", "quorum-state")
    ]


@contextmanager
def begun(stage, kind):
    """A scene that hangs a disk and stays, until its controller is killed; what it told."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command(stage, "stays", kind), text=True, **pipes, **options(stage)) as process:
        yield process, json.loads(process.stdout.readline())
        process.kill()


def test_a_killed_controller_leaves_no_process_and_no_device_though_a_disk_hangs(stage, kind, alive_in):
    with begun(stage, kind) as (process, told):
        assert alive_in([told["namespace"]])
        os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + END_SECONDS
        while alive_in([told["namespace"]]) or loops_of(stage.directory):
            assert time.monotonic() < deadline, "processes or loop devices are still there"
            time.sleep(0.02)
    assert told["loops"] == (2 if kind in ("ext4", "xfs") else 0)


def loops_of(directory):
    """The loop devices bound to something in a directory."""
    backing = Path("/sys/block").glob("loop*/loop/backing_file")
    return [path for path in backing if path.exists() and str(directory) in path.read_text()]
