"""Every fault on every kind of host that this machine has: whether it can be had, and whether it works.

What may live here: the questions, and the table of answers. What may not: faults (nemesis) and hosts (nodes).

A trial is a run like any other, on three reference nodes: its story is each fault's own trial and a heal, and what the
nemesis put into the history says what was proved, and how long it took.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from harness.engine.records import read_history
from harness.model import NEMESIS, Op
from harness.model.faults.disks import FileSystem
from harness.model.hosts import HostKind
from harness.model.story import ALL_FOLLOW_ONE_LEADER, MARK, STORY_BEGINS, Step, heal, mark, once
from harness.planning.plan import Plan, StoryStep
from harness.running.controller_process import carry_out, controller_command
from nemesis.fault import Fault
from nemesis.registry import BY_ACTION, FAULTS
from results.files import write_text
from results.store import new_run

SURVEY_SECONDS = 120
NODES = 3
MS = 1e6


@dataclass(frozen=True, slots=True)
class TrialEnvironment:
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
    """What became of one sequence: why it cannot be had, what failed, or how long putting it in place and undoing took.

    what is how the nemesis words what it did, or the action that cannot be had.
    """

    fault: str
    what: str
    environment: str
    missing: str | None = None
    failed: str | None = None
    injected_ms: float | None = None
    healed_ms: float | None = None


FaultSequence = tuple[Fault, tuple[Step, ...]]
FAULT_SEQUENCES: tuple[FaultSequence, ...] = tuple((fault, steps) for fault in FAULTS for steps in fault.trials)


def survey(environment: TrialEnvironment, store: Path) -> dict[str, str | None]:
    """Why each action cannot be had on this environment, None where it can."""
    run = new_run(store, "survey", datetime.now(UTC))
    plan = _plan(environment, [step for _, steps in FAULT_SEQUENCES for step in steps])
    write_text(run.plan, plan.model_dump_json(indent=2) + "\n")
    argv = controller_command(plan, ["-m", "harness.running.fault_survey", str(run.path)])
    try:
        said = subprocess.run(argv, capture_output=True, text=True, timeout=SURVEY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(BY_ACTION, f"{environment.hosts} hosts: {error}")
    if said.returncode:
        last = (said.stderr.strip().splitlines() or ["no reason given"])[-1]
        return dict.fromkeys(BY_ACTION, last)
    reasons: dict[str, str | None] = json.loads(said.stdout)
    return reasons


def attempt(environment: TrialEnvironment, store: Path, report: Callable[[str], None]) -> list[Trial]:
    """Inject, prove and heal every sequence on this environment."""
    report(f"{environment.name}: looking")
    reasons = survey(environment, store)
    missing = {
        number: reason for number, (_, steps) in enumerate(FAULT_SEQUENCES) if (reason := _why_not(steps, reasons))
    }
    wanted = [number for number in range(len(FAULT_SEQUENCES)) if number not in missing]
    if not wanted:
        return [_missing(environment, number, missing[number]) for number in sorted(missing)]
    run = new_run(store, "faults", datetime.now(UTC))
    carry_out(_plan(environment, _story(wanted)), run, lambda doing: report(f"{environment.name}: {doing}"))
    tried = _outcomes(environment, [op for op in read_history(run.history) if op.process == NEMESIS])
    return [
        _missing(environment, number, missing[number]) if number in missing else tried[number]
        for number in range(len(FAULT_SEQUENCES))
    ]


def _why_not(steps: Sequence[Step], reasons: Mapping[str, str | None]) -> str | None:
    return next(filter(None, (reasons.get(step.f) for step in steps)), None)


def _missing(environment: TrialEnvironment, number: int, reason: str) -> Trial:
    fault, steps = FAULT_SEQUENCES[number]
    return Trial(fault.name, steps[0].f, environment.name, missing=reason)


def _story(numbers: Iterable[int]) -> list[Step]:
    ready = once(ALL_FOLLOW_ONE_LEADER)
    return [
        ready,
        *(step for number in numbers for step in (mark(f"{number}"), *FAULT_SEQUENCES[number][1], heal(), ready)),
    ]


def _plan(environment: TrialEnvironment, story: Iterable[Step]) -> Plan:
    return Plan(
        hosts=environment.hosts,
        inventory=environment.inventory,
        disk=environment.disk,
        nodes=NODES,
        name="faults",
        seed=1,
        story=[StoryStep(f=step.f, value=step.value) for step in story],
    )


def _outcomes(environment: TrialEnvironment, history: Sequence[Op]) -> dict[int, Trial]:
    """A trial by its mark: how long its slowest action took, and its heal; a sequence that came to no heal failed."""
    marks = [place for place, op in enumerate(history) if op.f == MARK and op.value != STORY_BEGINS]
    parts = [history[start:end] for start, end in pairwise([*marks, len(history)])]
    return {int(part[0].value): _outcome(environment, int(part[0].value), part[1:]) for part in parts}


def _outcome(environment: TrialEnvironment, number: int, rows: Sequence[Op]) -> Trial:
    fault, steps = FAULT_SEQUENCES[number]
    ended = [(begun, done) for begun, done in zip(rows[::2], rows[1::2], strict=False)]
    actions = [(begun, done) for begun, done in ended if done.f in BY_ACTION]
    heals = [(begun, done) for begun, done in ended if done.f == "heal"]
    problems = [done.error for _, done in ended if done.error] or ([] if heals else ["the run ended before it healed"])
    told = actions[0][1].value if actions and not actions[0][1].error else {}
    return Trial(
        fault.name,
        str(told.get("label", steps[0].f)),
        environment.name,
        failed="; ".join(problems) or None,
        injected_ms=max(((done.time_ns - begun.time_ns) / MS for begun, done in actions), default=None),
        healed_ms=max(((done.time_ns - begun.time_ns) / MS for begun, done in heals), default=None),
    )
