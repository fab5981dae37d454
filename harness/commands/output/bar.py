"""How far a command has come that works through many things: a bar on a terminal, a line per stage elsewhere.

All of it is on standard error. It is harness.unclean_recovery.watch.Watch, and as small as that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from harness.commands.output.progress import Verbosity


class Bar:
    """The stages, as lines and, where there is a terminal, as bars."""

    def __init__(self, verbosity: Verbosity, bars: Progress | None) -> None:
        self._verbosity, self._bars = verbosity, bars
        self._task: TaskID | None = None

    def stage(self, text: str, total: int) -> None:
        """Begin a stage in which so many things are to be done."""
        if self._verbosity is Verbosity.QUIET:
            return
        if self._bars is None:
            print(text, file=sys.stderr, flush=True)
            return
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(text, total=total)

    def done(self, count: int) -> None:
        """Show that so many are done."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=count)

    def note(self, text: str) -> None:
        """A line for those who want to see everything."""
        if self._verbosity is not Verbosity.VERBOSE:
            return
        if self._bars is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def bar(verbosity: Verbosity) -> Iterator[Bar]:
    """Show progress on standard error; on a terminal nothing of it stays."""
    console = Console(stderr=True)
    if verbosity is Verbosity.QUIET or not console.is_terminal:
        yield Bar(verbosity, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield Bar(verbosity, bars)
