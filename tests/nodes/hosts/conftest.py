"""Plays scenes in sandboxes of their own, by either right to make one: as root, and as a user without any right.

Where the tests run as root, the other right is tried as an unprivileged user if some Python 3.11 can be reached by it,
else by making a user namespace as root, which takes the same path through the kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.recovery.liveness import started_ticks
from nodes.hosts.sandbox import Privilege, enclose
from tests.support import SUPPORT

ROOT = SUPPORT.parents[1]
SCENES = SUPPORT / "nodes" / "host_scenes.py"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
SCENE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Stage:
    """Where scenes are played: by which right, with which Python, as which user, in which directory."""

    privilege: Privilege
    python: str
    as_user: tuple[str, ...]
    directory: Path

    def command(self, scene: str, name: str = "hosts") -> list[str]:
        """The command that plays a scene in a sandbox of its own."""
        inside = [self.python, str(SCENES), scene, str(self.directory / name)]
        return [*self.as_user, *enclose(inside, self.privilege)]

    def play(self, scene: str) -> Any:
        """Play a scene to its end; what it told."""
        result = subprocess.run(
            self.command(scene), capture_output=True, text=True, timeout=SCENE_SECONDS, **self.options
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    @contextmanager
    def begin(self, scene: str, name: str = "hosts") -> Iterator[tuple[subprocess.Popen[str], Any]]:
        """Play a scene until it has told its first line; it is killed at the end of the block if it still runs."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(self.command(scene, name), text=True, **pipes, **self.options) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                yield process, json.loads(line)
            finally:
                process.kill()

    @property
    def options(self) -> dict[str, Any]:
        return {"cwd": self.directory, "env": {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}}


def _python_for_anyone() -> str | None:
    """A Python 3.11 that an unprivileged user can run, with the scenes within its reach."""
    candidates = [sys.executable, shutil.which("python3.11", path="/usr/bin:/usr/local/bin")]
    return next((python for python in candidates if python and _nobody_reaches(python)), None)


def _nobody_reaches(python: str) -> bool:
    trial = subprocess.run(
        [*NOBODY, "env", python, "-c", f"open({str(SCENES)!r})"], capture_output=True, check=False, cwd="/"
    )
    return trial.returncode == 0


@pytest.fixture(params=list(Privilege), ids=lambda privilege: privilege.name.lower())
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    privilege: Privilege = request.param
    if privilege is Privilege.ROOT and os.geteuid() != 0:
        pytest.skip("needs root; the same scenes are played in user namespaces")
    python = _python_for_anyone() if os.geteuid() == 0 and privilege is Privilege.USER_NAMESPACE else None
    with tempfile.TemporaryDirectory(prefix="splitbrain-scenes-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o777)
        yield Stage(privilege, python or sys.executable, tuple(NOBODY) if python else (), Path(directory))


@pytest.fixture
def alive_in() -> Callable[[list[str]], list[int]]:
    """Which of the processes that were in these namespaces at the first call are alive.

    The kernel gives a freed namespace's number to the next one, so that a later process in it may be somebody else's.
    """
    first_seen: dict[tuple[str, ...], set[tuple[int, int | None]]] = {}

    def alive(namespaces: list[str]) -> list[int]:
        known = first_seen.setdefault(tuple(namespaces), set(_members(namespaces)))
        return sorted(pid for pid, ticks in known if started_ticks(pid) == ticks)

    return alive


def _members(namespaces: list[str]) -> Iterator[tuple[int, int | None]]:
    for pid in _pids():
        if any(_namespace(pid, kind) in namespaces for kind in ("net", "pid")):
            yield pid, started_ticks(pid)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _namespace(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:  # it has ended since, or belongs to someone else
        return ""
