"""Compiled kernels are never older than any kernel's source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.kernels import cache, search

SOURCES = Path(cache.__file__).parent


def test_kernels_are_cached_by_the_contents_of_all_their_sources(tmp_path: Path) -> None:
    copy = tmp_path / "kernels"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert cache.digest(copy) == cache.digest(SOURCES)
    (copy / "windows.py").write_text((copy / "windows.py").read_text() + "\n")
    assert cache.digest(copy) != cache.digest(SOURCES)


def test_numba_uses_that_cache() -> None:
    chosen = os.environ.get("NUMBA_CACHE_DIR", f"kernels-{cache.digest(SOURCES)}")
    assert chosen in search.search.stats.cache_path


@pytest.mark.slow
def test_a_copy_of_the_sources_uses_the_same_cache(tmp_path: Path) -> None:
    kernels = tmp_path / "there" / "checkers" / "kernels"
    shutil.copytree(SOURCES, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (kernels.parent / "__init__.py").touch()
    script = """
import numpy as np
from checkers.kernels import rows
rows.grouped(np.zeros(3, np.int32), 1)
print(rows.__file__, sum(rows.grouped.stats.cache_hits.values()), sum(rows.grouped.stats.cache_misses.values()))
"""
    outputs = []
    for sources in (SOURCES.parent.parent, tmp_path / "there"):
        environment = {**os.environ, "PYTHONPATH": str(sources), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout.split())
    assert outputs == [[str(SOURCES / "rows.py"), "0", "1"], [str(kernels / "rows.py"), "1", "0"]]
