"""What a command prints: results on standard output, progress on standard error, one line for an error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from harness.commands.options import Format
from harness.model import Verdict
from harness.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from results.run_verdict import RunVerdict
from results.store import RunDirectory
from results.summary import summary

if TYPE_CHECKING:
    from harness.judging.imported import FileVerdict

EXIT_OF = {Verdict.VALID: EXIT_VALID, Verdict.INVALID: EXIT_INVALID, Verdict.UNKNOWN: EXIT_UNKNOWN}


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that prints what is happening now, with the time since the command began."""
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    if not console.is_terminal:
        yield lambda text: print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)
        return
    with console.status("starting") as status:

        def report(text: str) -> None:
            console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {text}", markup=True)
            status.update(text)

        yield report


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on a line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_error(message: str) -> None:
    """One line on standard error."""
    print(f"splitbrain: {message}", file=sys.stderr, flush=True)


def print_verdict(verdict: RunVerdict, directory: RunDirectory, output: Format) -> None:
    """The verdict on a run or a reproduction, and where its report is."""
    if output is Format.JSON:
        print_json(asdict(verdict) | {"verdict": verdict.verdict.value, "run": str(directory.path)})
        return
    print(summary(verdict))
    print(f"\nReport: {directory.report}")


def exit_code(verdicts: Sequence[RunVerdict | FileVerdict]) -> int:
    """Invalid if any verdict is invalid, else unknown if any is unknown, else valid."""
    found = {each.verdict for each in verdicts}
    worst = next((verdict for verdict in (Verdict.INVALID, Verdict.UNKNOWN) if verdict in found), Verdict.VALID)
    return EXIT_OF[worst]
