"""Durable changes of files: a file's whole content, and the names in a directory. Raises OSError."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes, is_synced: bool = True) -> None:
    """Replace a file atomically, and durably if it is synced."""
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)
    if is_synced:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
