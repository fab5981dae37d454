"""The real command, as a process of its own or in the test's process, and the processes that mention a directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from harness.commands.main import exit_code_of

COMMAND = str(Path(sys.executable).with_name("splitbrain"))
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A finished command: exit code, standard output, and the lines of its standard error."""

    code: int
    out: str
    messages: list[str]


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def splitbrain(*arguments: Any, timeout_seconds: float = 90, **extra_environment: str) -> CommandResult:
    """Run the command until it exits."""
    result = subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        env=environment(**extra_environment),
        check=False,
    )
    return CommandResult(result.returncode, result.stdout, result.stderr.splitlines())


def splitbrain_here(*arguments: Any) -> CommandResult:
    """Run the command in this process until it ends.

    With the fixture `spark`, runs are judged on the session of all tests, which has compiled the checks. A process of
    its own compiles them again, which takes most of its time.
    """
    with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as messages:
        with redirect_stdout(out), redirect_stderr(messages):
            code = exit_code_of([str(argument) for argument in arguments])
        out.seek(0)
        messages.seek(0)
        return CommandResult(code, out.read(), messages.read().splitlines())


def json_lines(result: CommandResult, least: int = 1) -> list[dict[str, Any]]:
    """The objects that a command with `--json` printed. Fails with the command's messages if there are fewer."""
    assert len(result.out.splitlines()) >= least, result.messages
    return [json.loads(line) for line in result.out.splitlines()]


def start_splitbrain(*arguments: Any, ignores_interrupts: bool = False) -> subprocess.Popen[str]:
    """Start the command with a pipe for its standard error, perhaps as a script's background job: SIGINT is ignored."""
    argv = [COMMAND, *map(str, arguments)]
    if ignores_interrupts:
        argv = ["sh", "-c", """trap '' INT; exec "$@\"""", "sh", *argv]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())


def wait_until(
    condition: Callable[[], object],
    description: str,
    timeout_seconds: float = 60.0,
    command: subprocess.Popen[str] | None = None,
) -> None:
    """Wait for a condition; fail at the deadline, or as soon as the command that should bring it about has ended."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if command is not None and command.poll() is not None:
            _, messages = command.communicate()
            raise AssertionError(f"waiting until {description}: the command exited {command.returncode}\n{messages}")
        assert time.monotonic() < deadline, f"waiting until {description}: not so after {timeout_seconds:g} s"
        time.sleep(0.02)


def processes_naming(directory: Path) -> list[str]:
    """The command lines of processes that mention the directory or have their working directory in it."""
    lines = (_command_line(path) for path in Path("/proc").glob("[0-9]*") if int(path.name) != os.getpid())
    return [line for line in lines if str(directory) in line]


def _command_line(process: Path) -> str:
    try:
        return f"{(process / 'cmdline').read_text()} in {(process / 'cwd').readlink()}".replace("\0", " ")
    except OSError:  # the process has ended
        return ""
