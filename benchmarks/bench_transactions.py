"""How fast cycles of transactions are found, as ratios against the plain twin on the same machine.

    python benchmarks/bench_transactions.py

Edges a second of the kernel, on graphs of a valid history (everything in order) and of one with a cycle in every
hundredth transaction; of the edges of real time; and of the twin, on a graph small enough for it. The best of three.
"""

from __future__ import annotations

import random

import numpy as np
from tabulate import tabulate
from timing import best

from checkers.kernels.cycles import real_time
from checkers.transactions.cycles import RW, WR, WW, cycles
from checkers.twins import transactions as twin

EDGES = 2_000_000
TWIN_EDGES = 600
REACH = 50
"""How far apart, in transactions, the ends of an edge are at most."""


def graph(edges: int, broken: bool, seed: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(nodes, sources, targets, kinds): three edges a transaction to later ones; if broken, some are reversed."""
    source, nodes = np.random.default_rng(seed), edges // 3
    sources = source.integers(0, nodes - REACH, edges)
    targets = sources + source.integers(1, REACH, edges)
    kinds = source.choice([WW, WR, RW], edges)
    if broken:
        back = np.arange(0, edges, 300)
        sources[back], targets[back] = targets[back], sources[back]
    return nodes, sources, targets, kinds


def events(nodes: int, running: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of transactions; `running` of them run at a time."""
    source, open_nodes, events = random.Random(seed), [], []
    for node in range(nodes):
        if len(open_nodes) == running:
            events.append((open_nodes.pop(source.randrange(running)), False))
        open_nodes.append(node)
        events.append((node, True))
    nodes, begins = zip(*events, strict=True)
    return np.array(nodes), np.array(begins)


def main() -> None:
    """Measure and print."""
    small = graph(TWIN_EDGES, True, 1)
    edges = set(zip(*(column.tolist() for column in small[1:]), strict=True))
    plain = TWIN_EDGES / best(lambda: twin.cycles(edges))
    rows = [["plain twin, 600 edges", plain, 1.0]]
    for name, broken in (("valid", False), ("a cycle every 300 edges", True)):
        made = graph(EDGES, broken, 1)
        rate = EDGES / best(lambda made=made: cycles(*made))
        rows.append([f"kernel, {EDGES:,} edges, {name}", rate, rate / plain])
    node, begins = events(EDGES // 20, 10, 1)
    found = len(real_time(node, begins, EDGES // 20)[0])
    rate = found / best(lambda: real_time(node, begins, EDGES // 20))
    rows.append([f"real time, {found:,} edges, 10 transactions at a time", rate, rate / plain])
    print(tabulate(rows, headers=["measured", "edges/s", "ratio"], floatfmt=",.1f", intfmt=","))


if __name__ == "__main__":
    main()
