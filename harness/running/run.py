"""A run on request: a workload under a schedule of faults, carried out and judged."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness.judging.runs import judge_run
from harness.judging.spark import open_spark
from harness.model.story import ALL_FOLLOW_ONE_LEADER, once
from harness.planning.plan import NO_FAULTS, Load, Plan, Request, StoryStep
from harness.planning.preflight import preflight
from harness.planning.systems import build, settle
from harness.planning.workloads import workload_of
from harness.recovery.heal import heal_before_a_run
from harness.running.controller_process import carry_out
from harness.running.reproduce import new_seed, our_versions
from nemesis.schedule import Mix, random_story
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run

DEFAULT_KAFKA = "newest 4"
Report = Callable[[str], None]


def run_request(asked: Request, store: Path, master: str | None, report: Report) -> tuple[RunDirectory, RunVerdict]:
    """Settle a request into a plan, carry it out, judge it."""
    plan = asyncio.run(_settled(asked, report))
    build(plan)
    workload_of(plan)
    preflight(plan.hosts)
    for line in heal_before_a_run(store):
        report(line)
    run = new_run(store, plan.name, datetime.now(UTC))
    carry_out(plan, run, report)
    report("starting Spark")
    spark = open_spark(master)
    report("judging")
    return run, judge_run(run, spark)


async def _settled(asked: Request, report: Report) -> Plan:
    system, versions = await settle(asked.system, DEFAULT_KAFKA, report)
    seed = new_seed() if asked.seed is None else asked.seed
    mix = Mix({name: asked.weights.get(name, 1.0) for name in asked.faults if name != NO_FAULTS}, asked.at_once)
    drawn = random_story(mix, seed, asked.time_limit_seconds, asked.interval_seconds, asked.nodes)
    story = [step.step() for step in asked.story] or [once(ALL_FOLLOW_ONE_LEADER), *drawn]
    settled = asked.model_copy(update={"system": system, "seed": seed})
    return Plan(
        **settled.model_dump(include=set(Load.model_fields)),
        name=asked.name,
        seed=seed,
        story=[StoryStep(f=step.f, value=step.value) for step in story],
        versions=versions | our_versions(),
        command=_command(settled),
    )


FLAGS = {"time_limit_seconds": "time-limit", "interval_seconds": "interval", "rate_per_second": "rate"}
LISTS = frozenset({"story", "switches", "faults", "weights", "workload_options"})


def _command(settled: Request) -> str:
    """The command that repeats the run; a story of the user's own is repeated from the stored plan's file."""
    given = settled.model_dump(exclude=set(LISTS), exclude_defaults=True)
    flags = [f"--{FLAGS.get(key, key).replace('_', '-')} {shlex.quote(str(value))}" for key, value in given.items()]
    flags += [f"--switch {shlex.quote(f'{name}={value}')}" for name, value in settled.switches.items()]
    flags += [f"--option {shlex.quote(f'{name}={value}')}" for name, value in settled.workload_options.items()]
    flags += [f"--weight {name}={weight:g}" for name, weight in settled.weights.items()]
    story = " --plan PLAN.toml" if settled.story else f" --faults {','.join(settled.faults)}"
    return f"splitbrain run {' '.join(flags)}{story}"
