"""Creates the file with the designated leaders: new, and complete or not there at all.

A temporary file in the same folder is written, synced and linked to its name. A link, unlike a rename, never replaces a
file that has appeared meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.model import BadInput
from harness.model.errors import reason_of


def refuse_existing(path: Path) -> None:
    """Raise BadInput, before anything else is done, if the file cannot be created."""
    if os.path.lexists(path):
        raise _exists(path)
    if not path.parent.is_dir():
        raise BadInput(f"{path}: expected a new file in an existing folder, found no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadInput(f"{path}: expected a new file in a folder that can be written to: permission denied")


def create(path: Path, text: str) -> None:
    """Create the file. Raises BadInput if there is one of that name, or if it cannot be created."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
        _sync_folder(path.parent)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise BadInput(f"{path}: expected a file that can be created: {reason_of(error)}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _exists(path: Path) -> BadInput:
    return BadInput(f"{path}: expected a new file, found an existing one, which is never replaced")


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
