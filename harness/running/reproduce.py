"""Plays a scenario's sides, judges them together, and says whether the anomaly shows where it should and only there."""

from __future__ import annotations

import asyncio
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from harness.judging.runs import judge_reproduction, judge_run
from harness.judging.spark import open_spark
from harness.model import BadInput
from harness.model.hosts import HostKind
from harness.model.scenario import Scenario, SideName
from harness.planning.plan import Plan, StoryStep, settled
from harness.planning.preflight import preflight
from harness.planning.systems import KAFKA, build, has_features, is_kafka, is_switch, settle
from harness.recovery.heal import heal_before_a_run
from harness.recovery.liveness import own
from harness.running.controller_process import carry_out, interrupt
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What to play: a scenario on a system, which sides, how often, from which seed.

    switches win over those of the sides: what a fix in question would change can so be tried on a documented story;
    features are those of Kafka on both.
    """

    scenario: Scenario
    system: str
    sides: tuple[SideName, ...]
    times: int
    seed: int
    switches: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, str] = field(default_factory=dict)
    hosts: HostKind = "netns"
    inventory: str | None = None

    @property
    def command(self) -> str:
        """The command that repeats it."""
        side = "" if len(self.sides) == 2 else f" --side {self.sides[0]}"
        times = "" if self.times == 1 else f" --times {self.times}"
        switches = "".join(f" --switch {name}={value}" for name, value in self.switches.items())
        switches += "".join(f" --feature {name}={level}" for name, level in self.features.items())
        hosts = "" if self.hosts == "netns" else f" --hosts {self.hosts}"
        hosts += f" --inventory {self.inventory}" if self.inventory else ""
        what = f"{self.scenario.id} --system {self.system}{hosts}{side}{times}{switches}"
        return f"splitbrain reproduce {what} --seed {self.seed}"


def reproduce(what: Reproduction, store: Path, master: str | None, report: Report) -> tuple[RunDirectory, RunVerdict]:
    """Play all sides one after another, then judge them in one Spark session."""
    plans = [asyncio.run(_plan(what, side, number, report)) for number in range(what.times) for side in what.sides]
    for plan in plans:
        build(plan)  # refuses what a side's system does not have, before anything is started
    preflight(what.hosts)
    for line in heal_before_a_run(store):
        report(line)
    family = what.system.partition(":")[0]
    reproduction = new_run(store, f"{what.scenario.id}-{family}", datetime.now(UTC), "reproduction")
    own(reproduction)
    reproduction.enter("running", datetime.now(UTC))
    try:
        runs = [_play(plan, reproduction, report) for plan in plans]
    except BaseException:
        interrupt(reproduction)
        raise
    reproduction.enter("recorded", datetime.now(UTC))
    report("starting Spark")
    spark = open_spark(master)
    for run in runs:
        report(f"judging {run.name}")
        judge_run(run, spark)
    return reproduction, judge_reproduction(reproduction, what.scenario, what.command)


def _play(plan: Plan, reproduction: RunDirectory, report: Report) -> RunDirectory:
    assert plan.side is not None
    run = reproduction.new_side(plan.side, datetime.now(UTC))
    carry_out(plan, run, lambda doing: report(f"{run.name} on {plan.system}: {doing}"))
    return run


async def _plan(what: Reproduction, name: SideName, number: int, report: Report) -> Plan:
    side = what.scenario.side(name)
    here, there = ("Kafka", "reference") if is_kafka(what.system) else ("the reference", "kafka")
    if (side.kafka if is_kafka(what.system) else side.reference) is None:
        raise BadInput(f"scenario {what.scenario.id}: its {name} side is not to be had on {here}; use --system {there}")
    system, versions = await settle(what.system, side.kafka or "", report)
    _refuse_features_below(what, name, system)
    others = side.kafka_of_node if is_kafka(system) else {}
    return settled(
        name=what.scenario.id,
        scenario=what.scenario.id,
        side=name,
        system=system,
        switches={**({} if is_kafka(system) else side.reference or {}), **what.switches},
        features=dict(what.features),
        hosts=what.hosts,
        inventory=what.inventory,
        node_switches={node: _of_node(what, own) for node, own in side.of_node.items()},
        node_systems={node: (await settle(KAFKA, wanted, report))[0] for node, wanted in others.items()},
        layout=what.scenario.layout,
        nodes=what.scenario.nodes,
        workload=what.scenario.workload,
        workload_options=dict(side.workload_options),
        seed=what.seed + number,
        story=[StoryStep(f=step.f, value=step.value) for step in what.scenario.story],
        versions=versions | our_versions(),
        command=what.command,
    )


def _refuse_features_below(what: Reproduction, name: SideName, system: str) -> None:
    """Raises BadInput where the features asked for, or a release without any, do not reach what the side needs."""
    for feature, least in what.scenario.side(name).needs_features.items():
        level = what.features.get(feature, "")
        if not has_features(system):
            came = f"--system {system}: expected 4.0 or later, which has {feature}"
        elif level.isdecimal() and int(level) < least:
            came = f"--feature {feature}={level}: expected {least} or higher"
        else:
            continue
        other = "bad" if name == "good" else "good"
        raise BadInput(f"{came}, as the {name} side of {what.scenario.id} needs it; --side {other} can be had")


def _of_node(what: Reproduction, own: Mapping[str, str]) -> dict[str, str]:
    """A node's own switches: on real Kafka the properties alone, and none that the user gave for all nodes."""
    known = {name: value for name, value in own.items() if name not in what.switches}
    return {name: value for name, value in known.items() if not (is_kafka(what.system) and is_switch(name))}


def our_versions() -> dict[str, str]:
    """What else took part in a run: splitbrain, Python and the kernel."""
    return {"splitbrain": version("splitbrain"), "python": platform.python_version(), "kernel": platform.release()}


def new_seed() -> int:
    """A seed for who gave none; the report says which."""
    return secrets.randbelow(2**31)


def sides_of(word: str) -> Sequence[SideName]:
    """The sides that `bad`, `good` or `both` means. Raises BadInput for another word."""
    known: dict[str, Sequence[SideName]] = {"bad": ("bad",), "good": ("good",), "both": ("bad", "good")}
    if word not in known:
        raise BadInput(f"--side {word!r}: expected bad, good or both")
    return known[word]
