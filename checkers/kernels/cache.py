"""Where compiled kernels are kept: in a folder named by the kernels' own sources, wherever these lie.

Numba keeps what it compiled beside each source and compiles again when that file changes, but not when a function that
it took in from another file does. Kernels here call one another across files, so after an update old machine code could
go on judging. A folder for each state of the sources rules that out, and needs no right to write to the package. Nor
does it matter there which copy of the sources was compiled: a cluster's workers unpack theirs to a new place each time.

    use_cache()        # before the first kernel is imported; NUMBA_CACHE_DIR, if set, wins

What may live here: that choice. What may not: kernels.
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


class BySources(UserWideCacheLocator):
    """Numba's word for who says where a function's code is kept: for kernels, their folder, and none for others."""

    def __init__(self, function: Callable, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(folder())

    def get_source_stamp(self) -> str:
        """The folder's name says it all."""
        return ""

    @classmethod
    def from_function(cls, function: Callable, file: str) -> UserWideCacheLocator | None:
        """None for what is no kernel."""
        return super().from_function(function, file) if Path(file).parent == SOURCES else None


def use_cache() -> None:
    """Point numba to the folder for these sources; other packages' functions stay where numba keeps them."""
    if not os.environ.get("NUMBA_CACHE_DIR"):
        others = "InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
        # Numba's settings come into being as it is loaded.
        setattr(config, "CACHE_LOCATOR_CLASSES", f"{__name__}.{BySources.__name__},{others}")  # noqa: B010


@cache
def folder() -> Path:
    """$XDG_CACHE_HOME/splitbrain/kernels-…, by default below ~/.cache."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "splitbrain" / f"kernels-{digest(SOURCES)}"


def digest(folder: Path) -> str:
    """A short name for the contents of the sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
