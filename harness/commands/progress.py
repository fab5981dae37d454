"""What a command shows on standard error while it works: a line per event and, on a terminal, a panel below them.

The events are those of harness.model.progress. The panel shows the present state; the last line says where the time
went.

Contains the screen. Does not contain results, which go to standard output (harness.commands.console).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.model.progress import (
    Event,
    Leadership,
    NemesisEvent,
    OnEvent,
    Operations,
    Phase,
    RunStarted,
    Stage,
)

Clock = Callable[[], float]


class Verbosity(Enum):
    """How much is shown."""

    QUIET = "quiet"
    USUAL = "usual"
    VERBOSE = "verbose"


OPERATIONS_EVERY_SECONDS: Final = 5.0
"""How often the number of operations is a line of its own, where there is no panel."""
TOTAL_SHOWN_FROM_SECONDS: Final = 2.0
"""A command that took less does not say where its time went."""


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


def line_of(event: Event, verbose: bool = False) -> str | None:
    """An event as a line; None if it is not shown."""
    if isinstance(event, RunStarted):
        return f"run       {event.title}, recorded in {event.path}"
    if isinstance(event, Phase):
        return f"phase     {event.text}"
    if isinstance(event, Leadership):
        return f"leader    {leader_text(event)}"
    if isinstance(event, NemesisEvent):
        return nemesis_line(event, verbose)
    if isinstance(event, Operations):
        return f"clients   {operations_text(event)}"
    return None


def nemesis_line(event: NemesisEvent, verbose: bool) -> str | None:
    """A nemesis operation when it is done, or when a wait begins; verbose shows both ends of both."""
    if event.error:
        return f"nemesis   {event.text}: FAILED: {event.error}"
    if verbose:
        return f"nemesis   {event.text}{': done' if event.is_done else ': begins'}"
    is_wait = event.text.startswith("waiting ")
    return f"nemesis   {event.text}" if is_wait != event.is_done else None


def leader_text(event: Leadership) -> str:
    """The leader and its epoch."""
    if event.leader is None:
        return "none"
    return f"n{event.leader}" + ("" if event.epoch is None else f" in epoch {event.epoch}")


def operations_text(event: Operations) -> str:
    """The number of operations by outcome."""
    return f"{event.ok:,} ok, {event.fail:,} fail, {event.info:,} info"


class Lines:
    """Prints events as lines with the seconds since the command began."""

    def __init__(
        self,
        status: Status,
        write: Callable[[str], None],
        operations_every: float = float("inf"),
        verbose: bool = False,
    ) -> None:
        """operations_every is how often, in seconds, the number of operations is a line; verbose shows all others."""
        self._verbose = verbose
        self._status = status
        self._write = write
        self._operations_every = operations_every
        self._operations_written = 0.0

    def __call__(self, event: Event) -> None:
        """Take an event into account, and print its line."""
        self._status.update(event)
        line = line_of(event, self._verbose)
        if line and self._is_due(event):
            self.print(line)

    def print(self, line: str) -> None:
        """Print a line."""
        self._write(f"{self._status.now():6.1f} s  {line}")

    def _is_due(self, event: Event) -> bool:
        if not isinstance(event, Operations):
            return True
        is_due = self._status.now() - self._operations_written >= self._operations_every
        self._operations_written = self._status.now() if is_due else self._operations_written
        return is_due


def panel(status: Status) -> RenderableType:
    """The present state as a table."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows(status):
        table.add_row(name, Text(text))
    return Group("", table)


def rows(status: Status) -> Iterator[tuple[str, str]]:
    """The lines of the present state, each with its name."""
    now = status.now()
    if status.run:
        yield "run", status.run.title
    remaining = status.remaining()
    yield "time", f"{now:.0f} s" + (f"; {remaining}" if remaining else "")
    yield "phase", status.phase
    if status.operation:
        yield "now", status.operation.text
    if status.stage in ("start", "story", "final reads"):
        faults = [f"{label} (for {now - since:.0f} s)" for label, since in status.faults.items()]
        yield "faults", "; ".join(faults) or "none in place"
    if status.leadership:
        yield "leader", f"{leader_text(status.leadership)} (for {now - status.leader_since:.0f} s)"
    if status.operations:
        last = "no ok yet" if status.last_ok is None else f"last ok {now - status.last_ok:.1f} s ago"
        yield "clients", f"{operations_text(status.operations)}; {last}"
    if status.run and status.stage not in ("checks", "preparation"):
        yield "Ctrl-C", f"ends the run, heals every fault and keeps what was recorded in {status.run.path}"


@contextmanager
def progress(verbosity: Verbosity = Verbosity.USUAL) -> Iterator[OnEvent]:
    """A function that shows events on standard error. If the user interrupts a run, says where it is recorded."""
    began = time.monotonic()
    status = Status(lambda: time.monotonic() - began)
    try:
        if verbosity is Verbosity.QUIET:
            yield status.update
        else:
            yield from _shown(status, verbosity is Verbosity.VERBOSE)
    except KeyboardInterrupt:
        if status.run:
            path = status.run.path
            print(f"recorded in {path}; check it with: splitbrain check {path}", file=sys.stderr, flush=True)
        raise


def _shown(status: Status, verbose: bool) -> Iterator[OnEvent]:
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        lines = Lines(status, lambda line: console.print(Text(line, style="dim")), verbose=verbose)
        with Live(get_renderable=lambda: panel(status), console=console, transient=True):
            yield lines
    else:
        every = 0.0 if verbose else OPERATIONS_EVERY_SECONDS
        yield (lines := Lines(status, lambda line: print(line, file=sys.stderr, flush=True), every, verbose))
    if status.now() >= TOTAL_SHOWN_FROM_SECONDS:
        lines.print(status.where_the_time_went())
