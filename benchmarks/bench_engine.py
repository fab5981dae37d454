"""How many operations a second the engine runs: interpret with sessions that do nothing, recording included.

One session answers at once, so its worker continues without a switch between tasks; the other lets other tasks run
before it answers, as each session does that waits for a response.

The baseline is a bare loop that records the same invocations and completions; the ratio shows what generator, dispatch
and asyncio cost. All run in turns, and collect garbage as rarely as commands do; the table has medians, also of the
CPU time, on which other load has less effect. Uses no network.

    .venv/bin/python benchmarks/bench_engine.py [OPERATIONS]
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tabulate import tabulate

from harness.commands.main import GARBAGE_THRESHOLD
from harness.engine.clock import RunClock
from harness.engine.combinators import limit, mix
from harness.engine.generator import from_function
from harness.engine.interpreter import interpret
from harness.engine.placement import clients
from harness.engine.recorder import Recorder
from harness.model import Op

CONCURRENCY = 10
ROUNDS = 5


class NoOp:
    """A session whose system answers at once."""

    async def invoke(self, op: Op) -> Op:
        return op.ok()

    async def close(self) -> None:
        return None


class Switching(NoOp):
    """A session whose system answers after other tasks have run."""

    async def invoke(self, op: Op) -> Op:
        await asyncio.sleep(0)
        return op.ok()


def bare_loop(count: int, directory: Path) -> None:
    with Recorder(directory, RunClock.started_now()) as recorder:
        for number in range(count):
            op = Op("invoke", "write", number % CONCURRENCY, "k0", number)
            recorder.record(op)
            recorder.record(op.ok())


def engine(session: NoOp, count: int, directory: Path) -> None:
    async def open_session(_process: int) -> NoOp:
        return session

    reads = from_function(lambda number, drawn: Op("invoke", "read", key="k0"), seed=1)  # noqa: ARG005
    writes = from_function(lambda number, drawn: Op("invoke", "write", key="k0", value=number), seed=2)  # noqa: ARG005
    load = clients(limit(count, mix([(1, reads), (1, writes)], seed=3)))
    clock = RunClock.started_now()
    with Recorder(directory, clock) as recorder:
        asyncio.run(
            interpret(
                load,
                concurrency=CONCURRENCY,
                open_session=open_session,
                nemesis=NoOp(),
                recorder=recorder,
                clock=clock,
                op_timeout_ms=5_000,
            )
        )


def measure(run: Callable[[int, Path], None], count: int) -> tuple[float, float]:
    """Operations a second, and microseconds of CPU time for each."""
    with tempfile.TemporaryDirectory() as directory:
        began, cpu_began = time.perf_counter(), time.process_time()
        run(count, Path(directory))
        cpu_us = (time.process_time() - cpu_began) / count * 1e6
        return count / (time.perf_counter() - began), cpu_us


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    gc.set_threshold(GARBAGE_THRESHOLD)
    runs = {
        "bare recorder loop": bare_loop,
        "interpret, no-op session": partial(engine, NoOp()),
        "interpret, session that awaits": partial(engine, Switching()),
    }
    rounds = [[measure(run, count) for run in runs.values()] for _ in range(ROUNDS)]
    rows = []
    for name, measured in zip(runs, zip(*rounds, strict=True), strict=True):
        pairs = list(zip(measured, (of_round[0] for of_round in rounds), strict=True))
        rate, cpu_us = (statistics.median(each[part] for each in measured) for part in (0, 1))
        of_rate = statistics.median(own[0] / bare[0] for own, bare in pairs)
        of_cpu = statistics.median(bare[1] / own[1] for own, bare in pairs)
        rows.append((name, f"{rate:,.0f}", f"{of_rate:.2f}", f"{cpu_us:.1f}", f"{of_cpu:.2f}"))
    headers = (f"medians of {ROUNDS}", "operations/s", "ratio", "CPU, µs", "ratio")
    print(tabulate(rows, headers=headers, disable_numparse=True, colalign=("left", *["right"] * 4)))


if __name__ == "__main__":
    main()
