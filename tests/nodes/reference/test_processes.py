"""The reference quorum as real processes: sockets, disks, kill -9, and Kafka's own tools."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.model import PeerFailure
from nodes.wire import codec
from nodes.wire.batches import heads, intact_length


def write_of(key: str, value: str) -> dict[str, Any]:
    config = {"name": "metrics", "config_operation": 0, "value": value}
    return {
        "resources": [{"resource_type": 16, "resource_name": key, "configs": [config]}],
        "validate_only": False,
    }


def read_of(key: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": 16, "resource_name": key, "configuration_keys": None}]}


async def value_at(processes: Any, node: int, key: str) -> str:
    response = await processes.call(node, codec.DESCRIBE_CONFIGS, read_of(key))
    return str(response.results[0].configs[0].value)


def quorum_state(processes: Any, node: int) -> dict[str, Any]:
    path = processes.directory / str(node) / "__cluster_metadata-0" / "quorum-state"
    return dict(json.loads(path.read_text()))


def test_quorum_keeps_writes_and_votes_when_its_leader_is_killed(processes: Any) -> None:
    async def scenario() -> None:
        processes.start(1, 2, 3)
        old, before = await processes.leader()
        altered = await processes.call(old, codec.INCREMENTAL_ALTER_CONFIGS, write_of("k", "1"))
        assert altered.responses[0].error_code == codec.ErrorCode.none
        processes.kill(old)
        stored = quorum_state(processes, old)
        assert (stored["leaderId"], stored["leaderEpoch"], stored["votedId"]) == (old, before.leader_epoch, old)
        new, after = await processes.leader()
        assert after.leader_epoch > before.leader_epoch
        assert await value_at(processes, new, "k") == "1"
        processes.start(old)
        await until_follows(processes, old, new)
        assert quorum_state(processes, old)["leaderEpoch"] == after.leader_epoch

    asyncio.run(scenario())


async def until_written(log: Path) -> None:
    """Wait until the log is not empty."""
    deadline = time.monotonic() + 10
    while not log.stat().st_size:
        assert time.monotonic() < deadline, f"{log} is still empty after 10 s"
        await asyncio.sleep(0.02)


async def until_follows(processes: Any, node: int, leader: int) -> None:
    """Wait until the node rejects writes with the leader's id."""
    deadline = time.monotonic() + 10
    expected = f"The active controller appears to be node {leader}."
    message = None
    while time.monotonic() < deadline:
        try:
            altered = await processes.call(node, codec.INCREMENTAL_ALTER_CONFIGS, write_of("k", "2"))
        except PeerFailure:
            continue
        message = altered.responses[0].error_message
        if message == expected:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"node {node}: expected {expected!r}, got {message!r}")


def test_leader_that_shuts_down_hands_over_and_exits_with_0(processes: Any) -> None:
    async def scenario() -> None:
        processes.start(1, 2, 3)
        old, _ = await processes.leader()
        stopped_s = time.monotonic()
        assert processes.stop(old) == 0
        await processes.leader()
        assert time.monotonic() - stopped_s < 2

    asyncio.run(scenario())


def test_torn_tail_is_truncated_and_fetched_again(processes: Any) -> None:
    async def scenario() -> None:
        processes.start(1, 2, 3)
        leader, _ = await processes.leader()
        await processes.call(leader, codec.INCREMENTAL_ALTER_CONFIGS, write_of("k", "1"))
        torn = next(node for node in (1, 2, 3) if node != leader)
        log = processes.directory / str(torn) / "__cluster_metadata-0" / f"{0:020d}.log"
        await until_written(log)
        processes.kill(torn)
        log.write_bytes(log.read_bytes()[:-7])
        processes.start(torn)
        await until_follows(processes, torn, leader)
        processes.stop(torn)
        data = log.read_bytes()
        assert intact_length(data) == len(data)
        assert [head.base_offset for head in heads(data)] == sorted({head.base_offset for head in heads(data)})
        assert "bytes of a torn tail" in processes.log(torn).read_text()

    asyncio.run(scenario())


