"""Every fault on every kind of host that this machine has: whether it can be had, and whether it works.

What may live here: the questions, and the table of answers. What may not: faults (nemesis) and hosts (nodes).

A trial is a run like any other, on three reference nodes: its story is each fault's own trial and a heal, and what the
nemesis put into the history says what was proved, and how long it took.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.engine.records import read_history
from harness.launch import carry_out, controller_command
from harness.model import NEMESIS, Op
from harness.model.disks import FileSystem
from harness.model.hosts import HostKind
from harness.model.story import ALL_FOLLOW_ONE_LEADER, MARK, Step, heal, mark, once
from harness.plan import Plan, StoryStep
from nemesis.fault import Fault
from nemesis.faults import BY_DEED, FAULTS
from results.files import write_text
from results.store import new_run

SURVEY_SECONDS = 120
NODES = 3
MS = 1e6


@dataclass(frozen=True, slots=True)
class Ground:
    """A kind of host, with the disks of its nodes and, for ssh, the machines."""

    hosts: HostKind
    disk: FileSystem = "directory"
    inventory: str | None = None

    @property
    def name(self) -> str:
        """E.g. 'netns (ext4)'."""
        return self.hosts if self.disk == "directory" else f"{self.hosts} ({self.disk})"


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one fault: why it cannot be had, what failed, or how long it took to put in place and to undo."""

    fault: str
    ground: str
    missing: str | None = None
    failed: str | None = None
    injected_ms: float | None = None
    healed_ms: float | None = None


def survey(ground: Ground, store: Path) -> dict[str, str | None]:
    """Why each fault cannot be had on this ground, None where it can."""
    run = new_run(store, "survey", datetime.now(UTC))
    plan = _plan(ground, [step for fault in FAULTS for step in fault.trial])
    write_text(run.plan, plan.model_dump_json(indent=2) + "\n")
    argv = controller_command(plan, ["-m", "harness.survey", str(run.path)])
    try:
        said = subprocess.run(argv, capture_output=True, text=True, timeout=SURVEY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys((fault.name for fault in FAULTS), f"{ground.hosts} hosts: {error}")
    if said.returncode:
        last = (said.stderr.strip().splitlines() or ["no reason given"])[-1]
        return dict.fromkeys((fault.name for fault in FAULTS), last)
    reasons: dict[str, str | None] = json.loads(said.stdout)
    return reasons


def attempt(ground: Ground, store: Path, report: Callable[[str], None]) -> list[Trial]:
    """Inject, prove and heal every fault on this ground."""
    report(f"{ground.name}: looking")
    reasons = survey(ground, store)
    wanted = [fault for fault in FAULTS if reasons[fault.name] is None]
    trials = [Trial(name, ground.name, missing=reason) for name, reason in reasons.items() if reason]
    if not wanted:
        return trials
    run = new_run(store, "faults", datetime.now(UTC))
    carry_out(_plan(ground, _story(wanted)), run, lambda doing: report(f"{ground.name}: {doing}"))
    tried = _outcomes(ground, [op for op in read_history(run.history) if op.process == NEMESIS])
    return sorted([*trials, *tried], key=lambda trial: list(reasons).index(trial.fault))


def _story(faults: Sequence[Fault]) -> list[Step]:
    ready = once(ALL_FOLLOW_ONE_LEADER)
    return [ready, *(step for fault in faults for step in (mark(fault.name), *fault.trial, heal(), ready))]


def _plan(ground: Ground, story: Iterable[Step]) -> Plan:
    return Plan(
        hosts=ground.hosts,
        inventory=ground.inventory,
        disk=ground.disk,
        nodes=NODES,
        name="faults",
        seed=1,
        story=[StoryStep(f=step.f, value=step.value) for step in story],
    )


def _outcomes(ground: Ground, history: Sequence[Op]) -> list[Trial]:
    """A trial for each mark: the sum of its deeds' times, and of its heal's."""
    trials: list[Trial] = []
    name, invoked, injected_ms, problems = "", None, 0.0, list[str]()
    for op in history:
        if op.f == MARK and op.value in {fault.name for fault in FAULTS}:
            name, injected_ms, problems = str(op.value), 0.0, []
        elif invoked is None or invoked.f != op.f:
            invoked = op
        else:
            took_ms, invoked = (op.time_ns - invoked.time_ns) / MS, None
            problems += [op.error] if op.error else []
            injected_ms += took_ms if op.f in BY_DEED else 0.0
            if op.f == "heal" and name:
                trials.append(Trial(name, ground.name, None, "; ".join(problems) or None, injected_ms, took_ms))
                name = ""
    return trials
