"""The present state of a command that works on runs: what its events have told so far.

Contains the state and what follows from it. Does not show it (progress.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.model.progress import Event, Leadership, NemesisEvent, Operations, Phase, RunStarted, Stage, Tally

Clock = Callable[[], float]


@dataclass(slots=True)
class Status:
    """Everything that the panel shows; times are seconds since the command began.

    stages are the seconds spent in each stage so far, without the current one.
    """

    now: Clock
    run: RunStarted | None = None
    phase: str = "starting"
    stage: Stage = "preparation"
    stage_began: float = 0.0
    stages: dict[Stage, float] = field(default_factory=dict)
    operation: NemesisEvent | None = None
    faults: dict[str, float] = field(default_factory=dict)
    leadership: Leadership | None = None
    leader_since: float = 0.0
    operations: Operations | None = None
    last_ok: float | None = None
    tally: str = ""

    def update(self, event: Event) -> None:
        """Take an event into account."""
        if isinstance(event, RunStarted):
            self._start_run(event)
        elif isinstance(event, Phase):
            self._enter(event)
        elif isinstance(event, NemesisEvent):
            self.operation = None if event.is_done else event
            self.faults = {label: self.faults.get(label, self.now()) for label in event.active}
        elif isinstance(event, Leadership):
            self.leadership, self.leader_since = event, self.now()
        elif isinstance(event, Operations):
            if self.operations is None or event.ok > self.operations.ok:
                self.last_ok = self.now()
            self.operations = event
        elif isinstance(event, Tally):
            self.tally = event.text

    def _start_run(self, event: RunStarted) -> None:
        self.run, self.operation, self.faults = event, None, {}
        self.leadership = self.operations = self.last_ok = None
        self._enter(Phase("starting the controller", "start"))

    def _enter(self, phase: Phase) -> None:
        self.phase = phase.text
        if phase.stage and phase.stage != self.stage:
            self._leave_stage()
            self.stage = phase.stage
        if self.stage in ("collection", "checks"):
            self.operation, self.faults, self.leadership = None, {}, None

    def _leave_stage(self) -> None:
        self.stages[self.stage] = self.stages.get(self.stage, 0.0) + self.now() - self.stage_began
        self.stage_began = self.now()

    def remaining(self) -> str:
        """How long the command will still take, as far as that is known."""
        story = self.run.story_seconds if self.run else 0.0
        after = "final reads and checks" if self.operations else "checks"
        if self.stage == "story":
            left = story - (self.now() - self.stage_began)
            return f"about {left:.0f} s of the story left, then {after}" if left >= 1 else f"story ends, then {after}"
        if self.run and self.stage == "start":
            return f"story of at least {story:.0f} s, then {after}"
        return {"final reads": "logs and checks are left", "collection": "checks are left"}.get(self.stage, "")

    def where_the_time_went(self) -> str:
        """E.g. `took 39 s: start 6 s, story 25 s, final reads 2 s, checks 6 s`."""
        self._leave_stage()
        parts = [f"{stage} {seconds:.1f} s" for stage, seconds in self.stages.items() if seconds >= 0.05]
        return f"took {sum(self.stages.values()):.1f} s: {', '.join(parts)}"
