"""What the nodes of a quorum are: controllers, brokers, or both, and at which ports they listen (KIP-500).

Contains the vocabulary of `--layout` and process.roles. What a node of a role does is the system's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from harness.model.errors import BadInput

CONTROLLER_PORT = 9093
CLIENT_PORT = 9092
REPLICATION_PORT = 9094
"""Brokers replicate on a listener of its own, so that a fault can cut replication but not heartbeats."""


class Layout(Enum):
    """What the nodes are, unless their own process.roles says otherwise."""

    CONTROLLERS = "controllers"
    COMBINED = "combined"
    ZOOKEEPER = "zookeeper"
    """Brokers, and ZooKeeper on the last node."""


class Roles(Enum):
    """process.roles of a node."""

    CONTROLLER = "controller"
    BROKER = "broker"
    COMBINED = "broker,controller"

    @property
    def are_controller(self) -> bool:
        """Whether the node is a controller, which can be a voter."""
        return self is not Roles.BROKER

    @property
    def are_broker(self) -> bool:
        """Whether the node serves clients."""
        return self is not Roles.CONTROLLER


OF_LAYOUT = {Layout.CONTROLLERS: Roles.CONTROLLER, Layout.COMBINED: Roles.COMBINED}


def roles_of(layout: Layout, switches: Mapping[str, str]) -> Roles:
    """A node's roles: its own process.roles, or those of its layout. Raises BadInput for roles that do not exist."""
    own = switches.get("process.roles")
    if own is None:
        return OF_LAYOUT[layout]
    try:
        return Roles(",".join(sorted(name.strip() for name in own.split(","))))
    except ValueError:
        expected = "expected controller, broker, or broker,controller"
        raise BadInput(f"process.roles={own}: {expected}") from None
