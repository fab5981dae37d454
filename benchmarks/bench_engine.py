"""How many operations a second the engine runs: interpret with a session that does nothing, recording included.

The baseline, in the same run, is a bare loop that records the same invocations and completions; the ratio shows what
generator, dispatch and asyncio cost. Prints a table; uses no network.

    .venv/bin/python benchmarks/bench_engine.py [OPERATIONS]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

from harness.engine.clock import RunClock
from harness.engine.combinators import limit, mix
from harness.engine.generator import from_function
from harness.engine.interpreter import interpret
from harness.engine.placement import clients
from harness.engine.recorder import Recorder
from harness.model import Op

CONCURRENCY = 10


class NoOp:
    """A session whose system answers at once."""

    async def invoke(self, op: Op) -> Op:
        return op.ok()

    async def close(self) -> None:
        return None


async def open_no_op(_process: int) -> NoOp:
    return NoOp()


def bare_loop(count: int, directory: Path) -> None:
    with Recorder(directory, RunClock.started_now()) as recorder:
        for number in range(count):
            op = Op("invoke", "write", number % CONCURRENCY, "k0", number)
            recorder.record(op)
            recorder.record(op.ok())


def engine(count: int, directory: Path) -> None:
    reads = from_function(lambda number, drawn: Op("invoke", "read", key="k0"), seed=1)  # noqa: ARG005
    writes = from_function(lambda number, drawn: Op("invoke", "write", key="k0", value=number), seed=2)  # noqa: ARG005
    load = clients(limit(count, mix([(1, reads), (1, writes)], seed=3)))
    clock = RunClock.started_now()
    with Recorder(directory, clock) as recorder:
        asyncio.run(
            interpret(
                load,
                concurrency=CONCURRENCY,
                open_session=open_no_op,
                nemesis=NoOp(),
                recorder=recorder,
                clock=clock,
                op_timeout_ms=5_000,
            )
        )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rates: dict[str, float] = {}
    for name, run in (("bare recorder loop", bare_loop), ("interpret, no-op session", engine)):
        with tempfile.TemporaryDirectory() as directory:
            began = time.perf_counter()
            run(count, Path(directory))
            rates[name] = count / (time.perf_counter() - began)
    baseline = rates["bare recorder loop"]
    rows = [(name, f"{rate:,.0f}", f"{rate / baseline:.2f}") for name, rate in rates.items()]
    print(tabulate(rows, headers=("what", "operations/s", "of baseline"), colalign=("left", "right", "right")))


if __name__ == "__main__":
    main()
