"""Compiled kernels are never older than any kernel's source."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from checkers.kernels import cache, search

SOURCES = Path(cache.__file__).parent


def test_kernels_are_cached_by_the_contents_of_all_their_sources(tmp_path: Path) -> None:
    copy = tmp_path / "kernels"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert cache.digest(copy) == cache.digest(SOURCES)
    (copy / "openings.py").write_text((copy / "openings.py").read_text() + "\n")
    assert cache.digest(copy) != cache.digest(SOURCES)


def test_numba_uses_that_cache() -> None:
    chosen = os.environ.get("NUMBA_CACHE_DIR", f"kernels-{cache.digest(SOURCES)}")
    assert chosen in search.search.stats.cache_path
