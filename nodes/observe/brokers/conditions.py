"""Evaluates the conditions of harness.model.conditions on what ZooKeeper and the brokers last reported.

The leader of such a cluster is its controller. Each condition is a pure function of the last reports.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.model.conditions import Condition
from nodes.observe.brokers import partitions
from nodes.observe.brokers.metadata import BrokerMetadata
from nodes.observe.brokers.partitions import PartitionsView
from nodes.observe.brokers.sessions import Sessions


@dataclass(frozen=True, slots=True)
class BrokerView:
    """The cluster as last seen: all brokers of the run, ZooKeeper's sessions (None while it does not answer), and what
    the brokers reported."""

    nodes: tuple[int, ...]
    sessions: Sessions | None = None
    partitions: PartitionsView = field(default_factory=PartitionsView)

    def leader(self) -> int | None:
        """The broker that ZooKeeper has as the controller, if it responds: a dead one has its session for a while."""
        controller = self.sessions.controller if self.sessions is not None else None
        return controller if controller in self.partitions.metadata else None

    def known_controller(self, broker: int) -> int | None:
        """The controller that a broker names; None if it names none or does not respond."""
        return self.partitions.metadata.get(broker, BrokerMetadata()).controller


def holds(condition: Condition, view: BrokerView) -> bool:
    """Whether the condition holds; False for conditions that only a quorum has."""
    node = condition.node
    if condition.name == "leader_known":
        return _leader_known(view)
    if condition.name == "all_follow_leader":
        return _all_follow_leader(view)
    if condition.name == "brokers_live":
        return partitions.all_live(view.partitions)
    if condition.name == "all_follow":
        return view.leader() == node and _all_follow_leader(view)
    if condition.name == "is_not_leader":
        return _leader_known(view) and view.leader() != node
    if condition.name == "session_lost":
        return view.sessions is not None and node not in view.sessions.brokers
    return partitions.holds(condition, view.partitions)


def _leader_known(view: BrokerView) -> bool:
    """ZooKeeper has a controller, and that broker answers as the controller."""
    controller = view.leader()
    return controller is not None and view.known_controller(controller) == controller


def _all_follow_leader(view: BrokerView) -> bool:
    """Every broker is registered, and answers with the controller that ZooKeeper has."""
    sessions, controller = view.sessions, view.leader()
    if sessions is None or controller is None or not sessions.brokers.issuperset(view.nodes):
        return False
    return all(view.known_controller(broker) == controller for broker in view.nodes)
