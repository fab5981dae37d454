"""Real Apache Kafka as a system under test: KRaft, and before 4.0 also brokers with ZooKeeper (--layout zookeeper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from harness.model import BadInput
from harness.model.conditions import OF_BROKERS
from harness.model.faults.probe import Probe
from harness.model.layouts import CLIENT_PORT, CONTROLLER_PORT, REPLICATION_PORT, Layout, roles_of
from harness.model.story import Step
from harness.model.systems import (
    CLUSTER_ID,
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
from harness.systems.kraft import (
    CHECKS,
    cluster_id,
    connect,
    nodes_with,
    observe_quorum,
    open_membership,
    open_requests,
    partition_session,
    register_client,
    uuid,
    voters_client,
)
from harness.systems.probe import open_probe, why_refused
from nodes.kafka.artifacts import Library
from nodes.kafka.configuration import (
    BOOTSTRAP_NODES,
    CONTROLLER_PORT_PROPERTY,
    FORMAT,
    JMX_PORT,
    SYNC_FORMAT,
    bootstrap_nodes,
    controller_port,
)
from nodes.kafka.system import FORMATS, KafkaSystem
from nodes.kafka.system import label as kafka_label
from nodes.kafka.versions import KafkaVersion
from nodes.kafka.zookeeper import BROKER_PORTS
from nodes.observe.log_batches import QUORUM_LOG
from nodes.simulation.kafka.drivers import play_kafka, simulated_kafka
from nodes.simulation.kafka.jars import RaftLibrary

NAME = "kafka"
NO_BROKERS = "only a cluster with brokers has members that change; use --layout combined or zookeeper"
NO_PARTITIONS = "only brokers have partitions and sessions; use --layout combined or zookeeper"
NO_TOPICS = "only brokers have topics; use --layout combined or zookeeper"
STATIC_QUORUM = "the voters of a static quorum never change; use --voters N with Kafka 3.9 or later (KIP-853)"


async def _resolve(version: str, report: Callable[[str], None]) -> ResolvedVersion:
    release = await Library.default(report).resolve(version)
    return ResolvedVersion(str(release.version), {"kafka": str(release.version), "kafka_chosen": release.why})


async def _resolve_simulated(version: str, report: Callable[[str], None]) -> ResolvedVersion:
    release = await RaftLibrary.default(report).resolve(version)
    return await _resolve(str(release.version), report)


def _node(version: str, switches: Mapping[str, str], cluster: ClusterSpec) -> NodeSystem:
    parsed = KafkaVersion.parse(version)
    release = next((release for release in Library.default().installed() if release.version == parsed), None)
    if release is None:
        raise BadInput(f"Kafka {parsed}: not on this machine; run splitbrain kafka install {parsed}")
    if cluster.features and not parsed.has_features:
        raise BadInput(f"--feature with Kafka {parsed}: expected 4.0 or later, which has feature levels (KIP-1022)")
    if Layout(cluster.layout) is Layout.ZOOKEEPER:
        return zookeeper.system_of(release, switches, cluster)
    _check_format(switches, cluster, parsed)
    bootstrap_nodes(switches, _controllers(cluster))
    oldest = min(map(KafkaVersion.parse, cluster.versions | {version}))
    return KafkaSystem(
        release,
        roles_of(Layout(cluster.layout), switches),
        _controllers(cluster),
        cluster_id(cluster.seed),
        overrides=switches,
        features=cluster.features,
        metadata_release=oldest if oldest < parsed else None,
        initial_voters=_initial_voters(cluster, parsed),
    )


def _controllers(cluster: ClusterSpec) -> dict[int, int]:
    """The port of each controller of a quorum; none with ZooKeeper."""
    layout = Layout(cluster.layout)
    if layout is Layout.ZOOKEEPER:
        return {}
    own = {node: cluster.switches.get(node, {}) for node in cluster.numbers}
    return {node: controller_port(each) for node, each in own.items() if roles_of(layout, each).are_controller}


def _brokers(cluster: ClusterSpec) -> Sequence[int]:
    """The nodes that serve clients."""
    layout = Layout(cluster.layout)
    if layout is Layout.ZOOKEEPER:
        return zookeeper.brokers_among(cluster.numbers)
    return nodes_with(cluster, lambda roles: roles.are_broker)


def _check_format(switches: Mapping[str, str], cluster: ClusterSpec, version: KafkaVersion) -> None:
    if (synced := switches.get(SYNC_FORMAT, "true")) not in ("true", "false"):
        raise BadInput(f"{SYNC_FORMAT}={synced}: expected true or false")
    given = switches.get(FORMAT)
    if given is not None and given not in FORMATS:
        raise BadInput(f"{FORMAT}={given}: expected {', '.join(FORMATS)}")
    if given is not None and (cluster.voters is None or not version.has_dynamic_quorum):
        raise BadInput(f"{FORMAT}={given}: expected a quorum with dynamic voters (--voters N, KIP-853)")


def _initial_voters(cluster: ClusterSpec, version: KafkaVersion) -> dict[int, str] | None:
    """The first nodes with a directory id each, in a quorum with dynamic voters; None in a static one."""
    if cluster.voters is None:
        return None
    if cluster.voters > cluster.nodes:
        raise BadInput(f"--voters {cluster.voters}: expected at most the number of nodes, {cluster.nodes}")
    if not version.has_dynamic_quorum:
        raise BadInput(f"--voters {cluster.voters}: expected Kafka 3.9 or later, whose voters can change (KIP-853)")
    initial, controllers = range(1, cluster.voters + 1), _controllers(cluster)
    for node in initial:
        if node not in controllers:
            raise BadInput(
                f"--voters {cluster.voters}: expected n{node} to be a controller, its process.roles is broker"
            )
    return {node: uuid(f"directory {cluster.seed} {node}") for node in initial}


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
    cluster = context.cluster
    if Layout(cluster.layout) is Layout.ZOOKEEPER:
        return zookeeper.observe_brokers(context)
    return observe_quorum(context, _controllers(cluster), dict.fromkeys(_brokers(cluster), CLIENT_PORT))


def _ports(layout: str) -> Sequence[int]:
    ports = {
        Layout.CONTROLLERS: (CONTROLLER_PORT,),
        Layout.COMBINED: (CONTROLLER_PORT, CLIENT_PORT, REPLICATION_PORT),
        Layout.ZOOKEEPER: BROKER_PORTS,
    }
    return ports[Layout(layout)]


def _foreign(layout: str) -> str | None:
    return "ZooKeeper" if Layout(layout) is Layout.ZOOKEEPER else None


def _probe(access: NodeAccess) -> AbstractAsyncContextManager[Probe]:
    cluster = access.cluster
    return open_probe(access, _controllers(cluster), CLIENT_PORT, _brokers(cluster), access.version)


def _refuses(step: Step, version: str, layout: str) -> str | None:
    return why_refused(step, version, has_brokers=Layout(layout) is not Layout.CONTROLLERS)


KAFKA = SystemKind(
    name=NAME,
    summary="real Apache Kafka; kafka:VERSION, or kafka for the newest 4.x",
    node=_node,
    observe=_observe,
    ports=_ports,
    default_version="newest 4",
    resolve=_resolve,
    resolve_simulated=_resolve_simulated,
    label=lambda version, switches: kafka_label(KafkaVersion.parse(version), switches),
    rules=_rules,
    connect=connect,
    client_port=CLIENT_PORT,
    serving=_brokers,
    controllers=lambda cluster: sorted(_controllers(cluster)),
    clients={
        "register": register_client("any node"),
        "set": "any node",
        "voters": voters_client(as_a_whole=False, requires={}),
        "partitions": partition_session,
        **dict.fromkeys(("brokers", "consumer groups", "transactions"), CLIENT_PORT),
    },
    checks=CHECKS,
    checks_without_scenario=("liveness", "announcements"),
    unavailable=_unavailable,
    membership=lambda access: open_membership(access, _controllers(access.cluster), _brokers(access.cluster)),
    requests=lambda access: open_requests(access, _controllers(access.cluster), _brokers(access.cluster)),
    probe=_probe,
    refuses=_refuses,
    foreign=_foreign,
    accepts=lambda name: not name.startswith("reference."),
    has_features=lambda version: KafkaVersion.parse(version).has_features,
    has_dynamic_voters=lambda version: not version or KafkaVersion.parse(version).has_dynamic_quorum,
    switches=lambda: (
        Switch("NAME", "as in server.properties", "Kafka's", "any property of Kafka's server.properties"),
        Switch(JMX_PORT, "a port", "", "the JVM serves its metrics there (JMX), without authentication"),
        Switch(CONTROLLER_PORT_PROPERTY, "a port", str(CONTROLLER_PORT), "the node's listener for other controllers"),
        Switch(CLUSTER_ID, "a cluster id", "", "what the node is formatted for, if not the cluster's id"),
        Switch(BOOTSTRAP_NODES, "1,2,…", "", "the nodes that the node's controller.quorum.bootstrap.servers names"),
        Switch(
            SYNC_FORMAT, "true, false", "true", "whether what the storage tool left unsynced is synced before the start"
        ),
        Switch(FORMAT, ", ".join(FORMATS), "", "how the node is formatted, in a quorum with dynamic voters"),
    ),
    metadata_log=QUORUM_LOG,
    simulate=simulated_kafka,
    play=play_kafka,
)
