"""What a run left behind, by its undo journal. Does not undo anything (heal.py)."""

from __future__ import annotations

from nemesis.journal import pending
from results.store import RunDirectory


def open_faults(run: RunDirectory) -> int | None:
    """How many undo records of the run's journal are not healed; None if the journal cannot be read."""
    try:
        return len(pending(run.journal))
    except (OSError, ValueError, KeyError, TypeError):
        return None
