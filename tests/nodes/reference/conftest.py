"""Real reference processes on loopback ports, in the test's directory."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.model import PeerFailure
from nodes.kafka.artifacts import Library
from nodes.wire import codec
from nodes.wire.connection import WireConnection

QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def free_ports(count: int) -> list[int]:
    """Ports that are probably free."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Processes:
    """Three voters as processes."""

    def __init__(self, directory: Path, **switches: object) -> None:
        self.directory, self._switches = directory, switches
        self.ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *nodes: int) -> None:
        """Start nodes from their directories."""
        for node in nodes:
            path = self.directory / f"{node}.properties"
            path.write_text(self.properties(node))
            with self.log(node).open("ab") as log:
                command = [sys.executable, "-m", "nodes.reference", str(path)]
                self.running[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def properties(self, node: int) -> str:
        """The node's properties file."""
        voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in self.ports.items())
        pairs = {
            "process.roles": "controller",
            "node.id": node,
            "controller.quorum.voters": voters,
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node]}",
            "log.dirs": self.directory / str(node),
        }
        return "".join(f"{key}={value}\n" for key, value in (pairs | self._switches).items())

    def log(self, node: int) -> Path:
        """The file with the node's output."""
        return self.directory / f"{node}.log"

    def kill(self, node: int) -> None:
        """Send SIGKILL and wait."""
        self.running[node].kill()
        self.running.pop(node).wait()

    def stop(self, node: int) -> int:
        """Send SIGTERM, wait, and return the exit code."""
        self.running[node].terminate()
        return self.running.pop(node).wait(timeout=10)

    def connection(self, node: int) -> WireConnection:
        """A client's connection."""
        return WireConnection("127.0.0.1", self.ports[node], "test")

    async def call(self, node: int, api_key: int, values: dict[str, Any]) -> Any:
        """Send one request on a new connection and return the response."""
        connection = self.connection(node)
        try:
            return await connection.call_latest(api_key, values, 1_000)
        finally:
            await connection.close()

    async def leader(self, among: set[int] | None = None, limit_s: float = 15) -> tuple[int, Any]:
        """The leader, once it has committed a record of its epoch, and its DescribeQuorum partition."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            for node in among or set(self.running):
                try:
                    response = await self.call(node, codec.DESCRIBE_QUORUM, QUORUM)
                except PeerFailure:
                    continue
                partition = response.topics[0].partitions[0]
                if partition.error_code == codec.ErrorCode.none and partition.high_watermark > 0:
                    return node, partition
            await asyncio.sleep(0.02)
        raise AssertionError(f"no leader in {limit_s} s among {among or set(self.running)}")

    async def logged(self, node: int, text: str, limit_s: float = 15) -> None:
        """Wait until the node's output has this text."""
        deadline = time.monotonic() + limit_s
        while text not in self.log(node).read_text():
            assert time.monotonic() < deadline, f"n{node} did not log {text!r} in {limit_s} s"
            await asyncio.sleep(0.02)


@pytest.fixture(name="processes")
def running_processes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Processes]:
    """Processes, not yet started; killed after the test. Parametrize indirectly with switches."""
    processes = Processes(tmp_path, **getattr(request, "param", {}))
    yield processes
    for node in list(processes.running):
        processes.kill(node)


@pytest.fixture(name="kafka_libs")
def kafka_jars() -> Path:
    """The jars of the newest complete release of Kafka 4, for its tools."""
    return asyncio.run(Library.default().resolve("newest 4")).jars
