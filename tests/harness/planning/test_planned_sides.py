"""What a scenario's side becomes in a plan, on either system."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model import BadInput
from harness.model.scenario import Scenario, Side, Source
from harness.planning.plan import Plan
from harness.planning.systems import build
from harness.running import reproduce
from harness.running.reproduce import Reproduction
from nodes.kafka.artifacts import Library, Release
from nodes.kafka.system import KafkaSystem
from nodes.kafka.versions import KafkaVersion
from nodes.mixed import MixedSystem

OF_NODE = {2: {"reference.pre_vote": "false", "a.timeout.ms": "100"}}
SIDE = Side({"reference.check_quorum": "false"}, "3.9.1", of_node=OF_NODE, kafka_of_node={1: "4.3.1"})
SCENARIO = Scenario("PV-00", "A title", "A question?", Source("KIP-996"), 2, (), bad=SIDE, good=SIDE)


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    releases = [Release(KafkaVersion.parse(text), tmp_path / text, "here") for text in ("3.9.1", "4.3.1")]

    async def resolve(_library: Library, wanted: str) -> Release:
        return next(release for release in releases if str(release.version) == wanted)

    monkeypatch.setattr(Library, "resolve", resolve)
    monkeypatch.setattr(Library, "installed", lambda _library: releases)


def plan(system: str, **switches: str) -> Plan:
    what = Reproduction(SCENARIO, system, ("bad",), 1, 7, switches=switches)
    return asyncio.run(reproduce._plan(what, "bad", 0, lambda _line: None))


def test_reference_nodes_have_the_side_s_switches_and_their_own() -> None:
    made = plan("reference")
    assert (made.switches, made.node_switches, made.node_systems) == (SIDE.reference, OF_NODE, {})


def test_kafka_nodes_have_kafkas_properties_alone_and_their_own_versions() -> None:
    made = plan("kafka")
    assert (made.system, made.switches) == ("kafka:3.9.1", {})
    assert (made.node_switches, made.node_systems) == ({2: {"a.timeout.ms": "100"}}, {1: "kafka:4.3.1"})


def test_the_user_s_switch_wins_over_a_node_s_own() -> None:
    made = plan("reference", **{"a.timeout.ms": "5"})
    assert made.node_switches == {2: {"reference.pre_vote": "false"}}
    assert made.switches["a.timeout.ms"] == "5"


def test_a_newer_node_beside_older_ones_is_formatted_for_their_release() -> None:
    system = build(plan("kafka"))
    assert isinstance(system, MixedSystem)
    releases = {}
    for node, each in system.systems.items():
        assert isinstance(each, KafkaSystem)
        releases[node] = (str(each.release.version), each.metadata_release and str(each.metadata_release))
    assert releases == {1: ("4.3.1", "3.9.1"), 2: ("3.9.1", None)}
    assert len({each.cluster_id for each in system.systems.values() if isinstance(each, KafkaSystem)}) == 1


def test_nodes_that_are_alike_are_one_system() -> None:
    assert isinstance(build(Plan(name="alike", system="kafka:3.9.1", seed=1, story=[])), KafkaSystem)


def test_features_are_those_of_both_sides_and_told_in_the_command_that_repeats_them() -> None:
    side = Side(None, "4.3.1")
    scenario = Scenario("PV-00", "A title", "A question?", Source("KIP-996"), 2, (), bad=side, good=side)
    what = Reproduction(scenario, "kafka", ("bad", "good"), 1, 7, features={"transaction.version": "1"})
    for name in what.sides:
        system = build(asyncio.run(reproduce._plan(what, name, 0, lambda _line: None)))
        assert isinstance(system, KafkaSystem)
        assert system.features == {"transaction.version": "1"}
    assert "--feature transaction.version=1" in what.command


def asked(system: str, **features: str) -> Reproduction:
    """A scenario whose good side needs level 2, asked for with these features."""
    bad, good = Side(None, "3.9.1"), Side(None, "4.3.1", needs_features={"transaction.version": 2})
    scenario = Scenario("PV-00", "A title", "A question?", Source("KIP-996"), 2, (), bad=bad, good=good)
    return Reproduction(scenario, system, ("bad", "good"), 1, 7, features=features)


@pytest.mark.parametrize(
    ("system", "features", "says"),
    [
        ("kafka:4.3.1", {"transaction.version": "1"}, "--feature transaction.version=1: expected 2 or higher, as"),
        ("kafka:4.3.1", {"transaction.version": "0"}, "--feature transaction.version=0: expected 2 or higher, as"),
        ("kafka:3.9.1", {}, "--system kafka:3.9.1: expected 4.0 or later, which has transaction.version, as"),
    ],
)
def test_a_side_that_the_features_asked_for_make_impossible_is_refused_and_the_other_is_not(
    system: str, features: dict[str, str], says: str
) -> None:
    what = asked(system, **features)
    with pytest.raises(BadInput) as raised:
        asyncio.run(reproduce._plan(what, "good", 0, lambda _line: None))
    assert str(raised.value) == f"{says} the good side of PV-00 needs it; --side bad can be had"
    assert asyncio.run(reproduce._plan(what, "bad", 0, lambda _line: None)).features == features


@pytest.mark.parametrize("features", [{}, {"transaction.version": "2"}, {"transaction.version": "3"}], ids=str)
def test_a_side_is_played_at_the_level_that_it_needs_or_above(features: dict[str, str]) -> None:
    made = asyncio.run(reproduce._plan(asked("kafka:4.3.1", **features), "good", 0, lambda _line: None))
    assert made.features == features


def test_a_feature_s_level_that_is_no_number_is_refused_by_its_name() -> None:
    with pytest.raises(BadInput, match=r"features\.transaction\.version: .*, came 'two'"):
        asyncio.run(reproduce._plan(asked("kafka:4.3.1", **{"transaction.version": "two"}), "good", 0, print))


@pytest.mark.parametrize("system", ["reference", "kafka:3.9.1"])
def test_systems_without_features_refuse_them(system: str) -> None:
    with pytest.raises(BadInput, match="features"):
        build(Plan(name="older", system=system, seed=1, story=[], features={"transaction.version": "1"}))
