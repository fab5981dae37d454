"""Plain twin of checkers/runs/responses.py, for comparison on random histories."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import NEMESIS, Op

Found = tuple[str, int, str]
"""A finding's name, the index of the action's completion, and the field."""


def differing(history: Sequence[Op]) -> list[Found]:
    """Every comparison of an action that does not hold."""
    found: list[Found] = []
    for op in history:
        # The nemesis's invocations are `info` too; they have no comparisons.
        if op.process != NEMESIS or op.type != "info" or op.error is not None:
            continue
        if op.f not in ("ask", "run_tool", "add_voter", "remove_voter"):
            continue
        name = "unexpected-output" if op.f == "run_tool" else "unexpected-response"
        compared = op.value.get("compared", [])
        found += [(name, op.index, each["field"]) for each in compared if each["holds"] is False]
    return found
