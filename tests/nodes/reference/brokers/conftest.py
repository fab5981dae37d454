"""Real reference processes with brokers on loopback ports; the first three are voters too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from tests.nodes.reference.conftest import Processes, free_ports

SHORT_SESSIONS = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 300}


VOTERS = 3


class Brokers(Processes):
    """Nodes that are brokers."""

    def __init__(self, directory: Path, nodes: int = VOTERS, **switches: object) -> None:
        super().__init__(directory, **(SHORT_SESSIONS | switches))
        numbers, ports = range(1, nodes + 1), free_ports(2 * nodes)
        self.ports = dict(zip(numbers, ports[:nodes], strict=True))
        self.client_ports = dict(zip(numbers, ports[nodes:], strict=True))
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        """All brokers' addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports.values())

    def properties(self, node: int) -> str:
        """The node's properties file."""
        own = f"127.0.0.1:{self.ports[node]}", f"127.0.0.1:{self.client_ports[node]}"
        listeners = "listeners=CONTROLLER://{},PLAINTEXT://{}\n".format(*own)
        voters = ",".join(f"{voter}@127.0.0.1:{self.ports[voter]}" for voter in range(1, VOTERS + 1))
        own_lines = [f"controller.quorum.voters={voters}\n", "process.roles=broker,controller\n", listeners]
        replaced = tuple(line.partition("=")[0] + "=" for line in own_lines)
        lines = super().properties(node).splitlines(keepends=True)
        return "".join([*(line for line in lines if not line.startswith(replaced)), *own_lines])

    def seen(self, holds: Callable[[ClusterMetadata], bool], limit_s: float = 20) -> ClusterMetadata:
        """What the brokers say, once this holds."""
        deadline = time.monotonic() + limit_s
        while True:
            seen: object = None
            with suppress(KafkaException):  # the broker that librdkafka asked has been killed
                seen = metadata = self.admin.list_topics(timeout=2)
                if holds(metadata):
                    return metadata
            assert time.monotonic() < deadline, f"not within {limit_s} s: {seen}"
            time.sleep(0.05)

    def all_live(self) -> ClusterMetadata:
        """What the brokers say once all of them are live."""
        return self.seen(lambda metadata: metadata.brokers.keys() == self.running.keys())


@pytest.fixture
def brokers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Started brokers, killed after the test. Parametrize indirectly with switches."""
    processes = Brokers(tmp_path, **getattr(request, "param", {}))
    processes.start(*processes.ports)
    yield processes
    for node in list(processes.running):
        processes.kill(node)
