"""Moving the clock of a running process: how long the first change, a later one, a reading and the reset take.

The baseline is the time to open the process's memory and read its vDSO, which each of them does. The last line compares
the time of a call of time.time() in the process before and after its clock was hooked.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from tabulate import tabulate
from timing import timed

from nodes.clocks.process_clocks import ProcessClocks
from nodes.clocks.target import Target

ROUNDS = 200
CALLS = 200_000
VICTIM = f"""
import sys, time
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range({CALLS}):
        time.time()
    print((time.perf_counter() - began) / {CALLS} * 1e9, flush=True)
"""


async def measure(pid: int) -> dict[str, list[float]]:
    """Milliseconds of each round, by what was timed."""
    clocks = ProcessClocks(lambda _node: pid)
    names = ("read its memory", "first change", "later change", "read its clocks", "reset")
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(ROUNDS):
        began = time.perf_counter()
        Target(pid, "n1").read()
        times["read its memory"].append((time.perf_counter() - began) * 1000)
        await timed(times["first change"], clocks.skew(1, ["realtime"], number))
        await timed(times["later change"], clocks.drift(1, ["realtime"], 0.5))
        await timed(times["read its clocks"], clocks.read(1))
        await timed(times["reset"], clocks.reset(1))
    return times


def call_ns(victim: subprocess.Popen[str]) -> float:
    """The time of one time.time() in the process, its loop included."""
    assert victim.stdin is not None
    assert victim.stdout is not None
    print(file=victim.stdin, flush=True)
    return float(victim.stdout.readline())


def main() -> None:
    argv = [sys.executable, "-c", VICTIM]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        untouched_ns = call_ns(victim)
        times = asyncio.run(measure(victim.pid))
        asyncio.run(ProcessClocks(lambda _node: victim.pid).skew(1, ["monotonic"], 0))
        hooked_ns = call_ns(victim)
        victim.kill()
    least = statistics.median(times["read its memory"])
    rows = [(name, statistics.median(ms), max(ms), statistics.median(ms) / least) for name, ms in times.items()]
    print(tabulate(rows, headers=(f"{ROUNDS} rounds", "median ms", "max ms", "ratio"), floatfmt=".3f"))
    print(f"time.time() in the process: {untouched_ns:.0f} ns untouched, {hooked_ns:.0f} ns hooked")


if __name__ == "__main__":
    main()
