"""Simulated nodes whose logs are those of Kafka's servers, in files: recovery, segments, snapshots, lost writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.model import BadInput
from nodes.kafka.configuration import SIMULATION_LOG
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import FILES, MEMORY, SEGMENT_BYTES, SNAPSHOT_SETTINGS
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.kafka.log_directory import LogDirectory, remove_unused
from nodes.wire.batches import heads, intact_length
from tests.support.nodes.simulated_kafka import Story, release, release_with_log

kafka = pytest.mark.kafka
VERSIONS = ("3.9.1", "4.3.1")
"""One whose log is the server's, and one whose log is the Raft client's; their servers run in other tests, too."""
SMALL_SEGMENTS = {SIMULATION_LOG: FILES, SEGMENT_BYTES: "600"}
GARBAGE = b"\0" * 7 + b"not a record batch"


def led(story, version="4.3.1", switches=SMALL_SEGMENTS, **fields):
    """A story of three nodes and its leader, which is followed."""
    run = story(version, switches=dict.fromkeys((1, 2, 3), switches), **fields)
    run.start()
    leader = run.leader()
    run.pass_ms(1_000)
    return run, leader


def segments(driver: RaftDriver, node: int) -> list[Path]:
    """The files of a node's log, oldest first."""
    return sorted(driver.log_directory.glob(f"{node}-*/*/*.log"))


def write(run, node, *values):
    for value in values:
        assert run.write(node, "r", value) == ("none", None)


@kafka
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fields", [{}, {"voters": 3}], ids=["static", "dynamic"])
def test_killed_node_recovers_its_segments(story, drivers, version, fields):
    run, leader = led(story, version, **({} if version == "3.9.1" else fields))
    follower = run.follower()
    write(run, leader, *range(20))
    run.pass_ms(1_000)
    assert len(segments(drivers(version, has_files=True), follower)) > 1
    before = run.cluster.log(follower)
    run.cluster.kill(follower)
    assert run.cluster.log(follower) == before
    write(run, leader, 20)
    run.start(follower)
    run.until(lambda: run.read(follower, "r") == "20")
    log = run.cluster.log(follower)
    assert intact_length(log) == len(log) > len(before)
    assert [head.crc for head in heads(log)][:10] == [head.crc for head in heads(before)][:10]
    assert run.cluster.violations == ()


@kafka
@pytest.mark.parametrize("version", VERSIONS)
def test_divergent_tail_is_truncated(story, version):
    run, leader = led(story, version)
    run.isolate(leader)
    run.send_writes(leader, 5)
    run.pass_ms(300)
    end = run.cluster.status(leader).log_end_offset
    other = run.leader(other_than=leader)
    write(run, other, 1)
    run.cluster.restore()
    run.until(lambda: run.read(leader, "r") == "1")
    assert run.cluster.log(leader) == run.cluster.log(other)
    assert end > 5
    assert run.cluster.violations == ()


@kafka
@pytest.mark.parametrize("version", VERSIONS)
def test_follower_fetches_a_snapshot_file(story, version):
    switches = {**SMALL_SEGMENTS, **dict(zip(SNAPSHOT_SETTINGS, ("300", "1"), strict=True))}
    run, leader = led(story, version, switches)
    follower = run.follower()
    run.isolate(follower)
    write(run, leader, *range(20))
    run.cluster.restore()
    run.until(lambda: run.read(follower, "r") == "19")
    assert next(heads(run.cluster.log(follower))).base_offset > 0
    run.cluster.kill(follower)
    run.start(follower)
    run.until(lambda: run.read(follower, "r") == "19")
    assert run.cluster.violations == ()


def add_garbage(driver: RaftDriver, node: int) -> tuple[Path, bytes]:
    """Bytes that are no batch, at the end of a stopped node's log; returns the segment, and what it had before."""
    last = segments(driver, node)[-1]
    before = last.read_bytes()
    last.write_bytes(before + GARBAGE)
    return last, before


@kafka
def test_power_failure_cuts_what_was_not_synced_and_keeps_the_rest(story, drivers):
    run, leader = led(story)
    write(run, leader, *range(20))
    for node in run.nodes:
        run.cluster.kill(node)
    log = run.cluster.log(leader)
    segment, synced = add_garbage(drivers("4.3.1", has_files=True), leader)
    run.cluster.lose_unsynced(leader)
    assert run.cluster.log(leader) == log
    assert segment.read_bytes() == synced
    run.start()
    assert run.read(run.leader(), "r") == "19"
    assert run.cluster.violations == ()


