"""Tries every fault on every kind of host of this machine: whether it is available, and whether it works.

A trial is a run like any other, on three reference nodes. Its story is each fault's own trials, each followed by a
heal; the nemesis's rows of the history show what was verified, and how long it took.

Contains the trials and their outcomes. Does not contain faults (nemesis) or hosts (nodes).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path

from harness import plugins
from harness.engine.records import read_history
from harness.model import NEMESIS, Op
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.progress import OnEvent, Phase, RunStarted
from harness.model.story import MARK, STORY_BEGINS, Step, heal, mark, wait_until
from harness.planning.plan import Plan, checked
from harness.planning.preflight import require_inventory
from harness.planning.story_steps import StoryStep
from harness.running.controller_process import carry_out, controller_command
from nemesis.fault import Fault
from results.files import write_text
from results.store import new_run

SURVEY_SECONDS = 120
NODES = 3
VOTERS_CHANGE = {"reference.voter_changes": "kip-642"}
"""So that a reassignment of the voters can be tried, too."""

MS = 1e6


@dataclass(frozen=True, slots=True)
class TrialEnvironment:
    """A kind of host, with the disks of its nodes and, for ssh, the machines.

    Raises BadInput for a kind of host or disk that does not exist, and as require_inventory does.
    """

    hosts: str
    disk: str = "directory"
    inventory: str | None = None

    def __post_init__(self) -> None:
        _plan(self, ())
        require_inventory(self.hosts, self.inventory, NODES)

    @property
    def name(self) -> str:
        """E.g. 'netns (ext4)'."""
        return self.hosts if self.disk == "directory" else f"{self.hosts} ({self.disk})"


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one sequence: why it is unavailable, what failed, or how long injecting and healing took.

    what is the nemesis's label of what it did, or the name of the unavailable action.
    """

    fault: str
    what: str
    environment: str
    unavailable: str | None = None
    failed: str | None = None
    injected_ms: float | None = None
    healed_ms: float | None = None


FaultSequence = tuple[Fault, tuple[Step, ...]]


@cache
def fault_sequences() -> tuple[FaultSequence, ...]:
    """Every trial of every fault."""
    return tuple((fault, steps) for fault in plugins.faults().values() for steps in fault.trials)


def survey(environment: TrialEnvironment, store: Path) -> dict[str, str | None]:
    """Why each action is unavailable in this environment, None where it is available."""
    run = new_run(store, "survey", datetime.now(UTC))
    plan = _plan(environment, [step for _, steps in fault_sequences() for step in steps])
    write_text(run.plan, plan.as_json())
    argv = controller_command(plan, ["-P", "-m", "harness.running.fault_survey", str(run.path)])
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=SURVEY_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(plugins.actions(), f"{environment.hosts} hosts: {error}")
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        return dict.fromkeys(plugins.actions(), last)
    reasons: dict[str, str | None] = json.loads(result.stdout)
    return reasons


def attempt(environment: TrialEnvironment, store: Path, on_event: OnEvent) -> list[Trial]:
    """Inject, verify and heal every sequence in this environment."""
    on_event(Phase(f"{environment.name}: checking available faults", "preparation"))
    reasons = survey(environment, store)
    unavailable = {
        number: reason for number, (_, steps) in enumerate(fault_sequences()) if (reason := _reason(steps, reasons))
    }
    available = [number for number in range(len(fault_sequences())) if number not in unavailable]
    if not available:
        return [_unavailable(environment, number, unavailable[number]) for number in sorted(unavailable)]
    run = new_run(store, "faults", datetime.now(UTC))
    plan = _plan(environment, _story(available))
    on_event(RunStarted(f"trials of every fault on {environment.name}", str(run.path), plan.story_seconds))
    carry_out(plan, run, on_event)
    tried = _outcomes(environment, [op for op in read_history(run.history) if op.process == NEMESIS])
    return [
        _unavailable(environment, number, unavailable[number]) if number in unavailable else tried[number]
        for number in range(len(fault_sequences()))
    ]


def _reason(steps: Sequence[Step], reasons: Mapping[str, str | None]) -> str | None:
    return next(filter(None, (reasons.get(step.f) for step in steps)), None)


def _unavailable(environment: TrialEnvironment, number: int, reason: str) -> Trial:
    fault, steps = fault_sequences()[number]
    return Trial(fault.name, steps[0].f, environment.name, unavailable=reason)


def _story(numbers: Iterable[int]) -> list[Step]:
    ready = wait_until(ALL_FOLLOW_LEADER)
    return [
        ready,
        *(step for number in numbers for step in (mark(f"{number}"), *fault_sequences()[number][1], heal(), ready)),
    ]


def _plan(environment: TrialEnvironment, story: Iterable[Step]) -> Plan:
    values = {"hosts": environment.hosts, "inventory": environment.inventory, "disk": environment.disk}
    steps = [StoryStep.of(step) for step in story]
    return checked(
        Plan, {**values, "nodes": NODES, "name": "faults", "seed": 1, "story": steps, "switches": VOTERS_CHANGE}
    )


def _outcomes(environment: TrialEnvironment, history: Sequence[Op]) -> dict[int, Trial]:
    """Trials by their marks: how long the slowest action took, and the heal. A sequence without a heal failed."""
    marks = [place for place, op in enumerate(history) if op.f == MARK and op.value != STORY_BEGINS]
    parts = [history[start:end] for start, end in pairwise([*marks, len(history)])]
    return {int(part[0].value): _outcome(environment, int(part[0].value), part[1:]) for part in parts}


def _outcome(environment: TrialEnvironment, number: int, rows: Sequence[Op]) -> Trial:
    fault, steps = fault_sequences()[number]
    ended = [(begun, done) for begun, done in zip(rows[::2], rows[1::2], strict=False)]
    actions = [(begun, done) for begun, done in ended if done.f in plugins.actions()]
    heals = [(begun, done) for begun, done in ended if done.f == "heal"]
    problems = [done.error for _, done in ended if done.error] or ([] if heals else ["the run ended before the heal"])
    done_value = actions[0][1].value if actions and not actions[0][1].error else {}
    return Trial(
        fault.name,
        str(done_value.get("label", steps[0].f)),
        environment.name,
        failed="; ".join(problems) or None,
        injected_ms=max(((done.time_ns - begun.time_ns) / MS for begun, done in actions), default=None),
        healed_ms=max(((done.time_ns - begun.time_ns) / MS for begun, done in heals), default=None),
    )
