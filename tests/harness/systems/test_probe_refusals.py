"""Probes that a system cannot carry out are refused before the run, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model import BadInput
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.rpc import Api
from harness.model.story import Step, kill
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.planning.workloads import checks_of, workload_of
from harness.systems.cluster import refuse_unavailable_faults
from nodes.kafka.artifacts import Library, Release
from nodes.kafka.versions import KafkaVersion

DESCRIBE = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
METADATA = {"topics": [], "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
NO_BROKERS = "the nodes have no listener for clients; use --system kafka with --layout combined or zookeeper"


def plan(step: Step, system: str = "reference", layout: str = "controllers") -> Plan:
    return Plan(name="p", system=system, layout=layout, seed=1, workload="idle", story=[StoryStep.of(step)])


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Release]:
    """The installed releases: none, until a test adds some."""
    releases: list[Release] = []
    monkeypatch.setattr(Library, "installed", lambda _library: releases)
    return releases


@pytest.mark.parametrize("system", ["reference", "kafka:4.3.1"])
def test_request_to_a_controller_is_possible(system: str) -> None:
    refuse_unavailable_faults(plan(ask("n1", Api.DESCRIBE_QUORUM, 2, DESCRIBE, {"error_code": "none"}), system))


REFUSED = {
    # case: step, the reason
    "a version that kio lacks": (ask("n1", "Vote", 9, {}), "version: expected 0 to 2 of vote, found 9"),
    "values that do not fit": (
        ask("n1", "DescribeQuorum", 0, {"topics": 3}),
        "values.topics: expected a list, found 3",
    ),
    "a field that is never there": (
        ask("n1", "DescribeQuorum", 0, DESCRIBE, {"error": "none"}),
        "expect.error: expected one of the fields error_code, topics; did you mean error_code?",
    ),
    "one of several never there": (
        ask("n1", "DescribeQuorum", 0, DESCRIBE, {"error_code": {"one_of": ["none", "nono"]}}),
        "expect.error_code: expected the name of an error code, found 'nono'; did you mean none?",
    ),
    "a named probe": (ask("n1", "Vote", 9, {}, name="a vote"), "a vote: version: expected 0 to 2 of vote, found 9"),
    "a listener for clients": (ask("n1", "Metadata", 12, {}, listener="client"), f"listener: {NO_BROKERS}"),
    "the brokers' addresses": (run_tool("kafka-topics", ["$brokers"]), f"placeholder $brokers: {NO_BROKERS}"),
    "one broker's address": (run_tool("kafka-topics", ["$n1_broker"]), f"placeholder $n1_broker: {NO_BROKERS}"),
}


@pytest.mark.parametrize(("step", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("system", ["reference", "kafka:4.3.1"])
def test_probe_is_refused_with_its_reason(step: Step, reason: str, system: str) -> None:
    with pytest.raises(BadInput) as refused:
        refuse_unavailable_faults(plan(step, system))
    assert str(refused.value) == f"story: {step.f}: {reason}"


def test_brokers_are_asked_where_there_are_some() -> None:
    step = ask("n1", "Metadata", 12, METADATA, listener="client")
    refuse_unavailable_faults(plan(step, "kafka:4.3.1", "combined"))


def test_tool_needs_an_installed_release(installed: list[Release], tmp_path: Path) -> None:
    step = run_tool("kafka-metadata-quorum", [])
    for system, version in (("reference", "newest 4"), ("kafka:4.3.1", "4.3.1")):
        with pytest.raises(BadInput) as refused:
            refuse_unavailable_faults(plan(step, system))
        message = f"Kafka's tools are not on this machine; run splitbrain kafka install '{version}'"
        assert str(refused.value) == f"story: run_tool: {message}"
    installed.append(Release(KafkaVersion(3, 9, 1), tmp_path, "it is installed"))
    with pytest.raises(BadInput, match=r"tool kafka-metadata-quorum: not in Kafka 3\.9\.1, whose jars have no class"):
        refuse_unavailable_faults(plan(step))


def test_story_with_a_probe_is_judged_by_its_responses() -> None:
    with_probe, without = plan(run_tool("kafka-topics", [])), plan(kill("n1"))
    assert "responses" in checks_of(with_probe, workload_of(with_probe))
    assert "responses" not in checks_of(without, workload_of(without))
