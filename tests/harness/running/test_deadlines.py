"""A run that has not ended by its deadline is ended, also if its controller no longer responds; nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.engine.records import read_history
from harness.model import EnvironmentFailure
from harness.model.progress import Event, Phase
from harness.model.story import sleep
from harness.planning.plan import Request
from harness.planning.story_steps import StoryStep
from harness.running import controller_process
from harness.running.controller_process import carry_out
from harness.running.run import plan_to_run
from results.store import RunDirectory, new_run
from tests.support.command import processes_naming, wait_until

pytestmark = [pytest.mark.netns, pytest.mark.timeout(100)]
STORY_SECONDS = 300


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return new_run(tmp_path / "runs", "long", datetime.now(UTC))


def carried_out(run: RunDirectory, deadline_seconds: float, on_story: threading.Event) -> subprocess.Popen[str]:
    """Carry out a run whose story takes much longer, to its deadline; returns its controller's process."""
    request = Request(name="long", seed=1, story=[StoryStep.of(sleep(STORY_SECONDS))])
    processes: list[subprocess.Popen[str]] = []

    def report(event: Event) -> None:
        if isinstance(event, Phase) and event.stage == "story":
            on_story.set()

    with pytest.raises(
        EnvironmentFailure, match=f"had not ended {deadline_seconds:g} s after its start, and was ended"
    ):
        carry_out(plan_to_run(request, report), run, report, processes.append, lambda: False, deadline_seconds)
    return processes[0]


def test_run_ends_in_good_order_at_its_deadline(run: RunDirectory) -> None:
    began = threading.Event()
    controller = carried_out(run, 12.0, began)
    assert began.is_set()
    assert controller.returncode == 0
    assert run.status == "interrupted"
    assert len(list(read_history(run.history))) > 0
    assert not processes_naming(str(run.path))


def test_controller_that_does_not_respond_is_killed_with_its_sandbox(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_process, "STOP_SECONDS", 2.0)
    began = threading.Event()

    def stop() -> None:
        """Stop the controller, the sandbox's first process, as if it hung."""
        assert began.wait(60)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            words = path.read_bytes().split(b"\0")
            if (
                str(run.path).encode() in words
                and b"harness.running.controller" in words
                and b"unshare" not in words[0]
            ):
                os.kill(int(path.parent.name), signal.SIGSTOP)

    stopping = threading.Thread(target=stop)
    stopping.start()
    controller = carried_out(run, 12.0, began)
    stopping.join()
    assert controller.returncode == -signal.SIGKILL
    assert run.status == "interrupted"
    wait_until(lambda: not processes_naming(str(run.path)), "its sandbox is gone")
