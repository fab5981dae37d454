"""The undo journal: how to undo each fault, on disk before the fault is injected.

Each entry is one JSON line and is synced before record() returns: `{"id": 1, "fault": …, "kind": …, "details": …}`
before a fault is injected, `{"id": 1, "healed": true}` after it is undone. Only the last line can be torn by a crash;
its fault was never injected, so readers ignore it, and the next writer removes it. Any other line that cannot be read
is damage: the lines around it still count, and unreadable_line names it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from harness.model.hosts import UndoRecord

Entry = tuple[int, UndoRecord | None]


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

    def all_healed(self, but: Collection[UndoRecord] = ()) -> None:
        """Record that every fault is undone, except these."""
        for identifier, record in _open(self._path).items():
            if record not in but:
                self.healed(identifier)

    def _append(self, entry: dict[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def pending(path: Path) -> list[UndoRecord]:
    """The faults that are not undone, latest first: the order in which to undo them."""
    return list(reversed(_open(path).values()))


def unreadable_line(path: Path) -> str | None:
    """The first line that is no entry, and what was expected there; None if every line is one."""
    for number, line in enumerate(_lines(path), start=1):
        if _entry(line) is None:
            return f"{path}: line {number}: expected an undo record or the id of one that is healed"
    return None


def _open(path: Path) -> dict[int, UndoRecord]:
    faults: dict[int, UndoRecord] = {}
    for identifier, record in _entries(path):
        if record is None:
            faults.pop(identifier, None)
        else:
            faults[identifier] = record
    return faults


def _remove_torn_line(path: Path) -> None:
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def _entries(path: Path) -> list[Entry]:
    return [entry for entry in map(_entry, _lines(path)) if entry is not None]


def _lines(path: Path) -> list[bytes]:
    """The lines that are whole."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _entry(line: bytes) -> Entry | None:
    """An id and the record under it, or None for one that is healed; None for a line that is no entry."""
    try:
        value = json.loads(line)
        if value.get("healed"):
            return int(value["id"]), None
        details = value["details"]
        known = isinstance(value["fault"], str) and isinstance(value["kind"], str) and isinstance(details, dict)
        return (int(value["id"]), UndoRecord(value["fault"], value["kind"], details)) if known else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
