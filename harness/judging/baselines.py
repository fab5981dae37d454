"""Baselines: named sets of stored runs, to compare others with.

A baseline is `baselines/NAME.json` beside the store, with the names of its runs, which are never pruned.

Contains the files. What a user's words mean is in harness.comparing.selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.model import BadInput
from harness.model.suggestions import did_you_mean
from results.files import read_json, write_json


def _folder(store: Path) -> Path:
    return store.absolute().parent / "baselines"


def stored_baselines(store: Path) -> dict[str, list[str]]:
    """The runs of each baseline, by name. Raises BadInput for a damaged file."""
    return {file.stem: _runs_of(file, read_json(file)) for file in sorted(_folder(store).glob("*.json"))}


def _runs_of(file: Path, document: Any) -> list[str]:
    runs = document.get("runs") if isinstance(document, dict) else None
    if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
        raise BadInput(f"{file}: expected a baseline, with the names of its runs")
    return runs


def write_baseline(name: str, runs: Sequence[str], store: Path) -> None:
    """Store a baseline; one of this name is replaced."""
    _folder(store).mkdir(parents=True, exist_ok=True)
    write_json(_folder(store) / f"{name}.json", {"runs": list(runs), "set": datetime.now(UTC).isoformat()})


def remove_baseline(name: str, store: Path) -> None:
    """Forget a baseline; its runs stay. Raises BadInput if there is none."""
    known = stored_baselines(store)
    if name not in known:
        raise BadInput(f"{name}: expected a baseline{did_you_mean(name, known)}")
    (_folder(store) / f"{name}.json").unlink()
