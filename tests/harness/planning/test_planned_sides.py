"""The plan of a side of a scenario, on the reference system and on Kafka."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judging.runs import run_headline
from harness.model import BadInput
from harness.model.conditions import LEADER_KNOWN
from harness.model.scenario import Deployment, Scenario, Side, SideName, Source, on
from harness.model.story import wait_until
from harness.planning.plan import Plan, ReproductionRequest
from harness.running.reproduce import _plans, command_of, side_plan
from harness.systems.cluster import Cluster
from nodes.kafka.artifacts import Library, Release
from nodes.kafka.system import KafkaSystem
from nodes.kafka.versions import KafkaVersion

NODE_SWITCHES = {2: {"reference.pre_vote": "false", "a.timeout.ms": "100"}}
SETUPS = on(reference={"reference.check_quorum": "false"}, kafka="3.9.1", kafka_nodes={1: "4.3.1"})
SIDE = Side(SETUPS, node_switches=NODE_SWITCHES)


def scenario(bad: Side, good: Side) -> Scenario:
    return Scenario("PV-00", "A title", "A question?", Source("KIP-996"), 2, (), bad=bad, good=good)


SCENARIO = scenario(SIDE, SIDE)
NEEDS_LEVEL_2 = scenario(Side(on(kafka="3.9.1")), Side(on(kafka="4.3.1"), needs_features={"transaction.version": 2}))


@pytest.fixture(autouse=True)
def installed_releases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    releases = [Release(KafkaVersion.parse(text), tmp_path / text, "installed") for text in ("3.9.1", "4.3.1")]

    async def resolve(_library: Library, wanted: str) -> Release:
        return next(release for release in releases if str(release.version) == wanted)

    monkeypatch.setattr(Library, "resolve", resolve)
    monkeypatch.setattr(Library, "installed", lambda _library: releases)


def side_plan_of(of: Scenario, system: str, name: SideName = "bad", **values: Any) -> Plan:
    request = ReproductionRequest(system=system, seed=7, **values)
    return asyncio.run(side_plan(of, request, name, 0, lambda _line: None))


def test_reference_nodes_have_the_switches_of_the_side_and_of_the_node() -> None:
    planned = side_plan_of(SCENARIO, "reference")
    assert planned.switches == {"reference.check_quorum": "false"}
    assert (planned.node_switches, planned.node_systems) == ({2: {"reference.pre_vote": "false"}}, {})


def test_kafka_nodes_have_only_kafka_properties_and_their_own_versions() -> None:
    planned = side_plan_of(SCENARIO, "kafka")
    assert (planned.system, planned.switches) == ("kafka:3.9.1", {})
    assert (planned.node_switches, planned.node_systems) == ({2: {"a.timeout.ms": "100"}}, {1: "kafka:4.3.1"})


def test_nodes_that_the_story_starts_are_those_of_the_scenario() -> None:
    assert side_plan_of(SCENARIO, "reference").not_started == []
    assert side_plan_of(replace(SCENARIO, not_started=(1, 3)), "reference").not_started == [1, 3]


def test_switch_on_the_command_line_overrides_that_of_a_node() -> None:
    planned = side_plan_of(SCENARIO, "reference", switches={"a.timeout.ms": "5"})
    assert planned.node_switches == {2: {"reference.pre_vote": "false"}}
    assert planned.switches["a.timeout.ms"] == "5"


def test_newer_node_among_older_ones_is_formatted_for_their_release() -> None:
    releases, cluster_ids = {}, set()
    for node, system in Cluster(side_plan_of(SCENARIO, "kafka")).initial.items():
        assert isinstance(system, KafkaSystem)
        releases[node] = (str(system.release.version), system.metadata_release and str(system.metadata_release))
        cluster_ids.add(system.cluster_id)
    assert releases == {1: ("4.3.1", "3.9.1"), 2: ("3.9.1", None)}
    assert len(cluster_ids) == 1


def test_cluster_label_names_a_common_system_once() -> None:
    plan = Plan(name="same", system="kafka:3.9.1", seed=1, story=[])
    assert Cluster(plan).label == "kafka:3.9.1"
    assert Cluster(plan.model_copy(update={"node_systems": {2: "kafka:4.3.1"}})).label == (
        "n1 n3 kafka:3.9.1, n2 kafka:4.3.1"
    )


def test_features_apply_to_both_sides_and_are_in_the_command_that_repeats_the_run() -> None:
    both = scenario(Side(on(kafka="4.3.1")), Side(on(kafka="4.3.1")))
    request = ReproductionRequest(system="kafka", seed=7, features={"transaction.version": "1"})
    for name in ("bad", "good"):
        system = Cluster(side_plan_of(both, "kafka", name, features=request.features)).initial[1]
        assert isinstance(system, KafkaSystem)
        assert system.features == {"transaction.version": "1"}
    assert "--feature transaction.version=1" in command_of(both, request)


def test_command_quotes_arguments_for_the_shell() -> None:
    request = ReproductionRequest(seed=7, switches={"a.b": "c d; e"})
    assert shlex.split(command_of(SCENARIO, request)) == [
        *("splitbrain", "reproduce", "PV-00", "--switch", "a.b=c d; e", "--seed", "7")
    ]


@pytest.mark.parametrize(
    ("system", "features", "problem"),
    [
        ("kafka:4.3.1", {"transaction.version": "1"}, "--feature transaction.version=1: expected 2 or higher"),
        ("kafka:4.3.1", {"transaction.version": "0"}, "--feature transaction.version=0: expected 2 or higher"),
        ("kafka:3.9.1", {}, "--system kafka:3.9.1: expected a release that has transaction.version"),
    ],
)
def test_side_is_refused_if_a_feature_level_is_too_low_and_the_other_side_is_not(
    system: str, features: Mapping[str, str], problem: str
) -> None:
    with pytest.raises(BadInput) as raised:
        side_plan_of(NEEDS_LEVEL_2, system, "good", features=features)
    assert str(raised.value) == f"{problem}, which the good side of PV-00 needs; --side bad does not"
    assert side_plan_of(NEEDS_LEVEL_2, system, "bad", features=features).features == features


@pytest.mark.parametrize("features", [{}, {"transaction.version": "2"}, {"transaction.version": "3"}], ids=str)
def test_side_runs_at_the_feature_level_that_it_needs_or_above(features: Mapping[str, str]) -> None:
    assert side_plan_of(NEEDS_LEVEL_2, "kafka:4.3.1", "good", features=features).features == features


def test_side_without_a_setup_for_the_system_names_systems_that_have_one() -> None:
    with pytest.raises(BadInput, match="its bad side is not available on reference; it needs --system kafka"):
        side_plan_of(NEEDS_LEVEL_2, "reference")


def test_side_that_the_system_does_not_have_is_left_out_unless_it_is_requested() -> None:
    reported: list[str] = []
    one_sided = scenario(Side(on(kafka="3.9.1")), SIDE)
    request = ReproductionRequest(system="reference", seed=7, times=2)
    plans = asyncio.run(_plans(one_sided, request, reported.append))
    assert [plan.side for plan in plans] == ["good", "good"]
    assert reported == ["scenario PV-00: its bad side is not available on reference; it needs --system kafka"]
    with pytest.raises(BadInput, match="its bad side is not available on reference"):
        asyncio.run(_plans(one_sided, request.model_copy(update={"side": "bad"}), reported.append))


@pytest.mark.parametrize("system", ["reference", "kafka:3.9.1"])
def test_systems_without_features_refuse_them(system: str) -> None:
    with pytest.raises(BadInput, match="--feature"):
        Cluster(Plan(name="older", system=system, seed=1, story=[], features={"transaction.version": "1"}))


def test_side_that_the_scenario_does_not_have_is_refused() -> None:
    with pytest.raises(BadInput, match="scenario PV-00: expected its bad side, found good"):
        side_plan_of(replace(SCENARIO, good=None), "reference", "good")


def test_stored_run_of_a_side_that_the_scenario_lost_is_refused() -> None:
    stored = side_plan_of(SCENARIO, "reference").model_copy(update={"scenario": "PV-41", "side": "good"})
    with pytest.raises(BadInput, match="scenario PV-41: expected its bad side, found good"):
        run_headline(stored, [], [])


def test_setup_with_a_deployment_has_its_nodes_story_and_switches_of_nodes() -> None:
    own = Deployment("combined", 4, 3, (wait_until(LEADER_KNOWN),), {2: {"reference.pre_vote": "false"}})
    setups = {**on(kafka="3.9.1"), **on(reference={}, reference_deployment=own)}
    side = Side(setups, node_switches={1: {"reference.check_quorum": "false"}})
    planned = side_plan_of(scenario(side, side), "reference")
    assert (planned.layout, planned.nodes, planned.voters, len(planned.story)) == ("combined", 4, 3, 1)
    assert planned.node_switches == {2: {"reference.pre_vote": "false"}}
    elsewhere = side_plan_of(scenario(side, side), "kafka")
    assert (elsewhere.layout, elsewhere.nodes, elsewhere.voters, elsewhere.story) == ("controllers", 2, None, [])
