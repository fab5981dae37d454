"""Runs both sides of a scenario and judges them together: the anomaly must appear on the bad side only."""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from harness import plugins
from harness.judging.runs import judge_reproduction, judge_run
from harness.judging.spark import SparkLater
from harness.model import BadInput
from harness.model.progress import OnEvent, Phase, RunStarted, phases
from harness.model.scenario import Scenario, SideName
from harness.model.systems import Report
from harness.planning.options import argv_of
from harness.planning.plan import Plan, ReproductionRequest, checked
from harness.planning.preflight import preflight
from harness.planning.story_steps import StoryStep
from harness.recovery.heal import heal_before_a_run
from harness.recovery.liveness import own
from harness.running.at_once import PendingRun, carry_out_all
from harness.running.controller_process import interrupt
from harness.running.run import new_seed, our_versions, refuse_impossible, resolve_system, title_of
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run

Reproduced = tuple[RunDirectory, RunVerdict]


def reproduce_scenarios(
    scenarios: Sequence[Scenario], request: ReproductionRequest, store: Path, master: str | None, on_event: OnEvent
) -> Iterator[Reproduced]:
    """Run all sides of the scenarios, several at a time if the machine allows, then judge them in one Spark session."""
    request = _with_seed(request)
    reproductions = [Reproduction(each, request, plans_to_run(each, request, on_event), store) for each in scenarios]
    preflight(request.hosts)
    for line in heal_before_a_run(store):
        on_event(Phase(line))
    later = SparkLater(master)
    runs = [
        PendingRun(plan, partial(each.begin, plan), each.scenario.alone)
        for each in reproductions
        for plan in each.plans
    ]
    try:
        carry_out_all(runs, request.at_once, on_event, later.start)
    except BaseException:
        for each in reproductions:
            each.interrupt()
        raise
    on_event(Phase("starting Spark", "checks"))
    judge = partial(judge_run, spark=later.session())
    for each in reproductions:
        yield each.judge(judge, on_event)


class Reproduction:
    """A scenario with the plans of its sides; its directory exists from its first run on."""

    def __init__(self, scenario: Scenario, request: ReproductionRequest, plans: Sequence[Plan], store: Path) -> None:
        self.scenario = scenario
        self.plans = plans
        self._command = command_of(scenario, request)
        self._store = store
        self._directory: RunDirectory | None = None
        self._lock = threading.Lock()

    @property
    def directory(self) -> RunDirectory | None:
        """Its directory; None before its first run."""
        return self._directory

    def begin(self, plan: Plan, on_event: OnEvent) -> tuple[RunDirectory, Plan]:
        """Create the directory of a run, from any thread; returns it with the plan."""
        assert plan.side is not None
        with self._lock:
            if self._directory is None:
                system, _ = plugins.system(plan.system)
                name = f"{self.scenario.id}-{system.name}"
                self._directory = new_run(self._store, name, datetime.now(UTC), "reproduction")
                own(self._directory)
                self._directory.enter("running", datetime.now(UTC))
            run = self._directory.new_side(plan.side, datetime.now(UTC))
        on_event(RunStarted(title_of(plan), str(run.path), plan.story_seconds))
        return run, plan

    def interrupt(self) -> None:
        """Record that the reproduction was interrupted, if it had begun."""
        if self._directory is not None:
            interrupt(self._directory)

    def judge(self, judge: Callable[[RunDirectory], RunVerdict], on_event: OnEvent) -> Reproduced:
        """Judge the runs, then the scenario by them."""
        directory = self._directory
        assert directory is not None, "judged after its runs"
        directory.enter("recorded", datetime.now(UTC))
        verdicts: dict[str, RunVerdict] = {}
        for run in directory.sides():
            on_event(Phase(f"checking {self.scenario.id} {run.name}"))
            verdicts[run.name] = judge(run)
        return directory, judge_reproduction(directory, self.scenario, self._command, verdicts)


def plans_to_run(scenario: Scenario, request: ReproductionRequest, on_event: OnEvent) -> list[Plan]:
    """The plans of the scenario's sides. Raises BadInput for what the system does not support."""
    if request.each is not None:
        raise BadInput("--each: expected a request for sides; harness.running.each_value runs one with each value")
    plans = asyncio.run(_plans(scenario, _with_seed(request), phases(on_event)))
    for plan in plans:
        refuse_impossible(plan)
    return plans


