"""The real command as a subprocess, and the processes that name a directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).with_name("splitbrain"))
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended: its exit code, its results and its messages."""

    code: int
    out: str
    messages: list[str]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def splitbrain(*arguments: Any, timeout_seconds: float = 90, **more: str) -> Said:
    """Run the command to its end; more stands in its environment."""
    argv = [COMMAND, *map(str, arguments)]
    result = subprocess.run(
        argv, capture_output=True, text=True, timeout=timeout_seconds, env=environment(**more), check=False
    )
    return Said(result.returncode, result.stdout, result.stderr.splitlines())


def begin(*arguments: Any) -> subprocess.Popen[str]:
    """Start the command, its messages in a pipe."""
    argv = [COMMAND, *map(str, arguments)]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())


def wait_until(
    condition: Callable[[], bool],
    what: str,
    timeout_seconds: float = 60.0,
    command: subprocess.Popen[str] | None = None,
) -> None:
    """Wait for a condition, and where a command is to bring it about, no longer than that command lives."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if command is not None and command.poll() is not None:
            _, said = command.communicate()
            raise AssertionError(f"the command ended with {command.returncode}, and it is not so: {what}\n{said}")
        assert time.monotonic() < deadline, f"not so after {timeout_seconds:g} s: {what}"
        time.sleep(0.02)


def processes_naming(directory: Path) -> list[str]:
    """The command lines of the machine's processes that name the directory or work below it."""
    found = {int(path.name): _words(path) for path in Path("/proc").glob("[0-9]*") if int(path.name) != os.getpid()}
    return [words for words in found.values() if str(directory) in words]


def _words(process: Path) -> str:
    try:
        return f"{(process / 'cmdline').read_text()} in {(process / 'cwd').readlink()}".replace("\0", " ")
    except OSError:  # it has ended since
        return ""
