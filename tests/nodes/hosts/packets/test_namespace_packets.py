"""Packets between namespaces treated badly, played in real sandboxes by either right and by what technique there is."""

from __future__ import annotations

import json
import subprocess

import pytest

from harness.model.faults.packets import PacketShape
from nodes.hosts.packets.netem import port_lines
from nodes.hosts.sandbox import enclose
from nodes.switch.process import ShapedPort
from tests.support import SUPPORT

pytestmark = pytest.mark.netns

SCENES = SUPPORT / "nodes" / "packet_scenes.py"
SCENE_SECONDS = 60
LEFT_ALONE = ("1>3", "2>1", "2>3", "3>1", "3>2")


@pytest.fixture
def play(stage):
    """Plays a scene of packet_scenes.py to its end; what it told."""

    def play_scene(scene):
        inside = [stage.python, str(SCENES), scene, str(stage.directory / "hosts")]
        command = [*stage.as_user, *enclose(inside, stage.privilege)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=SCENE_SECONDS, **stage.options)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return play_scene


def test_each_shape_does_to_its_link_what_it_says_and_nothing_to_others(play):
    told = play("shapes")["told"]
    shaped = {name: readings["1>2"] for name, readings in told.items()}
    for name in ("delay", "uniform", "normal", "pareto"):
        assert 36 <= shaped[name]["mean_ms"] <= 50
    assert shaped["uniform"]["deviation_ms"] > 8
    assert 60 <= shaped["loss"]["arrived"] <= 108
    assert 12 <= shaped["duplicate"]["duplicated"] <= 48
    assert 12 <= shaped["reorder"]["early"] <= 48
    assert 8 <= shaped["corrupt"]["damaged"] <= 40
    assert 6000 <= shaped["bandwidth"]["kbit_per_second"] <= 9000
    untouched = [told[name][link] for name in told for link in LEFT_ALONE] + [told["cleared"]["1>2"]]
    assert {(each["arrived"], each["duplicated"], each["damaged"]) for each in untouched} == {(120, 0, 0)}
    assert sorted(each["mean_ms"] for each in untouched)[len(untouched) // 2] < 5


def test_links_have_shapes_of_their_own_which_can_be_replaced_and_cut(play):
    told = play("together")
    first = {link: reading["mean_ms"] for link, reading in told["first"].items()}
    assert first["1>2"] >= 30
    assert first["3>2"] >= 30
    assert first["2>1"] >= 60
    assert first["1>3"] < 30
    second = {link: reading["mean_ms"] for link, reading in told["second"].items()}
    assert 5 <= second["1>2"] < 30
    assert second["3>2"] >= 30
    assert told["cut"] == [False, True]


def test_a_tcp_stream_arrives_as_it_was_sent_over_lost_doubled_and_damaged_packets(play):
    assert play("streams") == {"same": True, "again": True}


def test_nothing_is_left_behind(play):
    told = play("left_behind")
    assert told["during"]["queue"] or (told["during"]["table"] and told["during"]["switch"])
    assert told["after"] == {"table": False, "queue": False, "switch": False}


def test_a_killed_switch_is_a_dead_link_until_it_is_healed(play):
    told = play("killed_switch")
    assert told["dead"]["2>1"]["arrived"] == 10
    assert told["dead"]["1>2"]["arrived"] == (0 if told["switches"] else 10)
    assert [reading["arrived"] for reading in told["healed"].values()] == [10, 10]


def test_netem_is_asked_for_each_sender_of_a_port_by_its_address():
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
