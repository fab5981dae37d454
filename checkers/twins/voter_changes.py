"""Plain twin of checkers/quorum/voter_changes.py: which reports of the voters no possible change explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.model import Op

Name = Literal["lost-change", "refused-change"]
CHANGES = ("reassign", "add_voter", "remove_voter", "move")
OF_VOTERS, OF_PARTITIONS = ("voters", "settle"), ("partition", "moved")


@dataclass(frozen=True)
class Pair:
    """An operation: its invocation and its completion, None without one."""

    begin: Op
    end: Op | None

    @property
    def type(self) -> str:
        """How it ended."""
        return "info" if self.end is None else self.end.type


def unexplained(history: Sequence[Op]) -> set[tuple[Name, int, str]]:
    """Each such report: the finding's name, the index of the report's completion, and the key."""
    pairs = list(pairs_of(history))
    changes = [pair for pair in pairs if pair.begin.f in CHANGES]
    every = [pair for pair in pairs if pair.begin.f in (*OF_VOTERS, *OF_PARTITIONS) and pair.type == "ok"]
    found: set[tuple[Name, int, str]] = set()
    for key in {str(change.begin.key) for change in changes}:
        own = [change for change in changes if change.begin.key == key]
        reads = [read for read in every if is_about(read, key)]
        initial = initial_of(key, reads, changes)
        for read in reads:
            name = judged(read, key, own, initial)
            if name is not None and read.end is not None:
                found.add((name, read.end.index, key))
    return found


def is_about(read: Pair, key: str) -> bool:
    """Whether a report shows anything of a key."""
    if "-" not in key:
        return read.begin.f in OF_VOTERS
    assert read.end is not None
    return read.begin.key == key and (read.end.value["target"] or read.end.value["replicas"]) is not None


def judged(read: Pair, key: str, changes: Sequence[Pair], initial: list[Any]) -> Name | None:
    """The finding about what a report shows of a key; None if it is right."""
    assert read.end is not None
    shown = shown_of(key, read.end.value)
    must_show = [
        change
        for change in changes
        if change.type == "ok"
        and change.end is not None
        and change.end.index < read.begin.index
        and change.end.value["epoch"] is not None
        and change.end.value["epoch"] <= read.end.value["epoch"]
    ]
    possible = [
        change
        for change in changes
        if change.type != "fail" and wanted_of(change) == shown and change.begin.index < read.end.index
    ]
    if shown in initial and not must_show:
        return None
    for change in possible:
        is_over = change.type == "ok" and any(
            change.end is not None and change.end.index < later.begin.index for later in must_show
        )
        if not is_over:
            return None
    return "lost-change" if possible or shown in initial else "refused-change"


def initial_of(key: str, reads: Sequence[Pair], changes: Sequence[Pair]) -> list[Any]:
    """What the first report shows, if it ended before all changes began; else nothing."""
    first_change = min(change.begin.index for change in changes)
    early = [read.end for read in reads if read.end is not None and read.end.index < first_change]
    return [shown_of(key, min(early, key=lambda end: end.index).value)] if early else []


def wanted_of(change: Pair) -> Any:
    """What a change asks for."""
    is_whole = change.begin.f in ("reassign", "move")
    return sorted(change.begin.value) if is_whole else change.begin.f == "add_voter"


def shown_of(key: str, report: dict[str, Any]) -> Any:
    """What a report shows of a key."""
    if key == "voters":
        return sorted(report["target"] or report["voters"])
    if "-" in key:
        return sorted(report["target"] or report["replicas"])
    return int(key[1:]) in report["voters"]


def pairs_of(history: Sequence[Op]) -> Iterator[Pair]:
    """The clients' operations."""
    running: dict[int, Op] = {}
    for op in history:
        if op.process < 0:
            continue
        if op.type == "invoke":
            running[op.process] = op
        else:
            yield Pair(running.pop(op.process), op)
    yield from (Pair(op, None) for op in running.values())
