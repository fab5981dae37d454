"""What a run left behind, by its undo journal. Does not undo anything (heal.py)."""

from __future__ import annotations

from nemesis.journal import pending, unreadable_line
from results.store import RunDirectory


def open_faults(run: RunDirectory) -> int | None:
    """How many undo records of the run's journal are not healed; None if the journal cannot be read in full."""
    try:
        return None if unreadable_line(run.journal) else len(pending(run.journal))
    except OSError:
        return None
