"""Where compiled kernels are kept: in a folder named by the kernels' own sources.

Numba keeps what it compiled beside each source and compiles again when that file changes, but not when a function that
it took in from another file does. Kernels here call one another across files, so after an update old machine code could
go on judging. A folder for each state of the sources rules that out, and needs no right to write to the package.

    use_cache()        # before the first kernel is imported; NUMBA_CACHE_DIR, if set, wins

What may live here: that choice. What may not: kernels.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from numba import config


def use_cache() -> None:
    """Point numba to the folder for these sources."""
    if not os.environ.get("NUMBA_CACHE_DIR"):
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = caches / "splitbrain" / f"kernels-{digest(Path(__file__).parent)}"
        setattr(config, "CACHE_DIR", str(folder))  # noqa: B010 - numba's settings come into being as it is loaded


def digest(folder: Path) -> str:
    """A short name for the contents of the sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
