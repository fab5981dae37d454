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
from collections.abc import Callable
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
    """$XDG_CACHE_HOME/splitbrain/kernels-…, by default below ~/.cache."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "splitbrain" / f"kernels-{digest(SOURCES)}"


def digest(folder: Path) -> str:
    """A short name for the contents of the sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
