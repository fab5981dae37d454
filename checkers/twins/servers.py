"""Plain twin of checkers/runs/servers.py, for comparison on random observations."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import Observation

Found = tuple[str, int, int]
"""A finding's name, node and time."""


def exits(observations: Sequence[Observation]) -> list[Found]:
    """Every end that was not requested; its name says whether the server had answered since its start."""
    found: list[Found] = []
    answered: dict[int, bool] = {}
    for seen in sorted(observations, key=lambda seen: seen.time_ns):
        if seen.kind == "started":
            answered[seen.node] = False
        elif seen.kind in ("transition", "claim", "denial"):
            answered[seen.node] = True
        elif seen.kind == "exited":
            name = "server-exited" if answered.get(seen.node) else "server-cannot-start"
            found.append((name, seen.node, seen.time_ns))
    return found
