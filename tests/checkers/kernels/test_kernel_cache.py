"""Compiled kernels are never older than any kernel's source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
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


@pytest.fixture
def folder_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """The folder for a user with this home."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def find(home: str) -> Path:
        monkeypatch.setenv("HOME", home)
        cache.folder.cache_clear()
        return cache.folder()

    yield find
    cache.folder.cache_clear()


def test_user_whose_home_cannot_be_written_has_a_cache_of_their_own(
    tmp_path: Path, folder_of: Callable[[str], Path]
) -> None:
    assert folder_of("/proc/nobody").parent == tmp_path / f"splitbrain-{os.getuid()}"
    assert folder_of(str(tmp_path / "home")).parent == tmp_path / "home" / ".cache" / "splitbrain"


@pytest.mark.parametrize("others", ["a folder that others write", "a link"])
def test_cache_in_the_temporary_folder_is_not_shared_with_other_users(
    tmp_path: Path, folder_of: Callable[[str], Path], others: str
) -> None:
    planted = tmp_path / f"splitbrain-{os.getuid()}"
    if others == "a link":
        (tmp_path / "another").mkdir()
        planted.symlink_to(tmp_path / "another")
    else:
        planted.mkdir()
        planted.chmod(0o777)
    chosen = folder_of("/proc/nobody").parent
    assert chosen.parent == tmp_path
    assert chosen != planted
    assert chosen.stat().st_mode & 0o077 == 0


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
