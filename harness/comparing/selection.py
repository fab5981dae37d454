"""What a user compares: nights, runs, reproductions, baselines and dates, each by name.

    latest                     the newest night; previous is the night of the same plan before it
    20261120T020000Z-chaos     a night, a run or a reproduction, or the beginning of its name
    release-4.3                a baseline, as `splitbrain baseline set` named it
    2026-11-20                 all runs of a day (UTC); 2026-11-14..2026-11-20, of several

Several with commas are one set. Contains what the names mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from harness.judging.baselines import stored_baselines, write_baseline
from harness.judging.index import RunRow, index
from harness.model import BadInput
from harness.model.suggestions import did_you_mean
from harness.nightly.directory import nights

BASELINE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,60}")
DATES: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:\.\.(\d{4}-\d{2}-\d{2}))?")
LATEST, PREVIOUS = "latest", "previous"
SELECTION_COLUMNS: Final = ("run", "kind", "part_of", "night", "created", "outcome")
"""The columns of RUNS by which runs are selected."""


def selected(words: str, rows: Sequence[RunRow], store: Path) -> list[RunRow]:
    """The runs that the words mean, also those of reproductions. Raises BadInput for a name of nothing."""
    chosen = {row.run: row for word in words.split(",") for row in _of_word(word.strip(), rows, store)}
    runs = [row for row in chosen.values() if row.kind == "run"]
    if not any(row.outcome for row in runs):
        raise BadInput(f"{words}: expected runs that have been judged, found {len(runs)} runs, none of them judged")
    return runs


def _of_word(word: str, rows: Sequence[RunRow], store: Path) -> list[RunRow]:
    if match := DATES.fullmatch(word):
        first, last = _date(match[1], word), _date(match[2] or match[1], word)
        return [row for row in rows if row.created and first <= _created(row) <= last]
    baselines = stored_baselines(store)
    if word in baselines:
        return _with_parts(set(baselines[word]), rows)
    names = [night.name for night in nights(store)]
    if word in (LATEST, PREVIOUS):
        night = _night(word, names, store)
        return [row for row in rows if row.night == night]
    found = [name for name in names if name == word] or [name for name in names if word and name.startswith(word)]
    if len(found) == 1:
        return [row for row in rows if row.night == found[0]]
    tops = [row.run for row in rows]
    runs = [run for run in tops if run == word] or [
        run for run in tops if word and run.startswith(word) and "/" not in run
    ]
    if len(runs) == 1:
        return _with_parts({runs[0]}, rows)
    if found or runs:
        several = (found or runs)[:3]
        raise BadInput(f"{word}: expected one name, found {len(found or runs)}: {', '.join(several)}, …")
    hint = did_you_mean(word, [*baselines, *names, LATEST, PREVIOUS])
    expected = "a night, a run, a baseline, a date, latest or previous"
    raise BadInput(f"{word or 'nothing'}: expected {expected}{hint}")


def _night(word: str, names: Sequence[str], store: Path) -> str:
    """The newest night, or the one before it of the same plan."""
    if not names:
        raise BadInput(f"{word}: expected a night, found none beside {store}")
    of_plan = [name for name in names if _plan_name(name) == _plan_name(names[-1])]
    if word == LATEST:
        return names[-1]
    if len(of_plan) < 2:
        raise BadInput(f"{word}: expected an earlier night of {_plan_name(names[-1])}, found none")
    return of_plan[-2]


def _plan_name(night: str) -> str:
    """The name of a night's plan: without its time, and without the number of a second night in the same second."""
    return re.sub(r"-\d{1,3}$", "", night.partition("-")[2])


def _with_parts(names: set[str], rows: Sequence[RunRow]) -> list[RunRow]:
    return [row for row in rows if row.run in names or row.part_of in names]


def _date(text: str, word: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"{word}: expected dates such as 2026-11-20, found {text}") from error


def _created(row: RunRow) -> date:
    return datetime.fromisoformat(row.created).astimezone(UTC).date()


def set_baseline(name: str, words: Sequence[str], store: Path) -> list[str]:
    """Name the runs that the words mean; returns their names. A baseline of this name is replaced.

    Raises BadInput for a name that means something else, and for words that mean nothing.
    """
    if not BASELINE_NAME.fullmatch(name) or name in (LATEST, PREVIOUS):
        expected = "a name of letters, digits, dots, dashes and underscores that begins with a letter"
        raise BadInput(f"{name}: expected {expected}, other than {LATEST} and {PREVIOUS}")
    rows = selected(",".join(words), index(store, with_pruned=True, columns=SELECTION_COLUMNS), store)
    names = [row.run for row in rows]
    write_baseline(name, names, store)
    return names
