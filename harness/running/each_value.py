"""`splitbrain reproduce ID… --each SWITCH`: a scenario's story once with each value of a switch.

    splitbrain reproduce LD-01 LD-02 --each reference.truncation

A side of a scenario has one value of each switch. These runs compare all values, also those that no side has. Each is a
run of its own, on which the checks' verdict counts: nothing says what a value has to show. The story and the other
switches are those of the good side, or of the only one; --side chooses another.

Contains the plans and their runs. The table that compares them is results.comparison_table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from harness import plugins
from harness.judging.runs import judge_run
from harness.judging.spark import SparkLater
from harness.model import BadInput
from harness.model.progress import OnEvent, Phase, RunStarted, phases
from harness.model.scenario import Scenario, SideName
from harness.model.shown_values import shown
from harness.model.suggestions import did_you_mean
from harness.planning.plan import Plan, ReproductionRequest
from harness.planning.preflight import preflight
from harness.recovery.heal import heal_before_a_run
from harness.running.at_once import PendingRun, carry_out_all
from harness.running.reproduce import Reproduced, side_plan
from harness.running.run import new_seed, refuse_impossible, title_of
from results.store import RunDirectory, new_run


def compare_values(
    scenarios: Sequence[Scenario], request: ReproductionRequest, store: Path, master: str | None, on_event: OnEvent
) -> Iterator[Reproduced]:
    """Run the stories with each value, then judge the runs in one Spark session, in the order of the plans."""
    plans = [plan for each in scenarios for plan in plans_of_values(each, request, on_event)]
    preflight(request.hosts)
    for line in heal_before_a_run(store):
        on_event(Phase(line))
    later = SparkLater(master)
    begun: dict[int, RunDirectory] = {}
    pending = [
        PendingRun(plan, partial(_begin, store, plan, plan.switches[str(request.each)], begun, number))
        for number, plan in enumerate(plans)
    ]
    carry_out_all(pending, request.at_once, on_event, later.start)
    on_event(Phase("starting Spark", "checks"))
    for _, run in sorted(begun.items()):
        on_event(Phase(f"checking {run.name}"))
        yield run, judge_run(run, later.session())


def _begin(
    store: Path, plan: Plan, value: str, begun: dict[int, RunDirectory], number: int, on_event: OnEvent
) -> tuple[RunDirectory, Plan]:
    """The directory of a run, whose name has the value."""
    run = begun[number] = new_run(store, f"{plan.name}-{value}", datetime.now(UTC))
    on_event(RunStarted(title_of(plan), str(run.path), plan.story_seconds))
    return run, plan


def plans_of_values(scenario: Scenario, request: ReproductionRequest, on_event: OnEvent) -> list[Plan]:
    """A plan for each value. Raises BadInput for a switch that the system does not have, or without listed values."""
    values, side = values_of(request), _side(scenario, request)
    seed = new_seed() if request.seed is None else request.seed
    plans = [asyncio.run(_plan(scenario, request, side, value, seed, on_event)) for value in values]
    for plan in plans:
        refuse_impossible(plan)
    return plans


async def _plan(
    scenario: Scenario, request: ReproductionRequest, side: SideName, value: str, seed: int, on_event: OnEvent
) -> Plan:
    """The side's plan with this value, of a run that belongs to no side."""
    switches = {**request.switches, str(request.each): value}
    alone = request.model_copy(update={"each": None, "side": side, "times": 1, "switches": switches, "seed": seed})
    plan = await side_plan(scenario, alone, side, 0, phases(on_event))
    return plan.model_copy(update={"scenario": None, "side": None})


def values_of(request: ReproductionRequest) -> list[str]:
    """The values of the request's switch. Raises BadInput."""
    system, _ = plugins.system(request.system)
    switches = {each.name: each for each in system.switches()}
    found = switches.get(request.each or "")
    if found is None:
        hint = did_you_mean(request.each or "", tuple(switches))
        raise BadInput(f"--each: expected a switch of {system.name}, found {shown(request.each)}{hint}")
    values = found.values.split(", ")
    if len(values) == 1:
        raise BadInput(f"--each {found.name}: expected a switch with listed values, found {found.values}")
    return values


def _side(scenario: Scenario, request: ReproductionRequest) -> SideName:
    if request.side != "both":
        return request.side
    system, _ = plugins.system(request.system)
    available = scenario.sides_on(system.name)
    return "good" if "good" in available or not available else available[0]
