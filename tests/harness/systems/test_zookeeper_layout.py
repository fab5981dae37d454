"""The layout `zookeeper`: what is refused before a run, and which ports and observers it has."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model import BadInput
from harness.model.conditions import Condition, leads_partition, session_lost
from harness.model.faults.membership import elect
from harness.model.faults.requests import create_topic, produce
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.story import Step, wait_until
from harness.model.systems import ClusterSpec
from harness.planning.plan import Plan
from harness.planning.preflight import require_hosts
from harness.planning.story_steps import StoryStep
from harness.planning.workloads import workload_of
from harness.systems import zookeeper
from harness.systems.cluster import refuse_unavailable_faults
from harness.systems.kafka import KAFKA
from nodes.kafka.versions import KafkaVersion

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    # case: version, cluster, message
    "a release without ZooKeeper": (
        "4.0.0",
        {},
        "--layout zookeeper with Kafka 4.0.0: expected a release before 4.0, the first without ZooKeeper",
    ),
    "voters": ("3.9.1", {"voters": 3}, "--voters 3: not supported by --layout zookeeper, which has no voters"),
    "no broker": (
        "3.9.1",
        {"nodes": 1},
        "--nodes 1: expected at least 2 with --layout zookeeper, a broker and ZooKeeper",
    ),
}


@pytest.mark.parametrize(("version", "changed", "message"), REFUSED.values(), ids=REFUSED)
def test_layout_refuses(version: str, changed: dict[str, Any], message: str) -> None:
    cluster = ClusterSpec(**{"nodes": 3, "seed": 1, "layout": "zookeeper", **changed})
    with pytest.raises(BadInput) as refused:
        zookeeper.refuse_without_zookeeper(KafkaVersion.parse(version), cluster)
    assert str(refused.value) == message


def plan(step: Step, layout: str = "zookeeper") -> Plan:
    return Plan(name="zookeeper", system="kafka:3.9.1", layout=layout, seed=1, story=[StoryStep.of(step)])


def test_layout_has_members_and_replication_faults_but_no_voters() -> None:
    rule = RpcRule("fetches", RpcMatch((Api.FETCH,)), DROP)
    for step in (elect(), intercept(rule), wait_until(session_lost(1))):
        refuse_unavailable_faults(plan(step))
    unavailable = KAFKA.unavailable("zookeeper", None)
    assert "voters" in unavailable
    assert "membership" not in unavailable


@pytest.mark.parametrize("condition", [leads_partition(1, "t-0"), session_lost(2)], ids=str)
def test_conditions_of_brokers_are_refused_without_brokers(condition: Condition) -> None:
    with pytest.raises(BadInput) as refused:
        refuse_unavailable_faults(plan(wait_until(condition), layout="controllers"))
    assert str(refused.value) == (
        "story: await: only brokers have partitions and sessions; use --layout combined or zookeeper"
    )
    refuse_unavailable_faults(plan(wait_until(condition), layout="combined"))


def test_requests_are_refused_where_their_receivers_are_missing() -> None:
    refuse_unavailable_faults(plan(produce("n1", "t-0", 1)))
    refuse_unavailable_faults(plan(create_topic("n1", "t", 1), layout="combined"))
    with pytest.raises(BadInput, match="story: create_topic: its effect is the log of a quorum"):
        refuse_unavailable_faults(plan(create_topic("n1", "t", 1)))
    for step in (produce("n1", "t-0", 1), create_topic("n1", "t", 1)):
        with pytest.raises(BadInput, match=f"story: {step.f}: only brokers have topics"):
            refuse_unavailable_faults(plan(step, layout="controllers"))


@pytest.mark.parametrize("layout", ["controllers", "combined"])
def test_proxy_between_local_hosts_serves_the_layouts_with_a_quorum(layout: str) -> None:
    require_hosts(plan(elect(), layout).model_copy(update={"hosts": "local"}))


def test_proxy_between_local_hosts_does_not_serve_zookeeper() -> None:
    with pytest.raises(BadInput) as refused:
        require_hosts(plan(elect()).model_copy(update={"hosts": "local"}))
    assert str(refused.value) == (
        "--hosts local: the proxy between the nodes forwards Kafka's protocol only, which ZooKeeper does not speak; "
        "use --hosts netns"
    )


def test_register_has_no_quorum_to_write_to() -> None:
    with pytest.raises(BadInput, match="workload register: --layout zookeeper has no registers"):
        workload_of(plan(elect()).model_copy(update={"workload": "register"}))


def test_clients_are_served_by_brokers_only() -> None:
    assert list(KAFKA.serving(ClusterSpec(3, layout="zookeeper"))) == [1, 2]
    assert list(KAFKA.serving(ClusterSpec(3, layout="combined"))) == [1, 2, 3]
    for workload in ("log", "transactions"):
        assert not workload_of(plan(elect()).model_copy(update={"workload": workload})).idle


def test_nodes_with_roles_of_their_own_serve_what_these_serve() -> None:
    own = {1: {"process.roles": "controller"}, 2: {"process.roles": "broker"}}
    combined = ClusterSpec(3, layout="combined", switches=own)
    assert (list(KAFKA.serving(combined)), list(KAFKA.controllers(combined))) == ([2, 3], [1, 3])
    controllers = ClusterSpec(3)
    assert (list(KAFKA.serving(controllers)), list(KAFKA.controllers(controllers))) == ([], [1, 2, 3])


def test_ports_of_the_layout_are_those_of_brokers() -> None:
    assert KAFKA.ports("zookeeper") == (9092, 9094, 9095)
