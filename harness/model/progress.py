"""What a command reports while it works: events, from the controller of a run to the screen.

The controller sends its events to the command that started it (harness.running.event_lines); the command adds its own,
and shows all of them with the time at which they arrive (harness.commands.output.progress).

Contains the events. Does not contain when they happen or how they look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["preparation", "start", "story", "final reads", "collection", "checks"]
"""The parts of a command's time: before the run, until the story begins, the story with its load, and so on."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins: what it is, where it is recorded, and the sum of the story's pauses, the least that it takes."""

    title: str
    path: str
    story_seconds: float
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase begins, e.g. "starting Spark". Without a stage it belongs to that of the phase before."""

    text: str
    stage: Stage | None = None
    kind: Literal["phase"] = "phase"


@dataclass(frozen=True, slots=True)
class NemesisEvent:
    """A nemesis operation began, or is done and has this outcome; active are the labels of the faults in place.

    is_wait: it only waits for a condition.
    """

    text: str
    is_done: bool
    is_wait: bool = False
    error: str | None = None
    active: tuple[str, ...] = ()
    kind: Literal["nemesis"] = "nemesis"


@dataclass(frozen=True, slots=True)
class Leadership:
    """The quorum's leader and its epoch, as far as known; None while no node claims to lead.

    run names the run, if several take place at a time.
    """

    leader: int | None
    epoch: int | None = None
    run: str = ""
    kind: Literal["leader"] = "leader"


@dataclass(frozen=True, slots=True)
class Operations:
    """The number of client operations so far, by outcome."""

    ok: int
    fail: int
    info: int
    kind: Literal["operations"] = "operations"


@dataclass(frozen=True, slots=True)
class Tally:
    """How far a command with many runs has come, and with what results."""

    text: str
    kind: Literal["tally"] = "tally"


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The controller's last event if the plan was carried out."""

    kind: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The controller's last event if the run failed."""

    message: str
    exit_code: int
    kind: Literal["failed"] = "failed"


Event = RunStarted | Phase | NemesisEvent | Leadership | Operations | Tally | RunEnded | RunFailed
OnEvent = Callable[[Event], None]
"""Called with each event as it happens."""


def phases(on_event: OnEvent, stage: Stage | None = None) -> Callable[[str], None]:
    """A function that reports texts as phases, for code that reports nothing else."""
    return lambda text: on_event(Phase(text, stage))
