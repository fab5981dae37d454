"""The undo journal: how to undo each fault, on disk before the fault is injected.

Each entry is one JSON line and is synced before record() returns: `{"id": 1, "fault": …, "kind": …, "details": …}`
before a fault is injected, `{"id": 1, "healed": true}` after it is undone. Only the last line can be torn by a crash;
its fault was never injected, so readers ignore it, and the next writer removes it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from harness.model.hosts import UndoRecord


class UndoJournal:
    """An append-only file of faults and how to undo them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _remove_torn_line(path)
        self._last = max((identifier for identifier, _ in _entries(path)), default=0)

    def record(self, undo: UndoRecord) -> int:
        """Record how to undo a fault; returns the entry's id once it is synced."""
        self._last += 1
        self._append({"id": self._last, "fault": undo.fault, "kind": undo.kind, "details": dict(undo.details)})
        return self._last

    def healed(self, identifier: int) -> None:
        """Record that a fault is undone."""
        self._append({"id": identifier, "healed": True})

    def all_healed(self) -> None:
        """Record that every fault is undone."""
        for identifier in _open(self._path):
            self.healed(identifier)

    def _append(self, entry: dict[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def pending(path: Path) -> list[UndoRecord]:
    """The faults that are not undone, latest first: the order in which to undo them."""
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
