"""Plain twin of checkers/runs/responses.py, for comparison on random histories."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import NEMESIS, Op

Found = tuple[str, int, str]
"""A finding's name, the index of the probe's completion, and the field."""


def differing(history: Sequence[Op]) -> list[Found]:
    """Every comparison of a probe that does not hold."""
    found: list[Found] = []
    for op in history:
        # The nemesis's invocations are `info` too; they have no comparisons.
        if op.process != NEMESIS or op.type != "info" or op.error is not None:
            continue
        if op.f not in ("ask", "run_tool"):
            continue
        name = "unexpected-response" if op.f == "ask" else "unexpected-output"
        found += [(name, op.index, each["field"]) for each in op.value.get("compared", []) if each["holds"] is False]
    return found
