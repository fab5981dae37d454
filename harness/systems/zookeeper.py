"""Kafka's layout `zookeeper`: brokers on all nodes but the last, which is ZooKeeper.

Contains what harness/systems/kafka.py needs of this layout: its nodes, its observer and its refusals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from harness.model import BadInput
from harness.model.conditions import Condition
from harness.model.systems import ClusterSpec, ObserverContext
from harness.systems.kraft import connect
from nodes.clocks.line_times import LineTimes
from nodes.kafka.artifacts import Release
from nodes.kafka.configuration import CLIENT_PORT, Layout
from nodes.kafka.versions import KafkaVersion
from nodes.kafka.zookeeper import ZOOKEEPER_PORT, ZooKeeperSystem
from nodes.observe.brokers.conditions import holds
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


class ZooKeeperObserver:
    """harness.model.systems.Observer of brokers and ZooKeeper. The leader is the controller."""

    def __init__(self, context: ObserverContext) -> None:
        line_times = LineTimes(context.now_ns, context.observe)
        brokers = brokers_among(context.views)
        self._files = {node: context.files[node] for node in brokers}
        self._connections = {
            node: connect(context.views[node].bound, CLIENT_PORT, "splitbrain-watch") for node in brokers
        }
        self._zookeeper = (context.views[max(context.views)].bound, ZOOKEEPER_PORT)
        self._watch = BrokerWatch(context.now_ns, context.wall_origin_ns, line_times.observe)

    def start(self) -> None:
        """Begin to watch ZooKeeper and the brokers."""
        self._watch.start(self._files, self._connections, self._zookeeper)

    async def stop(self) -> None:
        """Stop watching, and read the rest of the logs."""
        try:
            await self._watch.stop()
        finally:
            for connection in self._connections.values():
                await connection.close()

    def forget(self, node: int) -> None:
        """What was last seen of the node no longer holds."""
        self._watch.forget(node)

    def leader(self) -> int | None:
        """The controller that ZooKeeper has."""
        return self._watch.view().controller()

    def nodes_where(self, condition: str) -> tuple[int, ...]:
        """The nodes for which a condition of single nodes holds now."""
        view = self._watch.view()
        return tuple(node for node in view.brokers if holds(Condition(condition, node), view))

    async def until(self, condition: Mapping[str, Any], timeout_seconds: float) -> bool:
        """Wait until the condition holds; False if it does not in time."""
        return await self._watch.until(Condition.from_json(condition), timeout_seconds)
