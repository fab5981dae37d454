"""Every comparison of a probe that does not hold is a finding; probes that failed and other operations are none."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.run_checks import collected
from checkers.runs.responses import RESPONSES
from checkers.twins import responses as twin
from harness import plugins
from harness.model import NEMESIS, Finding, Op
from tests.support.checks.on_spark import history_table, observation_table
from tests.support.checks.small_histories import MS, history, nemesis_op

pytestmark = pytest.mark.spark

SETTINGS = JudgeSettings(ops=plugins.ops())
HOLDS = {"field": "error_code", "expected": '"none"', "found": '"none"', "holds": True}
DIFFERS = {"field": "topics.0.vote_granted", "expected": "false", "found": "true", "holds": False}
LATE = {"field": "exit code", "expected": "0", "found": "timed out", "holds": False}


def probed(f: str, name: str, *compared: dict[str, Any], nodes: tuple[int, ...] = ()) -> tuple[Op, Op]:
    return nemesis_op(f, {"nodes": list(nodes), "name": name, "compared": list(compared), "label": name})


def invoked(f: str, name: str) -> Op:
    """The invocation as runs record it: the nemesis's are `info`, with the step's arguments."""
    return Op("info", f, NEMESIS, value={"who": "n1", "name": name, "expect": {"error_code": "none"}})


def found_in(spark: SparkSession, ops: list[Op]) -> list[Finding]:
    configure_for(spark, rows=1)
    return collected(RESPONSES.findings(history_table(spark, ops), observation_table(spark, []), SETTINGS), 10_000)


def test_response_that_differs_is_invalid_with_both_values(spark: SparkSession) -> None:
    _, end = probed("ask", "a pre-vote to n2", HOLDS, DIFFERS, nodes=(2,))
    [found] = found_in(spark, history(invoked("ask", "a pre-vote"), end))
    assert (found.check, found.name, found.severity) == ("responses", "unexpected-response", "invalid")
    assert (found.node, found.time_ns, found.witnesses) == (2, MS, (1,))
    assert found.message == (
        "a response is as its API promises: a pre-vote to n2: topics.0.vote_granted: expected false, found true"
    )


def test_tool_that_ends_otherwise_is_invalid_and_has_no_node(spark: SparkSession) -> None:
    [found] = found_in(spark, history(*probed("run_tool", "kafka-topics --list", LATE)))
    assert (found.name, found.severity, found.node) == ("unexpected-output", "invalid", None)
    assert found.message == "a tool ends as it promises: kafka-topics --list: exit code: expected 0, found timed out"


def test_voter_change_that_is_accepted_instead_of_refused_is_invalid(spark: SparkSession) -> None:
    accepted = {"field": "answer", "expected": "REQUEST_TIMED_OUT", "found": "accepted", "holds": False}
    [found] = found_in(spark, history(*probed("add_voter", "n4 becomes a voter", accepted, nodes=(4,))))
    assert (found.name, found.severity, found.node) == ("unexpected-response", "invalid", 4)
    assert found.message == (
        "a response is as its API promises: n4 becomes a voter: answer: expected REQUEST_TIMED_OUT, found accepted"
    )


def test_voter_change_that_is_expected_to_succeed_compares_nothing(spark: SparkSession) -> None:
    done = {"changes": ["n4 becomes a voter"], "nodes": [4], "label": "n4 becomes a voter"}
    assert found_in(spark, history(*nemesis_op("add_voter", done))) == []


def test_each_field_that_differs_is_a_finding(spark: SparkSession) -> None:
    other = replace_field(DIFFERS, "topics.0.leader_epoch")
    found = found_in(spark, history(*probed("ask", "a vote", DIFFERS, other, nodes=(1,))))
    assert [each.message.split(": ")[2] for each in found] == ["topics.0.leader_epoch", "topics.0.vote_granted"]


def replace_field(compared: dict[str, Any], field: str) -> dict[str, Any]:
    return compared | {"field": field}


def test_what_is_as_expected_is_no_finding(spark: SparkSession) -> None:
    assert found_in(spark, history(*probed("ask", "a vote", HOLDS, nodes=(1,)), *probed("run_tool", "a tool"))) == []


def test_probe_that_failed_and_other_operations_are_no_findings(spark: SparkSession) -> None:
    start, end = probed("ask", "a vote", DIFFERS, nodes=(1,))
    of_a_client = [replace(op, process=0) for op in probed("ask", "a vote", DIFFERS, nodes=(1,))]
    ops = history(start, replace(end, error="no answer"), *of_a_client, *probed("kill", "a kill", DIFFERS, nodes=(1,)))
    assert found_in(spark, ops) == []


def test_findings_agree_with_their_twin_on_random_histories(spark: SparkSession) -> None:
    source = random.Random(5)

    def random_rows() -> list[Op]:
        compared = [
            {"field": f"field {number}", "expected": "1", "found": "2", "holds": source.random() < 0.5}
            for number in range(source.randrange(4))
        ]
        start, end = probed(source.choice(["ask", "run_tool", "add_voter", "kill"]), "a probe", *compared, nodes=(1,))
        process = source.choice([NEMESIS, NEMESIS, NEMESIS, 3])
        error = source.choice([None, None, "failed"])
        begun = source.choice([start, invoked(start.f, "a probe")])
        return [replace(begun, process=process), replace(end, process=process, error=error)]

    ops = history(*(op for _ in range(150) for op in random_rows()))
    found = [(each.name, each.witnesses[0], each.message.split(": ")[2]) for each in found_in(spark, ops)]
    assert sorted(found) == sorted(twin.differing(ops))
    assert {name for name, _, _ in found} == {"unexpected-response", "unexpected-output"}
