"""The undo journal: what it takes to undo each fault, on disk before the fault is in place.

One JSON line an entry, on the disk before record() returns: `{"id": 1, "fault": …, "kind": …, "details": …}` when a
fault is about to be injected, `{"id": 1, "healed": true}` when it is undone. A line that a crash cut short is the last
one and belongs to a fault that was never injected, so it counts for nothing; whoever writes next removes it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from harness.model.hosts import UndoRecord


class UndoJournal:
    """An append-only file of faults and their undoing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _remove_torn_line(path)
        self._last = max((identifier for identifier, _ in _entries(path)), default=0)

    def record(self, undo: UndoRecord) -> int:
        """Write down how to undo a fault; returns the entry's id once it is on disk."""
        self._last += 1
        self._append({"id": self._last, "fault": undo.fault, "kind": undo.kind, "details": dict(undo.details)})
        return self._last

    def healed(self, identifier: int) -> None:
        """Write down that a fault is undone."""
        self._append({"id": identifier, "healed": True})

    def all_healed(self) -> None:
        """Write down that every fault is undone, by whatever means."""
        for identifier in _open(self._path):
            self.healed(identifier)

    def _append(self, entry: dict[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def pending(path: Path) -> list[UndoRecord]:
    """The faults of a journal that nobody has undone, latest first: the order in which to undo them."""
    return list(reversed(_open(path).values()))


def _open(path: Path) -> dict[int, UndoRecord]:
    faults: dict[int, UndoRecord] = {}
    for identifier, entry in _entries(path):
        if entry.get("healed"):
            faults.pop(identifier, None)
        else:
            faults[identifier] = UndoRecord(entry["fault"], entry["kind"], entry["details"])
    return faults


def _remove_torn_line(path: Path) -> None:
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def _entries(path: Path) -> list[tuple[int, dict[str, Any]]]:
    if not path.exists():
        return []
    *lines, _torn = path.read_bytes().split(b"\n")
    entries = [json.loads(line) for line in lines]
    return [(entry["id"], entry) for entry in entries]
