"""What Kafka and the reference system share: both are KRaft quorums that speak Kafka's protocol and keep Kafka's files.

Contains the observer, the connections and the register clients of such quorums.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping

from harness.model.session import Connection
from harness.model.systems import CONTROLLER_PORT, ClusterSpec, Observer, ObserverContext
from nodes.clocks.line_times import LineTimes
from nodes.observe.watch import QuorumWatch
from nodes.wire.connection import WireConnection
from workloads.register import ReadsAt, RegisterClient, RegisterSession

CHECKS = ("quorum", "divergence")


def connect(address: str, port: int, client_id: str) -> Connection:
    """A connection that speaks Kafka's protocol, opened at its first use."""
    return WireConnection(address, port, client_id)


def observe_quorum(
    context: ObserverContext, controllers: Mapping[int, int] | None = None, brokers: Mapping[int, int] | None = None
) -> Observer:
    """The observer of a KRaft quorum. controllers and brokers are the ports of nodes with these roles; if not given,
    all nodes are controllers on CONTROLLER_PORT, and none is a broker."""
    ports = (controller_ports(context.cluster) if controllers is None else controllers, brokers or {})
    of_controllers, of_brokers = (
        {node: connect(context.views[node].bound, port, "splitbrain-watch") for node, port in each.items()}
        for each in ports
    )
    record = LineTimes(context.now_ns, context.observe).observe
    return QuorumWatch(context.now_ns, context.wall_origin_ns, record, context.files, of_controllers, of_brokers)


def controller_ports(cluster: ClusterSpec) -> dict[int, int]:
    """The port of each node of a cluster whose nodes are all controllers."""
    return dict.fromkeys(cluster.numbers, CONTROLLER_PORT)


def register_client(reads_at: ReadsAt) -> RegisterClient:
    """Registers in the quorum's metadata. Reads at the leader are linearizable; those at any node promise less."""
    is_linearizable = reads_at == "leader"
    return RegisterClient(
        lambda access, process: RegisterSession(access.controllers, access.connect, process, reads_at),
        check="register" if is_linearizable else "promised-reads",
        has_batches=is_linearizable,
    )


def cluster_id(seed: int) -> str:
    """The cluster's id, from the plan's seed."""
    return uuid(f"cluster {seed}")


def uuid(seed: str) -> str:
    """Sixteen bytes from the seed in Kafka's base64, never with a leading dash, which Kafka's tools take for a flag."""
    raw = random.Random(seed).randbytes(16)
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")
