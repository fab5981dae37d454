"""server.properties of nodes in each role, as complete text."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model import BadInput
from harness.model.hosts import HostView
from harness.model.layouts import Layout, Roles, roles_of
from nodes.kafka.configuration import (
    BOOTSTRAP_NODES,
    CONTROLLER_PORT_PROPERTY,
    NodeConfiguration,
    bootstrap_nodes,
    controller_port,
    server_properties,
)

HOSTS = {node: HostView(node, f"10.77.0.{node}", f"n{node}", Path(f"/runs/n{node}")) for node in (2, 1, 3)}
PORTS = dict.fromkeys(HOSTS, 9093)

CONTROLLER = """\
node.id=1
controller.quorum.voters=1@10.77.0.1:9093,2@10.77.0.2:9093,3@10.77.0.3:9093
controller.listener.names=CONTROLLER
log.dirs=/runs/n1/data
num.network.threads=2
num.io.threads=2
process.roles=controller
listeners=CONTROLLER://10.77.0.1:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT
"""

COMBINED = """\
node.id=2
controller.quorum.voters=1@10.77.0.1:9093,2@10.77.0.2:9093,3@10.77.0.3:9093
controller.listener.names=CONTROLLER
log.dirs=/runs/n2/data
num.network.threads=2
num.io.threads=2
process.roles=broker,controller
listeners=PLAINTEXT://10.77.0.2:9092,REPLICATION://10.77.0.2:9094,CONTROLLER://10.77.0.2:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT
advertised.listeners=PLAINTEXT://10.77.0.2:9092,REPLICATION://10.77.0.2:9094
inter.broker.listener.name=REPLICATION
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
group.initial.rebalance.delay.ms=0
auto.leader.rebalance.enable=false
log.cleaner.dedupe.buffer.size=16777216
"""


def test_properties_of_a_controller():
    assert server_properties(NodeConfiguration(Roles.CONTROLLER, PORTS), HOSTS[1], HOSTS) == CONTROLLER


def test_combined_node_has_a_separate_listener_for_replication():
    assert server_properties(NodeConfiguration(Roles.COMBINED, PORTS), HOSTS[2], HOSTS) == COMBINED


def test_single_combined_node_has_replication_factor_1():
    text = server_properties(NodeConfiguration(Roles.COMBINED, {1: 9093}), HOSTS[1], {1: HOSTS[1]})
    assert "default.replication.factor=1\nmin.insync.replicas=1\n" in text


def test_overrides_replace_other_properties():
    overrides = {"num.io.threads": "9", "controller.quorum.fetch.timeout.ms": "500"}
    text = server_properties(NodeConfiguration(Roles.CONTROLLER, PORTS, overrides), HOSTS[1], HOSTS)
    assert (
        text == CONTROLLER.replace("num.io.threads=2", "num.io.threads=9") + "controller.quorum.fetch.timeout.ms=500\n"
    )


def properties_of(configuration: NodeConfiguration) -> dict[str, str]:
    text = server_properties(configuration, HOSTS[2], HOSTS)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_broker_alone_is_no_voter_and_has_no_listener_for_controllers() -> None:
    controllers = {1: 9093, 3: 9093}
    properties = properties_of(NodeConfiguration(Roles.BROKER, controllers, {"process.roles": "broker"}))
    assert properties["process.roles"] == "broker"
    assert properties["controller.quorum.voters"] == "1@10.77.0.1:9093,3@10.77.0.3:9093"
    assert properties["listeners"] == "PLAINTEXT://10.77.0.2:9092,REPLICATION://10.77.0.2:9094"
    assert properties["controller.listener.names"] == "CONTROLLER"
    assert "CONTROLLER:PLAINTEXT" in properties["listener.security.protocol.map"].split(",")


def test_controller_listens_on_its_own_port_and_looks_for_the_others_on_theirs() -> None:
    own = {CONTROLLER_PORT_PROPERTY: "9095"}
    properties = properties_of(NodeConfiguration(Roles.CONTROLLER, {**PORTS, 2: 9095}, own, dynamic_quorum=True))
    assert properties["listeners"] == "CONTROLLER://10.77.0.2:9095"
    assert properties["controller.quorum.bootstrap.servers"] == "10.77.0.1:9093,10.77.0.2:9095,10.77.0.3:9093"
    assert CONTROLLER_PORT_PROPERTY not in properties


def test_roles_are_those_of_the_layout_or_of_the_node() -> None:
    assert roles_of(Layout.COMBINED, {}) is Roles.COMBINED
    assert roles_of(Layout.COMBINED, {"process.roles": "controller"}) is Roles.CONTROLLER
    assert roles_of(Layout.CONTROLLERS, {"process.roles": "controller, broker"}) is Roles.COMBINED
    with pytest.raises(BadInput, match=r"process\.roles=voter: expected controller"):
        roles_of(Layout.COMBINED, {"process.roles": "voter"})


@pytest.mark.parametrize("port", ["80", "70000", "x"])
def test_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(BadInput, match=f"{CONTROLLER_PORT_PROPERTY}={port}: expected a port, 1024 to 65535"):
        controller_port({CONTROLLER_PORT_PROPERTY: port})


def test_node_looks_for_the_quorum_at_the_nodes_that_its_property_names() -> None:
    properties = properties_of(NodeConfiguration(Roles.CONTROLLER, PORTS, {BOOTSTRAP_NODES: "3,1"}))
    assert properties["controller.quorum.bootstrap.servers"] == "10.77.0.1:9093,10.77.0.3:9093"
    assert "controller.quorum.voters" not in properties


@pytest.mark.parametrize("given", ["4", "n1", ""])
def test_node_that_is_no_controller_is_not_looked_for(given: str) -> None:
    with pytest.raises(BadInput, match=f"{BOOTSTRAP_NODES}={given}: expected numbers of controllers, among"):
        bootstrap_nodes({BOOTSTRAP_NODES: given}, PORTS)
