"""Where the reports of `splitbrain check --model` go.

Contains the choice of a folder. Imports nothing that takes long: the choice comes before the histories are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from harness.histories.sources import STANDARD_INPUT
from harness.model import BadInput
from harness.model.errors import reason_of


def new_folder(store: Path, paths: Sequence[Path], now: datetime) -> Path:
    """The path of a folder that does not exist: in `checks` beside the stored runs, named by the time and the file."""
    name = (paths[0].resolve().name or "root") if len(paths) == 1 else f"{len(paths)}-histories"
    name = "standard-input" if paths[0] == STANDARD_INPUT and len(paths) == 1 else name
    stem = store.absolute().parent / "checks" / f"{now:%Y%m%dT%H%M%SZ}-{name}"
    candidates = (stem if number == 1 else stem.with_name(f"{stem.name}-{number}") for number in range(1, 1000))
    return next(folder for folder in candidates if not folder.exists())


def refuse_folder(folder: Path) -> None:
    """Raise BadInput unless reports can be written to this folder, which is created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except (FileExistsError, NotADirectoryError) as error:
        raise BadInput(f"--report {folder}: expected a folder, found a file") from error
    except OSError as error:
        raise BadInput(f"--report {folder}: expected a folder to write to: {reason_of(error)}") from error
