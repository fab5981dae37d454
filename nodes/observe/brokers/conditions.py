"""Evaluates the conditions of harness.model.conditions on what ZooKeeper and the brokers last reported.

The leader of such a cluster is its controller. Each condition is a pure function of the last reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.conditions import Condition
from nodes.observe.brokers.metadata import BrokerMetadata, PartitionState
from nodes.observe.brokers.sessions import Sessions


@dataclass(frozen=True, slots=True)
class BrokerView:
    """The cluster as last seen.

    nodes are all brokers of the run. sessions are None while ZooKeeper does not answer. metadata has the brokers that
    responded to the last request. failed are, by broker, the partitions in which its fetcher failed since it started.
    """

    nodes: tuple[int, ...]
    sessions: Sessions | None = None
    metadata: Mapping[int, BrokerMetadata] = field(default_factory=dict)
    failed: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def leader(self) -> int | None:
        """The broker that ZooKeeper has as the controller, if it responds: a dead one has its session for a while."""
        controller = self.sessions.controller if self.sessions is not None else None
        return controller if controller in self.metadata else None


def holds(condition: Condition, view: BrokerView) -> bool:
    """Whether the condition holds; False for conditions that only a quorum has."""
    node, partition = condition.node, condition.partition
    if condition.name == "leader_known":
        return _leader_known(view)
    if condition.name == "all_follow_leader":
        return _all_follow_leader(view)
    if node is None:
        return False
    if condition.name == "all_follow":
        return view.leader() == node and _all_follow_leader(view)
    if condition.name == "is_not_leader":
        return _leader_known(view) and view.leader() != node
    if condition.name == "session_lost":
        return view.sessions is not None and node not in view.sessions.brokers
    return partition is not None and _holds_of_partition(condition.name, node, partition, view)


def _leader_known(view: BrokerView) -> bool:
    """ZooKeeper has a controller, and that broker answers as the controller."""
    controller = view.leader()
    return controller is not None and view.metadata.get(controller, BrokerMetadata()).controller == controller


def _all_follow_leader(view: BrokerView) -> bool:
    """Every broker is registered, and answers with the controller that ZooKeeper has."""
    sessions, controller = view.sessions, view.leader()
    if sessions is None or controller is None or not sessions.brokers.issuperset(view.nodes):
        return False
    return all(view.metadata.get(broker, BrokerMetadata()).controller == controller for broker in view.nodes)


def _holds_of_partition(name: str, node: int, partition: str, view: BrokerView) -> bool:
    state = leader_state(partition, view)
    is_in_sync = state is not None and node in state.in_sync
    if name == "leads_partition":
        return state is not None and state.leader == node
    if name == "in_sync":
        return is_in_sync
    return name == "replication_settled" and (is_in_sync or partition in view.failed.get(node, frozenset()))


def leader_state(partition: str, view: BrokerView) -> PartitionState | None:
    """The partition as its leader reports it; None if no broker leads it that all who respond could know of."""
    states = {node: seen.partitions[partition] for node, seen in view.metadata.items() if partition in seen.partitions}
    last_epoch = max((state.epoch for state in states.values()), default=-1)
    leading = [state for node, state in states.items() if state.leader == node and state.epoch == last_epoch]
    return leading[0] if leading else None
