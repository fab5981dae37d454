"""server.properties of both layouts, as complete text."""

from __future__ import annotations

from pathlib import Path

from harness.model.hosts import HostView
from nodes.kafka.configuration import Layout, NodeConfiguration, server_properties

HOSTS = {node: HostView(node, f"10.77.0.{node}", f"n{node}", Path(f"/runs/n{node}")) for node in (2, 1, 3)}

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
advertised.listeners=PLAINTEXT://10.77.0.2:9092,REPLICATION://10.77.0.2:9094
inter.broker.listener.name=REPLICATION
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
group.initial.rebalance.delay.ms=0
auto.leader.rebalance.enable=false
"""


def test_properties_of_a_controller():
    assert server_properties(NodeConfiguration(Layout.CONTROLLERS), HOSTS[1], HOSTS) == CONTROLLER


def test_combined_node_has_a_separate_listener_for_replication():
    assert server_properties(NodeConfiguration(Layout.COMBINED), HOSTS[2], HOSTS) == COMBINED


def test_single_combined_node_has_replication_factor_1():
    text = server_properties(NodeConfiguration(Layout.COMBINED), HOSTS[1], {1: HOSTS[1]})
    assert "default.replication.factor=1\nmin.insync.replicas=1\n" in text


def test_overrides_replace_other_properties():
    overrides = {"num.io.threads": "9", "controller.quorum.fetch.timeout.ms": "500"}
    text = server_properties(NodeConfiguration(Layout.CONTROLLERS, overrides), HOSTS[1], HOSTS)
    assert (
        text == CONTROLLER.replace("num.io.threads=2", "num.io.threads=9") + "controller.quorum.fetch.timeout.ms=500\n"
    )
