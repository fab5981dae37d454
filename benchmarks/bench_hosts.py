"""Five namespace hosts: how long it takes to provision them, and to cut, verify and heal a partition.

The baseline is the time to start one program in a namespace, which each of them does at least once.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate
from timing import timed

from nodes.hosts.commands import run
from nodes.hosts.links import NamespaceLinks
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.sandbox import Privilege, enclose

NODES = 5
ROUNDS = 15
HALVES = [(a, b) for a in (1, 2) for b in (3, 4, 5)] + [(b, a) for a in (1, 2) for b in (3, 4, 5)]


async def measure(directory: Path) -> dict[str, list[float]]:
    """Milliseconds of each round, by what was timed."""
    times: dict[str, list[float]] = {
        name: [] for name in ("one program in a namespace", "provision", "cut", "verify", "heal")
    }
    for _ in range(ROUNDS):
        began = time.perf_counter()
        async with NamespaceHosts.up(directory, NODES) as hosts:
            times["provision"].append((time.perf_counter() - began) * 1000)
            links = NamespaceLinks(hosts)
            await timed(times["one program in a namespace"], run(hosts.enter(1, ["true"])))
            await timed(times["cut"], links.cut(HALVES))
            await timed(times["verify"], links.passes(HALVES))
            await timed(times["heal"], links.heal())
            links.close()
    return times


def main() -> None:
    if len(sys.argv) == 1:
        os.execvp("setpriv", enclose([sys.executable, __file__, "inside"], Privilege.detect()))
    with tempfile.TemporaryDirectory(prefix="splitbrain-hosts-") as directory:
        times = asyncio.run(measure(Path(directory)))
    least = statistics.median(times["one program in a namespace"])
    rows = [(name, statistics.median(ms), max(ms), statistics.median(ms) / least) for name, ms in times.items()]
    headers = (f"{NODES} nodes, {ROUNDS} rounds", "median ms", "max ms", "ratio")
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
