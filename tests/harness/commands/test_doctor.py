"""`doctor` says whether users other than the owner of the environment can run it, and what keeps them out."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from harness.commands.doctor import closed_to_others, compiler, javac


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o754], ids=oct)
def test_folder_that_others_cannot_enter_is_named(mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "venv").mkdir()
        home.chmod(mode)
        assert closed_to_others(home / "venv") == home
        home.chmod(0o755)
        assert closed_to_others(home / "venv") is None


def test_file_that_others_cannot_read_is_named() -> None:
    assert closed_to_others(Path("/proc/self/environ")) == Path("/proc/self/environ")
    assert closed_to_others(Path("/etc/passwd")) is None


def test_missing_compilers_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert javac().works
    assert compiler().works
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not javac().works
    assert "openjdk-17-jdk-headless" in javac().fix
    assert not compiler().works
    assert compiler().found == "no gcc on the path, mypy"
    assert "gcc" in compiler().fix
