"""A Python process whose clocks are moved: it tells what it reads, and does what a line asks for."""

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

VICTIM = SUPPORT / "nodes" / "victim.py"


@dataclass(slots=True)
class Victim:
    """The process, and the Clocks that move it as node 1."""

    process: subprocess.Popen[str]

    def ask(self, *words: str) -> str:
        """The line it answers to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def offset(self, reader: str) -> float:
        """How far, in seconds, what it reads is ahead of what we read the same way."""
        ours = {"realtime": time.time, "monotonic": time.monotonic}["realtime" if "time" in reader else "monotonic"]
        before = ours()
        shown = float(self.ask(reader))
        return shown - (before + ours()) / 2

    def image(self) -> bytes:
        return Target(self.process.pid, "victim").read()

    @property
    def clocks(self) -> ProcessClocks:
        return ProcessClocks(lambda _node: self.process.pid)


def run(*steps: Coroutine[Any, Any, Any]) -> Any:
    """Carry out steps one after another; what the last returned."""

    async def one_by_one() -> Any:
        return [await step for step in steps][-1]

    return asyncio.run(one_by_one())


@pytest.fixture
def victim() -> Iterator[Victim]:
    argv = [sys.executable, str(VICTIM)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Victim(process)
        process.kill()


@pytest.fixture
def perform() -> Any:
    return run
