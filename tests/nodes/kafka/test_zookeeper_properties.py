"""The configuration of brokers and of ZooKeeper, as complete text, and the commands that serve them."""

from __future__ import annotations

from pathlib import Path

from harness.model.hosts import HostView
from nodes.kafka.artifacts import Release
from nodes.kafka.versions import KafkaVersion
from nodes.kafka.zookeeper import ZooKeeperSystem, broker_properties, zookeeper_properties

HOSTS = {node: HostView(node, f"10.77.0.{node}", f"n{node}", Path(f"/runs/n{node}")) for node in (1, 2, 3)}
SYSTEM = ZooKeeperSystem(Release(KafkaVersion(3, 9, 1), Path("/jars"), "requested"), zookeeper_node=3)

BROKER = """\
broker.id=1
zookeeper.connect=10.77.0.3:2181
zookeeper.session.timeout.ms=3000
zookeeper.connection.timeout.ms=60000
log.dirs=/runs/n1/data
listeners=PLAINTEXT://10.77.0.1:9092,REPLICATION://10.77.0.1:9094,CONTROL://10.77.0.1:9095
advertised.listeners=PLAINTEXT://10.77.0.1:9092,REPLICATION://10.77.0.1:9094,CONTROL://10.77.0.1:9095
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROL:PLAINTEXT
inter.broker.listener.name=REPLICATION
control.plane.listener.name=CONTROL
num.network.threads=2
num.io.threads=2
default.replication.factor=2
min.insync.replicas=2
offsets.topic.replication.factor=2
transaction.state.log.replication.factor=2
transaction.state.log.min.isr=2
group.initial.rebalance.delay.ms=0
auto.leader.rebalance.enable=false
log.cleaner.dedupe.buffer.size=16777216
"""

ZOOKEEPER = """\
dataDir=/runs/n3/data/zookeeper
clientPortAddress=10.77.0.3
clientPort=2181
admin.enableServer=false
tickTime=500
maxSessionTimeout=120000
maxClientCnxns=0
4lw.commands.whitelist=dump
"""


def test_properties_of_a_broker():
    assert broker_properties(HOSTS[1], HOSTS, 3, {}) == BROKER


def test_overrides_replace_a_brokers_properties():
    overrides = {"inter.broker.protocol.version": "1.1", "min.insync.replicas": "1"}
    expected = BROKER.replace("min.insync.replicas=2", "min.insync.replicas=1") + "inter.broker.protocol.version=1.1\n"
    assert broker_properties(HOSTS[1], HOSTS, 3, overrides) == expected


def test_properties_of_zookeeper():
    assert zookeeper_properties(HOSTS[3]) == ZOOKEEPER


def test_last_node_serves_zookeeper_and_the_others_serve_brokers():
    mains = [SYSTEM.command(HOSTS[node]).argv[-2] for node in HOSTS]
    assert mains == ["kafka.Kafka", "kafka.Kafka", "org.apache.zookeeper.server.quorum.QuorumPeerMain"]
    assert SYSTEM.command(HOSTS[3]).argv[-1] == "/runs/n3/server.properties"


def test_data_of_zookeeper_is_no_partition_of_a_topic():
    assert SYSTEM.files(HOSTS[3]).data == Path("/runs/n3/data")
    assert "dataDir=/runs/n3/data/zookeeper\n" in zookeeper_properties(HOSTS[3])
