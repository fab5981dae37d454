"""Invariants that a simulated run broke, as findings."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.quorum import invariants
from checkers.run_checks import collected
from harness.model import Observation
from tests.support.checks.on_spark import history_table, observation_table

pytestmark = pytest.mark.spark


def test_each_violation_is_a_finding_of_its_name(spark: SparkSession) -> None:
    configure_for(spark, rows=1)
    detail = json.dumps({"invariant": "vote-once", "message": "a vote for n1 became one for n2"})
    rows = [
        Observation(5, 2, "simulation", "violation", detail=detail),
        Observation(6, 0, "simulation", "violation", detail=detail),
        Observation(7, 2, "log", "note", detail=detail),
    ]
    found = collected(
        invariants.findings(history_table(spark, []), observation_table(spark, rows), JudgeSettings()), 10
    )
    assert [(each.check, each.name, each.message, each.severity, each.node, each.time_ns) for each in found] == [
        ("invariants", "vote-once", "a vote for n1 became one for n2", "invalid", 2, 5),
        ("invariants", "vote-once", "a vote for n1 became one for n2", "invalid", None, 6),
    ]