def test_node_logs_in_kafkas_format(processes: Any) -> None:
    async def scenario() -> None:
        processes.start(1, 2, 3)
        await processes.leader()
        await processes.logged(1, "High watermark set to ")

    asyncio.run(scenario())
    lines = processes.log(1).read_text().splitlines()
    line_format = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO \[RaftManager id=1\] .+ \([\w.]+\)")
    assert all(line_format.fullmatch(line) for line in lines)
    log = "\n".join(lines)
    assert "Kafka Server started (kafka.server.KafkaRaftServer)" in log
    assert re.search(r"Completed transition to UnattachedState\(epoch=0, leaderId=OptionalInt.empty, .* from null", log)
    assert re.search(r"High watermark set to LogOffsetMetadata\(offset=\d+, .* for the first time for epoch \d+", log)


@pytest.mark.parametrize("processes", [{"reference.pre_vote": "false"}], indirect=True, ids=["pre_vote=false"])
def test_voter_without_pre_vote_supports_vote_up_to_version_1(processes: Any) -> None:
    async def scenario() -> None:
        processes.start(1, 2, 3)
        node, _ = await processes.leader()
        connection = processes.connection(node)
        ranges = await connection.negotiate()
        await connection.close()
        assert ranges[codec.VOTE][-1] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reference.pre_votes=true", "reference.pre_votes: expected one of the switches"),
        ("reference.pre_vote=yes", "reference.pre_vote: expected true or false, got 'yes'"),
        ("reference.mutant=none", "reference.mutant: expected one of vote-forgotten-on-restart"),
        ("controller.quorum.fetch.timeout.ms=2s", "controller.quorum.fetch.timeout.ms: expected milliseconds"),
        ("listeners", "line 6: expected key=value, got 'listeners'"),
    ],
    ids=["unknown switch", "not a boolean", "unknown mutant", "not a number", "not a pair"],
)
def test_bad_properties_give_one_line_and_exit_code_254(processes: Any, line: str, message: str) -> None:
    path = processes.directory / "bad.properties"
    path.write_text(processes.properties(1) + line + "\n")
    command = ["-m", "nodes.reference", str(path)]
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=20)
    assert run.returncode == 254
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith(f"{path}: {message}")


def describe(libs: Path, port: int, option: str) -> str:
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    command = ["java", "-cp", f"{libs}/*", tool, "--bootstrap-controller", f"127.0.0.1:{port}", "describe", option]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.kafka
def test_kafkas_own_tool_describes_the_quorum(processes: Any, kafka_libs: Path) -> None:
    """DQ-05 and DQ-06: from any node, the tool finds the leader and the replicas' progress."""

    async def scenario() -> tuple[int, Any]:
        processes.start(1, 2, 3)
        leader: tuple[int, Any] = await processes.leader()
        return leader

    leader, partition = asyncio.run(scenario())
    follower = next(node for node in (1, 2, 3) if node != leader)
    status = dict(
        re.findall(r"^(\w+):\s+(.*)$", describe(kafka_libs, processes.ports[follower], "--status"), re.MULTILINE)
    )
    assert (int(status["LeaderId"]), int(status["LeaderEpoch"])) == (leader, partition.leader_epoch)
    assert int(status["HighWatermark"]) >= partition.high_watermark
    assert int(status["MaxFollowerLag"]) <= 1
    assert {voter["id"] for voter in json.loads(status["CurrentVoters"])} == {1, 2, 3}
    rows = [line.split() for line in describe(kafka_libs, processes.ports[leader], "--replication").splitlines()[1:]]
    assert {int(row[0]): row[-1] for row in rows} == {
        node: "Leader" if node == leader else "Follower" for node in (1, 2, 3)
    }
