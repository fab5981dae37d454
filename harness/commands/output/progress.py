"""What a command shows on standard error while it works: a line per event and, on a terminal, a panel below them.

The events are those of harness.model.progress. The panel shows the present state; the last line says where the time
went.

Contains the screen. Does not contain results, which go to standard output (harness.commands.output.console).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.commands.output.status import Status
from harness.model.progress import (
    Event,
    Leadership,
    NemesisEvent,
    OnEvent,
    Operations,
    Phase,
    RunStarted,
    Tally,
)


class Verbosity(Enum):
    """How much is shown."""

    QUIET = "quiet"
    USUAL = "usual"
    VERBOSE = "verbose"


OPERATIONS_EVERY_SECONDS: Final = 5.0
"""How often the number of operations is a line of its own, where there is no panel."""
TOTAL_SHOWN_FROM_SECONDS: Final = 2.0
"""A command that took less does not say where its time went."""


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
    if isinstance(event, Tally):
        return f"runs      {event.text}"
    return None


def nemesis_line(event: NemesisEvent, verbose: bool) -> str | None:
    """A nemesis operation when it is done, or when a wait begins; verbose shows both ends of both."""
    if event.error:
        return f"nemesis   {event.text}: FAILED: {event.error}"
    if verbose:
        return f"nemesis   {event.text}{': done' if event.is_done else ': begins'}"
    return f"nemesis   {event.text}" if event.is_wait != event.is_done else None


def leader_text(event: Leadership) -> str:
    """The leader and its epoch."""
    run = f"{event.run}: " if event.run else ""
    if event.leader is None:
        return f"{run}none"
    return f"{run}n{event.leader}" + ("" if event.epoch is None else f" in epoch {event.epoch}")


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
    if status.tally:
        yield "runs", status.tally
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