@kafka
def test_recovery_cuts_a_torn_batch(story, drivers):
    run, leader = led(story)
    write(run, leader, 1)
    follower = run.follower()
    run.cluster.kill(follower)
    assert run.cluster.log(follower) != b""
    segment, _ = add_garbage(drivers("4.3.1", has_files=True), follower)
    run.start(follower)
    run.until(lambda: run.read(follower, "r") == "1")
    assert GARBAGE not in segment.read_bytes()
    assert run.cluster.violations == ()


@kafka
@pytest.mark.parametrize("loses_unsynced", [False, True])
def test_node_whose_log_cannot_be_read_exits(story, drivers, loses_unsynced):
    run, _ = led(story)
    follower = run.follower()
    run.cluster.kill(follower)
    assert run.cluster.log(follower) != b""
    (checkpoint,) = drivers("4.3.1", has_files=True).log_directory.glob(f"{follower}-0/*/leader-epoch-checkpoint")
    checkpoint.write_text("no checkpoint")
    if loses_unsynced:
        run.cluster.lose_unsynced(follower)
    run.start(follower)
    run.pass_ms(10)
    assert run.cluster.status(follower) is None
    (exited,) = [seen.detail for seen in run.seen if seen.node == follower and seen.kind == "exited"]
    path = f"{follower}-0/__cluster_metadata-0/leader-epoch-checkpoint"
    assert f"Error while reading checkpoint file {path}" in exited, "the path above differs between equal runs"


@kafka
def test_lost_disk_and_lost_quorum_state(story, drivers):
    run, leader = led(story)
    write(run, leader, 1)
    follower = run.follower()
    directory = drivers("4.3.1", has_files=True).log_directory
    run.cluster.kill(follower)
    run.cluster.lose_quorum_state(follower)
    assert run.cluster.log(follower) != b""
    (lost,) = directory.glob(f"{follower}-0/*")
    assert not (lost / "quorum-state").exists()
    run.cluster.lose_disk(follower)
    assert run.cluster.log(follower) == b""
    run.start(follower)
    run.until(lambda: run.read(follower, "r") == "1")
    assert [path.name for path in directory.glob(f"{follower}-*")] == [f"{follower}-1"]


@kafka
@pytest.mark.parametrize("version", VERSIONS)
def test_two_jvms_give_equal_digests(drivers, version):
    def digest(driver: RaftDriver) -> str:
        run = Story(driver, SimulationSpec(5, 3, switches=dict.fromkeys((1, 2, 3), SMALL_SEGMENTS)))
        run.start()
        leader = run.leader()
        write(run, leader, *range(10))
        run.cluster.kill(leader)
        write(run, run.leader(other_than=leader), 10)
        run.start(leader)
        run.pass_ms(2_000)
        run.cluster.close()
        return run.cluster.digest()

    first = drivers(version, has_files=True)
    with RaftDriver(release_with_log(version), has_files=True) as second:
        assert digest(first) == digest(second) == digest(first)


@kafka
def test_nothing_is_left_of_a_simulation_or_a_driver(story, drivers):
    run, _ = led(story)
    directory = drivers("4.3.1", has_files=True).log_directory
    assert list(directory.iterdir()) != []
    run.cluster.close()
    assert list(directory.iterdir()) == []
    with RaftDriver(release("4.3.1"), has_files=True) as driver:
        own = driver.log_directory
        assert own.exists()
    assert not own.exists()


@kafka
@pytest.mark.parametrize(
    ("version", "switches", "expected"),
    [
        ("4.3.1", {SIMULATION_LOG: "disk"}, f"{SIMULATION_LOG}=disk: expected {MEMORY} or {FILES}"),
        ("4.3.1", {SEGMENT_BYTES: "600"}, f"{SEGMENT_BYTES}: a simulation of Kafka 4.3.1 has only"),
        ("4.3.1", {**SMALL_SEGMENTS, SEGMENT_BYTES: "small"}, SEGMENT_BYTES),
        ("3.9.1", {**SMALL_SEGMENTS, SEGMENT_BYTES: "small"}, f"small for configuration {SEGMENT_BYTES}"),
        ("3.9.1", {SNAPSHOT_SETTINGS[0]: "few"}, f"few for configuration {SNAPSHOT_SETTINGS[0]}"),
    ],
)
def test_unknown_log_or_setting_is_refused(story, version, switches, expected):
    with pytest.raises(BadInput, match=expected):
        story(version, switches={1: switches})


def test_directories_of_processes_that_were_killed_are_removed(tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; "
        "from nodes.simulation.kafka.log_directory import LogDirectory; "
        "LogDirectory(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with LogDirectory(tmp_path) as used:
        assert list(tmp_path.iterdir()) == [used.path]
        remove_unused(tmp_path)
        assert list(tmp_path.iterdir()) == [used.path]
    assert list(tmp_path.iterdir()) == []
