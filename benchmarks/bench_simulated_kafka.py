"""How fast Kafka's Raft client runs under virtual time: random schedules of ten virtual seconds on three nodes.

A schedule cuts links, kills and restarts nodes, and writes. The baseline, in the same run, is the idle driver: as many
round trips to the JVM as the schedules needed, in which nothing happens. The CPU of the JVM is measured apart from that
of Python.

The second table has timed runs of three nodes as `splitbrain simulate --timed` draws them, each carried out by the
driver as a whole. Their baseline is the first of the same runs, carried out command by command from Python.

    .venv/bin/python benchmarks/bench_simulated_kafka.py [SCHEDULES] [VERSION…]
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate
from timing import best

from harness.running.run import plan_of
from harness.simulating.request import SimulationRequest
from harness.simulating.searching import TIMED_BATCH, screen, screen_all
from harness.simulating.timed import timed_request, timed_run
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.kafka.cluster import KafkaCluster
from nodes.simulation.kafka.driver_process import RaftDriver
from nodes.simulation.kafka.drivers import driver_of
from nodes.simulation.kafka.jars import RaftLibrary
from workloads.register import write_of

SCHEDULES = 300
VERSIONS = ("3.9.1", "4.3.1")
NODES = range(1, 4)
VIRTUAL_MS = 10_000
PAUSES_MS = (5, 20, 100, 300, 1_000)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Count:
    """What the schedules did."""

    round_trips: int = 0
    observations: int = 0
    answers: int = 0
    violations: int = 0


def schedule(driver: RaftDriver, seed: int, count: Count) -> None:
    """One run: ten virtual seconds."""
    choices = random.Random(seed)
    cluster = KafkaCluster(driver, SimulationSpec(seed, len(NODES)), lambda _observation: None)
    down: set[int] = set()
    for node in NODES:
        cluster.start(node)
    before = driver.exchanges
    while cluster.now_ms < VIRTUAL_MS:
        act(cluster, choices, down, count)
        end_ms = min(VIRTUAL_MS, cluster.now_ms + choices.choice(PAUSES_MS))
        while cluster.now_ms < end_ms:
            cluster.advance(end_ms)
    count.round_trips += driver.exchanges - before
    count.violations += len(cluster.violations)
    cluster.close()


def act(cluster: KafkaCluster, choices: random.Random, down: set[int], count: Count) -> None:
    """One fault, its repair, or writes to every node."""
    node = choices.choice(NODES)
    what = choices.choice(("write", "write", "write", "cut", "restore", "kill", "start"))
    if what == "write":
        for each in NODES:
            cluster.call(each, write_of(["r"], node), lambda _response: answered(count))
    elif what == "cut":
        cluster.cut([link for peer in NODES if peer != node for link in ((node, peer), (peer, node))])
    elif what == "restore":
        cluster.restore()
    elif what == "kill" and not down:
        cluster.kill(node)
        down.add(node)
    elif what == "start" and down:
        cluster.start(down.pop())


def answered(count: Count) -> None:
    count.answers += 1


def cpu_seconds(process: int) -> float:
    """The CPU time of a process, in user and system mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(version: str, schedules: int) -> tuple[object, ...]:
    """One row: figures of a release."""
    release = asyncio.run(RaftLibrary.default(print).resolve(version))
    with RaftDriver(release) as driver:
        warm = Count()
        for seed in range(schedules // 3):
            schedule(driver, seed, warm)
        count = Count()
        began, began_cpu = time.perf_counter(), cpu_seconds(driver.process_id)
        for seed in range(schedules):
            schedule(driver, seed, count)
        seconds, cpu = time.perf_counter() - began, cpu_seconds(driver.process_id) - began_cpu
        idle = best(lambda: idle_round_trips(driver, count.round_trips))
    return (
        version,
        round(schedules / seconds * 60),
        f"{cpu / schedules * 1000:.1f}",
        f"{seconds / schedules * 1000:.1f}",
        f"{count.round_trips / schedules:.0f}",
        f"{idle / count.round_trips * 1e6:.0f}",
        f"{seconds / idle:.1f}",
        count.answers,
        count.violations,
    )


def measure_timed(version: str, schedules: int) -> tuple[object, ...]:
    """One row: figures of a release's timed runs, in one JVM."""
    request = SimulationRequest(system=f"kafka:{version}", timed=True)
    drawn = (timed_run(request, seed) for seed in itertools.count(1))
    runs = list(itertools.islice((run for run in drawn if run.nodes == len(NODES)), schedules))
    seeds = [run.seed for run in runs]
    plans = [plan_of(timed_request(request, seed), {}) for seed in seeds[: max(1, schedules // 20)]]
    driver = driver_of(version)
    screen_all(request, seeds, ())
    began, began_python, began_java = time.perf_counter(), time.process_time(), cpu_seconds(driver.process_id)
    screened = [each for batch in batched(seeds) for each in screen_all(request, batch, ())]
    seconds, python = time.perf_counter() - began, time.process_time() - began_python
    java = cpu_seconds(driver.process_id) - began_java
    one_by_one = best(lambda: [screen(plan) for plan in plans]) / len(plans)
    return (
        version,
        len(screened),
        f"{sum(each.virtual_ms for each in screened) / len(screened) / 1000:.1f}",
        f"{sum(each.operations for each in screened) / len(screened):.1f}",
        round(len(screened) / seconds * 60),
        f"{java / len(screened) * 1000:.1f}",
        f"{python / len(screened) * 1000:.2f}",
        f"{one_by_one / (seconds / len(screened)):.1f}",
    )


def batched(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    """The seeds as the search passes them to the driver."""
    return (seeds[begin : begin + TIMED_BATCH] for begin in range(0, len(seeds), TIMED_BATCH))


def idle_round_trips(driver: RaftDriver, number: int) -> None:
    """Advance a cluster without nodes as often."""
    cluster = KafkaCluster(driver, SimulationSpec(0, len(NODES)), lambda _observation: None)
    for now_ms in range(number):
        driver.exchange([["advance", now_ms]])
    cluster.close()


def main() -> None:
    schedules = int(sys.argv[1]) if len(sys.argv) > 1 else SCHEDULES
    rows = [measure(version, schedules) for version in sys.argv[2:] or VERSIONS]
    headers = (
        *("release", "schedules/min", "JVM CPU ms", "wall ms", "round trips", "idle trip µs"),
        *("wall / idle trips", "answers", "violations"),
    )
    print(tabulate(rows, headers=headers), end="\n\n")
    timed = [measure_timed(version, schedules) for version in sys.argv[2:] or VERSIONS]
    headers = (
        *("release", "timed runs", "virtual s", "operations", "runs/min", "JVM CPU ms", "Python CPU ms"),
        "times as fast as from Python",
    )
    print(tabulate(timed, headers=headers))


if __name__ == "__main__":
    main()
