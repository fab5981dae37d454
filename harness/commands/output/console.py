"""What a command prints: results on standard output, one line for an error on standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.commands.output.progress import Verbosity
from harness.model import Verdict
from harness.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.recovery.remains import open_faults
from results.run_verdict import RunVerdict
from results.store import RunDirectory
from results.summary import summary

if TYPE_CHECKING:
    from harness.judging.imported import FileVerdict
    from results.comparison_table import ComparedRun


@dataclass(frozen=True, slots=True)
class Output:
    """What a command prints: its results as text or JSON, and what it shows while it works."""

    is_json: bool
    verbosity: Verbosity


EXIT_OF = {Verdict.VALID: EXIT_VALID, Verdict.INVALID: EXIT_INVALID, Verdict.UNKNOWN: EXIT_UNKNOWN}


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on a line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_error(message: str) -> None:
    """One line on standard error."""
    print(f"splitbrain: {message}", file=sys.stderr, flush=True)


def print_verdict(verdict: RunVerdict, directory: RunDirectory, output: Output) -> None:
    """The verdict on a run or a reproduction, where its evidence is, and how to clean up if anything is left."""
    if output.is_json:
        print_json(verdict.to_json() | {"run": str(directory.path)})
        return
    print(summary(verdict))
    is_left = any(open_faults(run) != 0 for run in (directory, *directory.sides()))
    heal = f"splitbrain heal --store {shlex.quote(str(directory.path.parent))}"
    print(f"\nEvidence: {directory.path}\nReport:   {directory.report}")
    print("Clean up:", heal if is_left else "nothing is left of this run's faults")


def print_comparison(rows: Sequence[ComparedRun], output: Output) -> None:
    """The table of compared runs, if there are any; as JSON, one object with all of them."""
    if rows and output.is_json:
        print_json({"compared": [each.to_json() for each in rows]})
    elif rows:
        from results.comparison_table import comparison_table

        print(f"\n{comparison_table(rows)}")


def exit_code_of_comparison(verdicts: Sequence[RunVerdict]) -> int:
    """Unknown if any run is; a broken guarantee is what a comparison shows, and no failure."""
    return EXIT_UNKNOWN if any(each.verdict is Verdict.UNKNOWN for each in verdicts) else EXIT_VALID


def exit_code(verdicts: Sequence[RunVerdict | FileVerdict]) -> int:
    """Invalid if any verdict is invalid, else unknown if any is unknown, else valid."""
    found = {each.verdict for each in verdicts}
    worst = next((verdict for verdict in (Verdict.INVALID, Verdict.UNKNOWN) if verdict in found), Verdict.VALID)
    return EXIT_OF[worst]
