"""A Python process whose clocks the tests skew; it reads clocks on request."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from nodes.clocks.process_clocks import ProcessClocks
from nodes.clocks.target import Target
from tests.support import SUPPORT

CLOCK_READER = SUPPORT / "nodes" / "clock_reader.py"


@dataclass(slots=True)
class ClockReader:
    """The process, and Clocks with the process as node 1."""

    process: subprocess.Popen[str]

    def request(self, *words: str) -> str:
        """Send a request line; returns the response line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def offset(self, reader: str) -> float:
        """How far, in seconds, a clock in the process is ahead of ours."""
        ours = {"realtime": time.time, "monotonic": time.monotonic}["realtime" if "time" in reader else "monotonic"]
        before = ours()
        shown = float(self.request(reader))
        return shown - (before + ours()) / 2

    def image(self) -> bytes:
        return Target(self.process.pid, "n1").read()

    @property
    def clocks(self) -> ProcessClocks:
        return ProcessClocks(lambda _node: self.process.pid)


def run(*steps: Coroutine[Any, Any, Any]) -> Any:
    """Run the steps in order; returns the result of the last."""

    async def run_all() -> Any:
        return [await step for step in steps][-1]

    return asyncio.run(run_all())


@pytest.fixture
def clock_reader() -> Iterator[ClockReader]:
    argv = [sys.executable, str(CLOCK_READER)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield ClockReader(process)
        process.kill()


@pytest.fixture
def perform() -> Any:
    return run