def _with_seed(request: ReproductionRequest) -> ReproductionRequest:
    return request.model_copy(update={"seed": new_seed() if request.seed is None else request.seed})


def command_of(scenario: Scenario, request: ReproductionRequest) -> str:
    """The command that repeats the reproduction."""
    return shlex.join(argv_of("reproduce", request, (scenario.id,)))


async def _plans(scenario: Scenario, request: ReproductionRequest, report: Report) -> list[Plan]:
    """The plans of the requested side, or of both; if the system has only one of them, of that one."""
    sides: Sequence[SideName] = tuple(scenario.sides) if request.side == "both" else (request.side,)
    if request.side == "both" and (available := scenario.sides_on(plugins.system(request.system)[0].name)):
        for name in [each for each in sides if each not in available]:
            report(_not_available(scenario, name, request.system))
        sides = available
    return [
        await side_plan(scenario, request, name, number, report) for number in range(request.times) for name in sides
    ]


async def side_plan(
    scenario: Scenario, request: ReproductionRequest, name: SideName, number: int, report: Report
) -> Plan:
    """The plan of one run of a side. Raises BadInput where the side is not available on the system."""
    side, (system, _) = scenario.side(name), plugins.system(request.system)
    setup = side.setups.get(system.name)
    if setup is None:
        raise BadInput(_not_available(scenario, name, system.name))
    deployment = scenario.deployment(name, system.name, request.full)
    nodes = deployment.nodes if request.nodes is None else request.nodes
    if nodes not in (deployment.nodes, *scenario.sizes):
        sizes = " or ".join(map(str, sorted({deployment.nodes, *scenario.sizes})))
        raise BadInput(f"--nodes {nodes}: expected {sizes} for scenario {scenario.id}")
    full_name, notes = await resolve_system(request.system, setup.version, request.hosts, report)
    _refuse_low_features(scenario, request, name, full_name)
    versions = {node: f"{system.name}:{version}" for node, version in setup.node_versions.items()}
    assert request.seed is not None
    return checked(
        Plan,
        {
            "name": scenario.id,
            "scenario": scenario.id,
            "side": name,
            "system": full_name,
            "switch": {**setup.switches, **request.switches},
            "feature": dict(request.features),
            "hosts": request.hosts,
            "inventory": request.inventory,
            "node_switches": {node: _node_switches(request, own) for node, own in deployment.node_switches.items()},
            "node_systems": {
                node: (await resolve_system(each, "", request.hosts, report))[0] for node, each in versions.items()
            },
            "not_started": list(deployment.not_started),
            "layout": deployment.layout,
            "nodes": nodes,
            "voters": deployment.voters,
            "workload": scenario.workload,
            "option": dict(side.workload_options),
            "record_rpcs": side.needs_rpcs,
            "seed": request.seed + number,
            "story": [StoryStep.of(step) for step in deployment.story],
            "versions": notes | our_versions(),
            "command": command_of(scenario, request),
        },
    )


def _not_available(scenario: Scenario, name: SideName, system: str) -> str:
    needs = " or ".join(f"--system {each}" for each in scenario.side(name).setups)
    return f"scenario {scenario.id}: its {name} side is not available on {system}; it needs {needs}"


def _refuse_low_features(scenario: Scenario, request: ReproductionRequest, name: SideName, full_name: str) -> None:
    """Raise BadInput where the requested features, or a release without any, do not reach what the side needs."""
    system, version = plugins.system(full_name)
    if not version:
        return  # a system without releases has switches instead
    for feature, least in scenario.side(name).needs_features.items():
        level = request.features.get(feature, "")
        if not system.has_features(version):
            problem = f"--system {full_name}: expected a release that has {feature}"
        elif level.isdecimal() and int(level) < least:
            problem = f"--feature {feature}={level}: expected {least} or higher"
        else:
            continue
        other = "bad" if name == "good" else "good"
        raise BadInput(f"{problem}, which the {name} side of {scenario.id} needs; --side {other} does not")


def _node_switches(request: ReproductionRequest, own: Mapping[str, str]) -> dict[str, str]:
    """A node's own switches that its system knows; the user's switches for all nodes override them."""
    system, _ = plugins.system(request.system)
    return {name: value for name, value in own.items() if name not in request.switches and system.accepts(name)}
