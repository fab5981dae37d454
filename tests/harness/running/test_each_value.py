"""`splitbrain reproduce --each SWITCH`: which plans it makes, and what it refuses."""

from __future__ import annotations

import json

import pytest

from harness import plugins
from harness.model.errors import EXIT_USAGE
from harness.planning.plan import ReproductionRequest
from harness.running.each_value import plans_of_values
from nodes.reference.core.partitions.truncation import TRUNCATIONS
from tests.support.command import splitbrain


def test_there_is_a_plan_for_each_value_that_differs_in_the_switch_alone() -> None:
    request = ReproductionRequest(each="reference.truncation", seed=7, switches={"replica.fetch.backoff.ms": "100"})
    plans = plans_of_values(plugins.scenario("LD-01"), request, lambda _: None)
    assert [plan.switches["reference.truncation"] for plan in plans] == list(TRUNCATIONS)
    assert len({tuple(sorted(set(plan.switches.items()) - {_rule(plan.switches)})) for plan in plans}) == 1
    assert {(plan.scenario, plan.side, plan.seed, plan.layout) for plan in plans} == {(None, None, 7, "combined")}
    assert plans[1].command == (
        "splitbrain reproduce LD-01 --switch replica.fetch.backoff.ms=100 --switch reference.truncation=kip-101 "
        "--side good --seed 7"
    )


def _rule(switches: dict[str, str]) -> tuple[str, str]:
    return "reference.truncation", switches["reference.truncation"]


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ("reference.truncatoin", "--each: expected a switch of reference, found 'reference.truncatoin'"),
        ("broker.session.timeout.ms", "--each broker.session.timeout.ms: expected a switch with listed values"),
    ],
)
def test_switch_without_listed_values_is_refused_in_a_line(switch: str, message: str) -> None:
    result = splitbrain("reproduce", "LD-01", "--each", switch, "--dry-run")
    assert result.code == EXIT_USAGE
    assert message in result.messages[-1]


def test_dry_run_prints_the_plans() -> None:
    result = splitbrain("reproduce", "LD-01", "--each", "reference.truncation_error", "--dry-run")
    assert result.code == 0, result
    first, _ = json.JSONDecoder().raw_decode(result.out)
    assert first["switch"]["reference.truncation_error"] == "retry"
