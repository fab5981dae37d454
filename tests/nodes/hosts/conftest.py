"""Runs test cases in sandboxes, made with each privilege: as root, and as an ordinary user.

When the tests run as root, the user-namespace variant runs as `nobody` if that user can execute some Python 3.11.
Otherwise root creates the user namespace itself, which takes the same path through the kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.recovery.liveness import started_ticks
from nodes.hosts.sandbox import Privilege, enclose
from tests.support import SUPPORT

ROOT = SUPPORT.parents[1]
CASES = SUPPORT / "nodes" / "host_cases.py"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
CASE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How test cases run in a sandbox: with which privilege and Python, as which user, in which directory."""

    privilege: Privilege
    python: str
    as_user: tuple[str, ...]
    directory: Path

    def command(self, *arguments: object, script: Path = CASES) -> list[str]:
        """The command that runs a script of test cases in a sandbox of its own."""
        return [*self.as_user, *enclose([self.python, str(script), *map(str, arguments)], self.privilege)]

    def case(self, case: str, name: str = "hosts") -> list[str]:
        """The command that runs a case of host_cases.py."""
        return self.command(case, self.directory / name)

    def run(self, case: str, script: Path = CASES) -> Any:
        """Run a case to its end; its result."""
        argv = self.command(case, self.directory / "hosts", script=script)
        result = subprocess.run(argv, capture_output=True, text=True, timeout=CASE_SECONDS, **self.options)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    @contextmanager
    def start(self, case: str, name: str = "hosts") -> Iterator[tuple[subprocess.Popen[str], Any]]:
        """Start a case; yields it with its first result and kills it at the end of the block."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(self.case(case, name), text=True, **pipes, **self.options) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                yield process, json.loads(line)
            finally:
                process.kill()

    def may_open(self, device: str) -> bool:
        """Whether the sandbox's user may read and write a device; True if the device does not exist."""
        permitted: Sequence[str] = [*self.as_user, "test", "-r", device, "-a", "-w", device]
        return not Path(device).exists() or subprocess.run(permitted, check=False).returncode == 0

    @property
    def options(self) -> dict[str, Any]:
        return {"cwd": self.directory, "env": {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}}


def _python_for_nobody() -> str | None:
    """A Python 3.11 that `nobody` can execute and that can read the test cases."""
    candidates = [sys.executable, shutil.which("python3.11", path="/usr/bin:/usr/local/bin")]
    return next((python for python in candidates if python and _nobody_can_run(python)), None)


def _nobody_can_run(python: str) -> bool:
    trial = subprocess.run(
        [*NOBODY, "env", python, "-c", f"open({str(CASES)!r})"], capture_output=True, check=False, cwd="/"
    )
    return trial.returncode == 0


@pytest.fixture(params=list(Privilege), ids=lambda privilege: privilege.name.lower())
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    privilege: Privilege = request.param
    if privilege is Privilege.ROOT and os.geteuid() != 0:
        pytest.skip("needs root; the same cases run in user namespaces")
    python = _python_for_nobody() if os.geteuid() == 0 and privilege is Privilege.USER_NAMESPACE else None
    with tempfile.TemporaryDirectory(prefix="splitbrain-sandbox-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o777)
        yield Sandbox(privilege, python or sys.executable, tuple(NOBODY) if python else (), Path(directory))


@pytest.fixture
def alive_in() -> Callable[[list[str]], list[int]]:
    """Which of the processes that were in these namespaces at the first call are alive.

    The kernel reuses the number of a freed namespace, so a later process in it may be unrelated.
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
    except OSError:  # it has ended, or it belongs to another user
        return ""
