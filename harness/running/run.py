"""A run on request: a workload under a schedule of faults, carried out and checked."""

from __future__ import annotations

import asyncio
import platform
import secrets
import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import tomli_w

from harness import plugins
from harness.judging.runs import judge_run
from harness.judging.spark import SparkLater
from harness.model import BadInput
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.plurals import counted
from harness.model.progress import OnEvent, Phase, RunStarted, phases
from harness.model.story import Step, wait_until
from harness.model.systems import Report
from harness.planning.options import argv_of
from harness.planning.plan import NO_FAULTS, PLAN_FILE_ONLY, Load, Plan, Request
from harness.planning.preflight import preflight, require_hosts, require_simulation
from harness.planning.story_steps import StoryStep
from harness.planning.workloads import checks_of, workload_of
from harness.recovery.heal import heal_before_a_run
from harness.running.at_once import at_end_of_load
from harness.running.controller_process import carry_out
from harness.simulating.simulation import unavailable_actions
from harness.simulating.timed import require_timed
from harness.systems.cluster import Cluster, label_of, refuse_unavailable_faults
from nemesis.faults.membership import VOTER_ACTIONS, VOTERS
from nemesis.schedule import Mix, random_story, why_never
from results.files import write_text
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run

REQUEST_FILE = "request.toml"


def run_request(
    request: Request, store: Path, master: str | None, on_event: OnEvent
) -> tuple[RunDirectory, RunVerdict]:
    """Resolve a request into a plan, carry it out, check it."""
    resolved, plan = _settled(request, on_event)
    preflight(plan.hosts)
    for line in heal_before_a_run(store):
        on_event(Phase(line))
    run = new_run(store, plan.name, datetime.now(UTC))
    plan = plan.model_copy(update={"command": shlex.join(command_of(resolved, run))})
    on_event(RunStarted(title_of(plan), str(run.path), plan.story_seconds))
    later = SparkLater(master)
    carry_out(plan, run, at_end_of_load(on_event, later.start))
    on_event(Phase("starting Spark", "checks"))
    spark = later.session()
    on_event(Phase(f"checking: {', '.join(checks_of(plan, workload_of(plan)))}"))
    return run, judge_run(run, spark)


def plan_to_run(request: Request, on_event: OnEvent) -> Plan:
    """What run_request would carry out. Raises BadInput for what the system or the workload does not support."""
    _, plan = _settled(request, on_event)
    return plan


def _settled(request: Request, on_event: OnEvent) -> tuple[Request, Plan]:
    resolved, versions = asyncio.run(resolve(request, phases(on_event)))
    plan = plan_of(resolved, versions)
    refuse_impossible(plan, request.faults if not request.story else ())
    workload_of(plan)
    return resolved, plan


def refuse_impossible(plan: Plan, faults: Sequence[str] = ()) -> None:
    """Raise BadInput for what the plan's system or hosts do not support; faults are those that it may have drawn."""
    Cluster(plan)
    refuse_unavailable_faults(plan, faults)
    require_hosts(plan)
    require_timed(plan)


def title_of(plan: Plan) -> str:
    """What a run is, in one line."""
    name = f"{plan.scenario}, {plan.side} side" if plan.scenario else plan.workload
    return f"{name} on {label_of(plan)}, {counted(plan.nodes, 'node')}, {plan.hosts} hosts, seed {plan.seed}"


async def resolve(request: Request, report: Report) -> tuple[Request, dict[str, str]]:
    """The request with an exact version and a seed, and what to note of versions."""
    system, notes = await resolve_system(request.system, "", request.hosts, report)
    others = {
        node: (await resolve_system(name, "", request.hosts, report))[0] for node, name in request.node_systems.items()
    }
    seed = new_seed() if request.seed is None else request.seed
    return request.model_copy(update={"system": system, "node_systems": others, "seed": seed}), notes


async def resolve_system(name: str, default_version: str, hosts: str, report: Report) -> tuple[str, dict[str, str]]:
    """A system's full name with its artifacts on this machine, and what to note of versions.

    default_version applies where the name has no version. Raises BadInput for an unknown system or version.
    """
    kind, given = plugins.system(name)
    resolve_version = kind.resolve_simulated if plugins.host_kind(hosts).simulated else kind.resolve
    resolved = await (resolve_version or kind.resolve)(given or default_version or kind.default_version, report)
    registered = kind.name in plugins.names("systems")
    full = f"{kind.name}:{resolved.version}" if resolved.version else kind.name
    return full if registered else name, dict(resolved.notes)


def plan_of(request: Request, versions: dict[str, str]) -> Plan:
    """The plan of a resolved request. Raises BadInput for faults that simulated nodes do not have."""
    assert request.seed is not None, "a resolved request has a seed"
    plan = Plan(
        **{name: getattr(request, name) for name in Load.model_fields},
        name=request.name,
        seed=request.seed,
        story=list(request.story),
        versions=versions | {f"n{node}": name for node, name in request.node_systems.items()} | our_versions(),
    )
    if request.story:
        return plan
    return plan.model_copy(update={"story": [StoryStep.of(step) for step in _sampled_story(request, plan)]})


def _sampled_story(request: Request, plan: Plan) -> list[Step]:
    mix = Mix({name: request.weights.get(name, 1.0) for name in request.faults if name != NO_FAULTS}, request.at_once)
    seconds, interval = request.time_limit_seconds, request.interval_seconds
    kind, _ = plugins.system(request.system)
    impossible = set(VOTER_ACTIONS if VOTERS in kind.reasons(request.layout, request.voters, request.switches) else ())
    if plugins.host_kind(plan.hosts).simulated:
        impossible |= _not_simulated(plan, mix.weights)
    story = random_story(mix, plugins.faults(), plan.seed, seconds, interval, request.nodes, impossible=impossible)
    return [wait_until(ALL_FOLLOW_LEADER), *story]


def _not_simulated(plan: Plan, faults: Iterable[str]) -> set[str]:
    """The actions that simulated nodes do not have. Raises BadInput for a fault that needs them whatever it draws."""
    require_simulation(plan)
    reasons = {action: reason for action, reason in unavailable_actions(plan).items() if reason is not None}
    for name in faults:
        reason = why_never(plugins.faults()[name], plan.nodes, reasons)
        if reason is not None:
            raise BadInput(f"--faults {name}: {reason}")
    return set(reasons)


def command_of(request: Request, run: RunDirectory) -> Sequence[str]:
    """The command that repeats the run. A request that flags cannot make is stored in the run's directory as TOML."""
    if not any(getattr(request, name) for name in PLAN_FILE_ONLY):
        return argv_of("run", request, but=PLAN_FILE_ONLY)
    path = run.path / REQUEST_FILE
    write_text(path, tomli_w.dumps(request.model_dump(mode="json", by_alias=True, exclude_none=True)))
    return ["splitbrain", "run", "--plan", str(path)]


@cache
def our_versions() -> dict[str, str]:
    """What else took part in a run: splitbrain, Python and the kernel."""
    return {"splitbrain": version("splitbrain"), "python": platform.python_version(), "kernel": platform.release()}


def new_seed() -> int:
    """A seed where the user gave none; the report shows it."""
    return secrets.randbelow(2**31)
