"""Changes of files that survive a crash and a power failure.

    replace_file(Path("verdict.json"), b"{}")

A reader sees the old content or the new one. While a file is written its name begins with a dot.

This module is on the level of harness.model. It knows files. It does not know what is in them.
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes | memoryview, is_synced: bool = True) -> None:
    """Replace the file, durably unless is_synced is false. Raises OSError; then the file is as before."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    if is_synced:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
