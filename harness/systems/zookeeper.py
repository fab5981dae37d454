"""Kafka's layout `zookeeper`: brokers on all nodes but the last, which is ZooKeeper.

Contains what harness/systems/kafka.py needs of this layout: its nodes, its observer and its refusals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.model import BadInput
from harness.model.layouts import CLIENT_PORT, Layout
from harness.model.systems import ClusterSpec, Observer, ObserverContext
from harness.systems.kraft import connect
from nodes.clocks.line_times import LineTimes
from nodes.kafka.artifacts import Release
from nodes.kafka.versions import KafkaVersion
from nodes.kafka.zookeeper import ZOOKEEPER_PORT, ZooKeeperSystem
from nodes.observe.brokers.watch import BrokerWatch

NAME = Layout.ZOOKEEPER.value
NO_VOTERS = f"ZooKeeper elects the controller of --layout {NAME}; there are no voters"
NO_QUORUM_LOG = f"its effect is the log of a quorum, which --layout {NAME} does not have; use create_partition"
UNAVAILABLE: Mapping[str, str] = {"voters": NO_VOTERS, "create_topic": NO_QUORUM_LOG}


def refuse_without_zookeeper(version: KafkaVersion, cluster: ClusterSpec) -> None:
    """Raise BadInput for a release without ZooKeeper, for options of KRaft, and for a cluster without a broker."""
    if not version.has_zookeeper:
        raise BadInput(
            f"--layout {NAME} with Kafka {version}: expected a release before 4.0, the first without ZooKeeper"
        )
    if cluster.voters is not None:
        raise BadInput(f"--voters {cluster.voters}: not supported by --layout {NAME}, which has no voters")
    if cluster.nodes < 2:
        raise BadInput(f"--nodes {cluster.nodes}: expected at least 2 with --layout {NAME}, a broker and ZooKeeper")


def system_of(release: Release, switches: Mapping[str, str], cluster: ClusterSpec) -> ZooKeeperSystem:
    """What a node of this layout runs. Raises BadInput."""
    refuse_without_zookeeper(release.version, cluster)
    return ZooKeeperSystem(release, zookeeper_node=cluster.nodes, overrides=switches)


def brokers_among(nodes: Collection[int]) -> tuple[int, ...]:
    """The brokers: all nodes but the last."""
    return tuple(sorted(nodes)[:-1])


def observe_brokers(context: ObserverContext) -> Observer:
    """The observer of brokers and ZooKeeper."""
    brokers = brokers_among(context.views)
    files = {node: context.files[node] for node in brokers}
    connections = {node: connect(context.views[node].bound, CLIENT_PORT, "splitbrain-watch") for node in brokers}
    zookeeper = (context.views[max(context.views)].bound, ZOOKEEPER_PORT)
    record = LineTimes(context.now_ns, context.observe).observe
    return BrokerWatch(context.now_ns, context.wall_origin_ns, record, files, connections, zookeeper)
