"""What Kafka and the reference system share: both are KRaft quorums that speak Kafka's protocol and keep Kafka's files.

Contains the observer, the connections, the requests and the register clients of such quorums.
"""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from harness.model.faults.membership import Membership
from harness.model.faults.reassignment import QuorumVoters
from harness.model.faults.requests import Requests
from harness.model.layouts import CONTROLLER_PORT, Layout, Roles, roles_of
from harness.model.session import Connection
from harness.model.systems import ClusterSpec, NodeAccess, Observer, ObserverContext
from nodes.clocks.line_times import LineTimes
from nodes.kafka.membership import KafkaMembership, SingleChanges
from nodes.kafka.partition_moves import PartitionMoves
from nodes.kafka.requests import KafkaRequests
from nodes.observe.watch import QuorumWatch
from nodes.probe.partition_session import PartitionSession
from nodes.probe.voter_session import Changes, VoterSession
from nodes.probe.voters import ReferenceVoters, WholeChanges
from nodes.wire.connection import WireConnection
from nodes.wire.produce import write_batch
from workloads.reassignment import VotersClient
from workloads.register import ReadsAt, RegisterClient, RegisterSession
from workloads.workload import ClusterAccess

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


def nodes_with(cluster: ClusterSpec, has_role: Callable[[Roles], bool]) -> list[int]:
    """The nodes of a quorum whose roles are such."""
    layout = Layout(cluster.layout)
    return [node for node in cluster.numbers if has_role(roles_of(layout, cluster.switches.get(node, {})))]


@asynccontextmanager
async def open_membership(
    access: NodeAccess, controllers: Mapping[int, int], brokers: Iterable[int]
) -> AsyncIterator[Membership]:
    """The membership of a running cluster; controllers are ports, none with ZooKeeper."""
    addresses = {node: view.address for node, view in access.views.items()}
    membership = KafkaMembership(addresses, controllers, brokers, partial(_connect_to, access), access.leader)
    try:
        yield membership
    finally:
        await membership.close()


@asynccontextmanager
async def open_voters(access: NodeAccess, controllers: Mapping[int, int]) -> AsyncIterator[QuorumVoters]:
    """The voters of a running cluster that are reassigned as a whole (KIP-642)."""
    voters = ReferenceVoters(controllers, partial(_connect_to, access), access.leader)
    try:
        yield voters
    finally:
        await voters.close()


@asynccontextmanager
async def open_requests(
    access: NodeAccess, controllers: Mapping[int, int], brokers: Iterable[int]
) -> AsyncIterator[Requests]:
    """Requests to nodes of a running cluster."""
    requests = KafkaRequests(controllers, brokers, partial(_connect_to, access), access.leader, write_batch)
    try:
        yield requests
    finally:
        await requests.close()


def _connect_to(access: NodeAccess, node: int, client_id: str, port: int) -> Connection:
    return access.connect(node, port, client_id)


def voters_client(as_a_whole: bool, requires: Mapping[str, str]) -> VotersClient:
    """Voters that clients change: as a whole (KIP-642) or one at a time (KIP-853)."""

    def make_session(access: ClusterAccess, process: int) -> VoterSession:
        changes: Changes
        if as_a_whole:
            changes = WholeChanges(access.controllers, access.connect)
        else:
            changes = SingleChanges(access.controller_addresses, CONTROLLER_PORT, access.connect)
        return VoterSession(access.controllers, access.connect, process, changes)

    return VotersClient(make_session, as_a_whole, requires)


def partition_session(access: ClusterAccess, process: int) -> PartitionSession:
    """Partitions that clients move between brokers."""
    controllers = access.controller_addresses
    moves = PartitionMoves(controllers, CONTROLLER_PORT, access.connect, access.nodes, access.connect_client)
    return PartitionSession(access.controllers, access.connect, process, moves)


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
