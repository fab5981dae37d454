"""Starts the controller of a run in its sandbox and follows its output to the end.

The controller ends with this process: the kernel kills the sandbox if this process is killed; the controller ends in
good order if its standard input closes. sandbox.json in the run's directory identifies it for `splitbrain heal`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any, Self

from harness import plugins
from harness.environments.provision import outlives
from harness.judging.inputs import record_inputs
from harness.model import BadInput, EnvironmentFailure, SplitbrainError
from harness.model.errors import EXIT_USAGE
from harness.model.progress import Event, OnEvent, RunEnded, RunFailed
from harness.planning.plan import Plan
from harness.recovery.liveness import SANDBOX, own, started_ticks
from harness.recovery.watchdog import watchdog
from harness.running.event_lines import from_line
from nodes.hosts.sandbox import Privilege, die_with_parent, enclose
from results.files import write_json, write_text
from results.store import RunDirectory

STOP_SECONDS = 60.0
CONTROLLER_LOG = "controller.log"


OnProcess = Callable[[subprocess.Popen[str]], object]
"""Called with the controller's process when it has started; closing its standard input ends it in good order."""


def carry_out(
    plan: Plan,
    run: RunDirectory,
    on_event: OnEvent,
    on_process: OnProcess = lambda _process: None,
    is_stopped: Callable[[], bool] = lambda: False,
    deadline_seconds: float | None = None,
) -> None:
    """Carry out a plan. The run ends recorded or interrupted; is_stopped says whether its controller was told to end.

    Raises what the controller failed with, and KeyboardInterrupt once the controller has ended in good order; and
    EnvironmentFailure for a run that had to be ended deadline_seconds after its controller started.
    """
    with recorded(plan, run, is_stopped), watchdog(run) if outlives(plan) else nullcontext():
        _follow(run, on_event, on_process, deadline_seconds)


@contextmanager
def recorded(plan: Plan, run: RunDirectory, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """This process records a run in the block. The run ends recorded, or interrupted if the block fails."""
    write_text(run.plan, plan.as_json())
    record_inputs(run, plan)
    own(run)
    run.enter("running", datetime.now(UTC))
    try:
        yield
    except BaseException:
        interrupt(run)
        raise
    if is_stopped():
        interrupt(run)
    else:
        run.enter("recorded", datetime.now(UTC))


def interrupt(run: RunDirectory) -> None:
    """Record that the run was interrupted; if the disk refuses even that, `splitbrain heal` records it later."""
    with suppress(OSError):
        run.enter("interrupted", datetime.now(UTC))


def controller_command(plan: Plan, arguments: Sequence[str]) -> list[str]:
    """The command that runs our Python where the plan's hosts are controlled from, and that ends with this process."""
    argv = [sys.executable, *arguments]
    return enclose(argv, Privilege.detect()) if plugins.host_kind(plan.hosts).sandboxed else die_with_parent(argv)


def _follow(run: RunDirectory, on_event: OnEvent, on_process: OnProcess, deadline_seconds: float | None) -> None:
    argv = controller_command(Plan.read(run.plan), ["-P", "-m", "harness.running.controller", str(run.path)])
    last: Event | None = None
    with (run.path / CONTROLLER_LOG).open("wb") as log, _controller(argv, log) as controller:
        write_json(run.path / SANDBOX, {"pid": controller.pid, "started_ticks": started_ticks(controller.pid)})
        on_process(controller)
        assert controller.stdout is not None
        with _Deadline(controller, deadline_seconds) as deadline:
            for line in controller.stdout:
                last = from_line(line)
                on_event(last)
    if deadline.has_passed:
        raise EnvironmentFailure(f"the run had not ended {deadline_seconds:g} s after its start, and was ended")
    if isinstance(last, RunFailed):
        raise _failure(last)
    if not isinstance(last, RunEnded):
        raise EnvironmentFailure(f"the run's controller ended early: {_last_line(run.path / CONTROLLER_LOG)}")


class _Deadline:
    """Ends a controller that takes longer: first in good order; after STOP_SECONDS more it is killed."""

    def __init__(self, controller: subprocess.Popen[str], seconds: float | None) -> None:
        self.has_passed = False
        self._controller = controller
        self._timers = [] if seconds is None else [Timer(seconds, self._end), Timer(seconds + STOP_SECONDS, self._kill)]

    def __enter__(self) -> Self:
        for timer in self._timers:
            timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()

    def _end(self) -> None:
        self.has_passed = True
        assert self._controller.stdin is not None
        with suppress(OSError):
            self._controller.stdin.close()

    def _kill(self) -> None:
        self._controller.kill()


@contextmanager
def _controller(argv: list[str], log: Any) -> Iterator[subprocess.Popen[str]]:
    """The controller's process; leaving the block closes its standard input and waits for its end."""
    try:
        controller = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"starting the controller: {error.filename} is missing; install util-linux") from error
    try:
        yield controller
    finally:
        assert controller.stdin is not None
        controller.stdin.close()
        try:
            controller.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            controller.kill()
            controller.wait()


def _failure(failed: RunFailed) -> SplitbrainError:
    return BadInput(failed.message) if failed.exit_code == EXIT_USAGE else EnvironmentFailure(failed.message)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return f"{lines[-1]} ({path})" if lines else f"it printed nothing ({path})"
