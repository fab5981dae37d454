"""Sets where numba keeps compiled kernels: in a folder named by a digest of the kernels' sources.

Numba keeps compiled code beside each source and recompiles when that file changes, but not when a function inlined from
another file changes. Kernels call one another across files, so stale machine code could survive an update. A folder for
each state of the sources rules that out and needs no write access to the package. It also serves every copy of the same
sources: a cluster's workers unpack theirs to a new path each time.

    use_cache()        # before the first kernel is imported; NUMBA_CACHE_DIR, if set, takes precedence
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from numba import config
from numba.core.caching import UserWideCacheLocator

SOURCES = Path(__file__).parent


class SourceDigestLocator(UserWideCacheLocator):
    """A numba cache locator: places kernels in their folder, and declines other functions."""

    def __init__(self, function: Callable, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(folder())

    def get_source_stamp(self) -> str:
        """Empty, since the folder's name already identifies the sources."""
        return ""

    @classmethod
    def from_function(cls, function: Callable, file: str) -> UserWideCacheLocator | None:
        """The locator of a kernel; None for other functions."""
        return super().from_function(function, file) if Path(file).parent == SOURCES else None


def use_cache() -> None:
    """Make numba keep kernels in the folder for these sources; other packages' functions are not affected."""
    if not os.environ.get("NUMBA_CACHE_DIR"):
        others = "InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
        # Numba creates its settings at import, so mypy does not know them.
        setattr(config, "CACHE_LOCATOR_CLASSES", f"{__name__}.{SourceDigestLocator.__name__},{others}")  # noqa: B010


@cache
def folder() -> Path:
    """$XDG_CACHE_HOME/splitbrain/kernels-…, by default below ~/.cache.

    A user without a home that can be written has a folder in the temporary directory instead.
    """
    name = f"kernels-{digest(SOURCES)}"
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        (caches / "splitbrain" / name).mkdir(parents=True, exist_ok=True)
        if os.access(caches / "splitbrain" / name, os.W_OK):
            return caches / "splitbrain" / name
    except (OSError, RuntimeError):  # RuntimeError: the user has no home at all
        pass
    return _own_folder(Path(tempfile.gettempdir()) / f"splitbrain-{os.getuid()}") / name


def _own_folder(path: Path) -> Path:
    """The folder, or a new one if another user can write to it: numba executes what it finds there."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return path if is_own else Path(tempfile.mkdtemp(prefix="splitbrain-"))


def digest(folder: Path) -> str:
    """A short name for the contents of the sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
