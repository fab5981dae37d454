"""Real Apache Kafka as a system under test: KRaft, and before 4.0 also brokers with ZooKeeper (--layout zookeeper)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from harness.model import BadInput
from harness.model.conditions import OF_BROKERS
from harness.model.faults.membership import Membership
from harness.model.faults.probe import Probe
from harness.model.faults.requests import Requests
from harness.model.hosts import HostView
from harness.model.story import Step
from harness.model.systems import (
    CONTROLLER_PORT,
    ClusterSpec,
    NodeAccess,
    NodeSystem,
    Observer,
    ObserverContext,
    ResolvedVersion,
    Switch,
    SystemKind,
)
from harness.model.transition_rules import TransitionRules
from harness.systems import zookeeper
from harness.systems.kraft import CHECKS, cluster_id, connect, observe_quorum, register_client, uuid
from harness.systems.probe import open_probe, why_refused
from nodes.kafka.artifacts import Library
from nodes.kafka.configuration import CLIENT_PORT, REPLICATION_PORT, Layout
from nodes.kafka.membership import KafkaMembership
from nodes.kafka.requests import KafkaRequests
from nodes.kafka.system import JMX_PORT, KafkaSystem
from nodes.kafka.system import label as kafka_label
from nodes.kafka.versions import KafkaVersion
from nodes.kafka.zookeeper import BROKER_PORTS
from nodes.observe.log_batches import QUORUM_LOG
from nodes.wire.produce import write_batch

NAME = "kafka"
NO_BROKERS = "only a cluster with brokers has members that change; use --layout combined or zookeeper"
NO_PARTITIONS = "only brokers have partitions and sessions; use --layout combined or zookeeper"
NO_TOPICS = "only brokers have topics; use --layout combined or zookeeper"
STATIC_QUORUM = "the voters of a static quorum never change; use --voters N with Kafka 3.9 or later (KIP-853)"


async def _resolve(version: str, report: Callable[[str], None]) -> ResolvedVersion:
    release = await Library.default(report).resolve(version)
    return ResolvedVersion(str(release.version), {"kafka": str(release.version), "kafka_chosen": release.why})


def _node(version: str, switches: Mapping[str, str], cluster: ClusterSpec) -> NodeSystem:
    parsed = KafkaVersion.parse(version)
    release = next((release for release in Library.default().installed() if release.version == parsed), None)
    if release is None:
        raise BadInput(f"Kafka {parsed}: not on this machine; run splitbrain kafka install {parsed}")
    if cluster.features and not parsed.has_features:
        raise BadInput(f"--feature with Kafka {parsed}: expected 4.0 or later, which has feature levels (KIP-1022)")
    if Layout(cluster.layout) is Layout.ZOOKEEPER:
        return zookeeper.system_of(release, switches, cluster)
    oldest = min(map(KafkaVersion.parse, cluster.versions | {version}))
    return KafkaSystem(
        release,
        Layout(cluster.layout),
        cluster_id(cluster.seed),
        overrides=switches,
        features=cluster.features,
        metadata_release=oldest if oldest < parsed else None,
        initial_voters=_initial_voters(cluster, parsed),
    )


def _initial_voters(cluster: ClusterSpec, version: KafkaVersion) -> dict[int, str] | None:
    """The first nodes with a directory id each, in a quorum with dynamic voters; None in a static one."""
    if cluster.voters is None:
        return None
    if cluster.voters > cluster.nodes:
        raise BadInput(f"--voters {cluster.voters}: expected at most the number of nodes, {cluster.nodes}")
    if not version.has_dynamic_quorum:
        raise BadInput(f"--voters {cluster.voters}: expected Kafka 3.9 or later, whose voters can change (KIP-853)")
    return {node: uuid(f"directory {cluster.seed} {node}") for node in range(1, cluster.voters + 1)}


def _rules(version: str, _switches: Mapping[str, str]) -> TransitionRules:
    return KafkaVersion.parse(version).transition_rules


def _unavailable(layout: str, voters: int | None) -> Mapping[str, str]:
    if Layout(layout) is Layout.ZOOKEEPER:
        return zookeeper.UNAVAILABLE
    reasons: dict[str, str] = {}
    if Layout(layout) is Layout.CONTROLLERS:
        reasons = {**dict.fromkeys(OF_BROKERS, NO_PARTITIONS), "membership": NO_BROKERS, "requests": NO_TOPICS}
    return reasons if voters is not None else {**reasons, "voters": STATIC_QUORUM}


def _observe(context: ObserverContext) -> Observer:
    if Layout(context.layout) is Layout.ZOOKEEPER:
        return zookeeper.observe_brokers(context)
    return observe_quorum(context, CLIENT_PORT if Layout(context.layout) is Layout.COMBINED else None)


def _ports(layout: str) -> Sequence[int]:
    ports = {
        Layout.CONTROLLERS: (CONTROLLER_PORT,),
        Layout.COMBINED: (CONTROLLER_PORT, CLIENT_PORT, REPLICATION_PORT),
        Layout.ZOOKEEPER: BROKER_PORTS,
    }
    return ports[Layout(layout)]


def _foreign(layout: str) -> str | None:
    return "ZooKeeper" if Layout(layout) is Layout.ZOOKEEPER else None


def _serving(layout: str, nodes: Sequence[int]) -> Sequence[int]:
    return zookeeper.brokers_among(nodes) if Layout(layout) is Layout.ZOOKEEPER else nodes


@asynccontextmanager
async def _membership(access: NodeAccess) -> AsyncIterator[Membership]:
    has_quorum, views = Layout(access.layout) is not Layout.ZOOKEEPER, _brokers(access)
    membership = KafkaMembership(
        {node: view.address for node, view in views.items()},
        lambda node, client_id, port: connect(views[node].bound, port, client_id),
        access.leader,
        has_quorum,
    )
    try:
        yield membership
    finally:
        await membership.close()


@asynccontextmanager
async def _requests(access: NodeAccess) -> AsyncIterator[Requests]:
    layout = Layout(access.layout)
    requests = KafkaRequests(
        () if layout is Layout.ZOOKEEPER else access.views,
        () if layout is Layout.CONTROLLERS else _brokers(access),
        lambda node, client_id, port: connect(access.views[node].bound, port, client_id),
        access.leader,
        write_batch,
    )
    try:
        yield requests
    finally:
        await requests.close()


def _probe(access: NodeAccess) -> AbstractAsyncContextManager[Probe]:
    layout = Layout(access.layout)
    brokers = () if layout is Layout.CONTROLLERS else _brokers(access)
    return open_probe(access, CLIENT_PORT, brokers, access.version, has_quorum=layout is not Layout.ZOOKEEPER)


def _refuses(step: Step, version: str, layout: str) -> str | None:
    return why_refused(step, version, has_brokers=Layout(layout) is not Layout.CONTROLLERS)


def _brokers(access: NodeAccess) -> Mapping[int, HostView]:
    return {node: access.views[node] for node in _serving(access.layout, sorted(access.views))}


KAFKA = SystemKind(
    name=NAME,
    summary="real Apache Kafka; kafka:VERSION, or kafka for the newest 4.x",
    node=_node,
    observe=_observe,
    ports=_ports,
    default_version="newest 4",
    resolve=_resolve,
    label=lambda version, switches: kafka_label(KafkaVersion.parse(version), switches),
    rules=_rules,
    connect=connect,
    client_port=CLIENT_PORT,
    serving=_serving,
    clients={"register": register_client("any node"), "brokers": CLIENT_PORT},
    checks=CHECKS,
    unavailable=_unavailable,
    membership=_membership,
    requests=_requests,
    probe=_probe,
    refuses=_refuses,
    foreign=_foreign,
    accepts=lambda name: not name.startswith("reference."),
    has_features=lambda version: KafkaVersion.parse(version).has_features,
    switches=lambda: (
        Switch("NAME", "as in server.properties", "Kafka's", "any property of Kafka's server.properties"),
        Switch(JMX_PORT, "a port", "", "the JVM serves its metrics there (JMX), without authentication"),
    ),
    metadata_log=QUORUM_LOG,
)
