"""Real reference processes with brokers, each also a voter, on loopback ports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ClusterMetadata

from tests.nodes.reference.conftest import Processes, free_ports

SHORT_SESSIONS = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 300}


class Brokers(Processes):
    """Three nodes, each a voter and a broker."""

    def __init__(self, directory: Path, **switches: object) -> None:
        super().__init__(directory, **(SHORT_SESSIONS | switches))
        self.client_ports = dict(zip(self.ports, free_ports(3), strict=True))
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        """All brokers' addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def properties(self, node: int) -> str:
        """The node's properties file."""
        own = f"127.0.0.1:{self.ports[node]}", f"127.0.0.1:{self.client_ports[node]}"
        listeners = "listeners=CONTROLLER://{},PLAINTEXT://{}\n".format(*own)
        lines = super().properties(node).splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(("process.roles=", "listeners="))]
        return "".join([*kept, "process.roles=broker,controller\n", listeners])

    def seen(self, holds: Callable[[ClusterMetadata], bool], limit_s: float = 20) -> ClusterMetadata:
        """What the brokers say, once this holds."""
        deadline = time.monotonic() + limit_s
        while True:
            metadata = self.admin.list_topics(timeout=limit_s)
            if holds(metadata):
                return metadata
            assert time.monotonic() < deadline, f"not within {limit_s} s: {metadata.brokers} {metadata.topics}"
            time.sleep(0.05)

    def all_live(self) -> ClusterMetadata:
        """What the brokers say once all of them are live."""
        return self.seen(lambda metadata: metadata.brokers.keys() == self.running.keys())


@pytest.fixture
def brokers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Started brokers, killed after the test. Parametrize indirectly with switches."""
    processes = Brokers(tmp_path, **getattr(request, "param", {}))
    processes.start(1, 2, 3)
    yield processes
    for node in list(processes.running):
        processes.kill(node)
