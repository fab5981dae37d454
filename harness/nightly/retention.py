"""Which stored runs are kept: the newest, by age, number and size; and every failed run that nobody has reviewed.

    removed = keep_store(store, Keep(days=60), datetime.now(UTC))

A removed run's row stays in pruned.parquet, so that comparisons and trends over months still have it.

Contains the choice and the removal. Does not contain rows (harness.judging.index) or baselines.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from harness.judging.baselines import stored_baselines
from harness.judging.index import RunRow, index, keep_pruned
from harness.nightly.plan import Keep
from harness.nightly.work import size_bytes
from results.files import write_json
from results.store import RunDirectory

REVIEWED_FILE: Final = "reviewed.json"
ENDED: Final = frozenset({"recorded", "judged", "interrupted"})
REMOVED: Final = ".removed-"
"""What the name of a run begins with while it is removed; no command lists such a run."""


def keep_store(store: Path, keep: Keep, now: datetime) -> list[RunRow]:
    """Remove what keep does not keep, and return it, oldest first.

    Raises BadInput for a damaged baseline, whose runs are not known, or a damaged table of removed runs, and OSError if
    the disk refuses.
    """
    for left in store.glob(f"{REMOVED}*"):  # by a command that was killed
        shutil.rmtree(left)
    removed = _beyond(store, keep, now)
    if removed:
        keep_pruned(store, {row.run for row in removed})
    for row in removed:
        left = (store / row.run).rename(store / f"{REMOVED}{row.run}")
        shutil.rmtree(left)
    return removed


def _beyond(store: Path, keep: Keep, now: datetime) -> list[RunRow]:
    """The runs that keep does not keep, oldest first; none without a limit."""
    if keep == Keep():
        return []
    rows = [row for row in index(store) if row.part_of is None]
    sizes = {row.run: size_bytes(store / row.run) for row in rows} if keep.gib is not None else {}
    reviewed = {row.run for row in rows if is_reviewed(RunDirectory(store / row.run))}
    of_baselines = {name.partition("/")[0] for names in stored_baselines(store).values() for name in names}
    return prunable(rows, keep, now, sizes, reviewed, of_baselines)


def is_reviewed(run: RunDirectory) -> bool:
    """Whether somebody has looked at the run, and it may be removed although it failed."""
    return (run.path / REVIEWED_FILE).exists()


def review(run: RunDirectory, now: datetime) -> None:
    """Record that somebody has looked at the run."""
    write_json(run.path / REVIEWED_FILE, {"time": now.isoformat()})


def prunable(
    rows: Sequence[RunRow],
    keep: Keep,
    now: datetime,
    sizes: Mapping[str, int],
    reviewed: Collection[str],
    protected: Collection[str] = (),
) -> list[RunRow]:
    """The runs to remove, oldest first: those beyond any of the limits of keep that may be removed.

    rows are the runs and reproductions of a store, oldest first, without their parts. sizes are in bytes, by run.
    Never removed: runs that take place, damaged runs, protected ones, and runs that did not pass, unless they are among
    the reviewed.
    """
    result = []
    kept_bytes = 0
    for age, row in enumerate(reversed(rows)):
        kept_bytes += sizes.get(row.run, 0)
        is_beyond = (
            (keep.runs is not None and age >= keep.runs)
            or (keep.days is not None and _is_older(row, now - timedelta(days=keep.days)))
            or (keep.gib is not None and kept_bytes > keep.gib * 2**30)
        )
        if is_beyond and _may_be_removed(row, reviewed, protected):
            result.append(row)
            kept_bytes -= sizes.get(row.run, 0)
    return result[::-1]


def _is_older(row: RunRow, limit: datetime) -> bool:
    return bool(row.created) and datetime.fromisoformat(row.created) < limit


def _may_be_removed(row: RunRow, reviewed: Collection[str], protected: Collection[str]) -> bool:
    if row.run in protected or row.status not in ENDED:
        return False
    return row.outcome == "passed" or row.run in reviewed
