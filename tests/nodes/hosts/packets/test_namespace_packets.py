"""Packet faults between namespaces, in real sandboxes with each privilege and the available technique."""

from __future__ import annotations

import pytest

from harness.model.faults.packets import PacketShape
from nodes.hosts.packets.netem import port_lines
from nodes.switch.process import ShapedPort
from tests.support import SUPPORT

pytestmark = pytest.mark.netns

CASES = SUPPORT / "nodes" / "packet_cases.py"
UNSHAPED = ("1>3", "2>1", "2>3", "3>1", "3>2")


@pytest.fixture
def run_case(sandbox):
    """Runs a case of packet_cases.py to its end; its result."""
    return lambda case: sandbox.run(case, script=CASES)


def test_each_shape_affects_its_link_as_specified_and_no_other(run_case):
    result = run_case("shapes")["results"]
    shaped = {name: readings["1>2"] for name, readings in result.items()}
    for name in ("delay", "uniform", "normal", "pareto"):
        assert 36 <= shaped[name]["mean_ms"] <= 50
    assert shaped["uniform"]["deviation_ms"] > 8
    assert 60 <= shaped["loss"]["arrived"] <= 108
    assert 12 <= shaped["duplicate"]["duplicated"] <= 48
    assert 12 <= shaped["reorder"]["early"] <= 48
    assert 8 <= shaped["corrupt"]["damaged"] <= 40
    assert 6000 <= shaped["bandwidth"]["kbit_per_second"] <= 9000
    unshaped = [result[name][link] for name in result for link in UNSHAPED] + [result["cleared"]["1>2"]]
    assert {(each["arrived"], each["duplicated"], each["damaged"]) for each in unshaped} == {(120, 0, 0)}
    assert sorted(each["mean_ms"] for each in unshaped)[len(unshaped) // 2] < 5


def test_each_link_has_its_own_shape_and_can_be_reshaped_and_cut(run_case):
    result = run_case("together")
    first = {link: reading["mean_ms"] for link, reading in result["first"].items()}
    assert first["1>2"] >= 30
    assert first["3>2"] >= 30
    assert first["2>1"] >= 60
    assert first["1>3"] < 30
    second = {link: reading["mean_ms"] for link, reading in result["second"].items()}
    assert 5 <= second["1>2"] < 30
    assert second["3>2"] >= 30
    assert result["cut"] == [False, True]


def test_a_tcp_stream_arrives_intact_when_packets_are_dropped_duplicated_and_corrupted(run_case):
    assert run_case("streams") == {"intact": True, "distinct": True}


def test_nothing_is_left_behind(run_case):
    result = run_case("left_behind")
    assert result["during"]["queue"] or (result["during"]["table"] and result["during"]["switch"])
    assert result["after"] == {"table": False, "queue": False, "switch": False}


def test_a_link_is_dead_from_the_kill_of_its_switch_until_heal(run_case):
    result = run_case("killed_switch")
    assert result["dead"]["2>1"]["arrived"] == 10
    assert result["dead"]["1>2"]["arrived"] == (0 if result["switches"] else 10)
    assert [reading["arrived"] for reading in result["healed"].values()] == [10, 10]


def test_netem_has_one_class_and_filter_for_each_sender_of_a_port():
    slow, lossy = PacketShape(50, 10, "normal", rate_kbit_per_second=800), PacketShape(loss=0.05, corrupt=0.005)
    links = [
        ShapedPort("v1", "10.77.0.1", "v2", "10.77.0.2", "", slow),
        ShapedPort("v3", "10.77.0.3", "v2", "10.77.0.2", "", lossy),
        ShapedPort("v1", "10.77.0.1", "v3", "10.77.0.3", "", slow),
    ]
    assert port_lines("v2", links) == [
        "qdisc add dev v2 root handle 1: htb",
        "class add dev v2 parent 1: classid 1:1 htb rate 10gbit quantum 60000",
        "qdisc add dev v2 parent 1:1 handle 2: netem limit 10000 delay 50ms 10ms distribution normal rate 800kbit",
        "filter add dev v2 parent 1: protocol ip prio 1 u32 match ip src 10.77.0.1/32 flowid 1:1",
        "class add dev v2 parent 1: classid 1:2 htb rate 10gbit quantum 60000",
        "qdisc add dev v2 parent 1:2 handle 3: netem limit 10000 loss 5% corrupt 0.5%",
        "filter add dev v2 parent 1: protocol ip prio 1 u32 match ip src 10.77.0.3/32 flowid 1:2",
    ]
