"""How fast the reference quorum runs under virtual time, per ten virtual seconds.

The rows are random schedules on the cluster alone (three nodes, writes, checked by the invariants at each event); whole
runs as `splitbrain simulate` draws, simulates and screens them; those of three nodes with a rate of at most two
operations a second; timed runs (`--timed`) of three nodes; the same compiled (`--compiled`), in one process and in two
at a time; and all whole runs in two processes. The CPU time counts on a machine that does other work, too; of the last
row it includes the start of the processes. The baseline, in the same run, is an empty timeline that carries out 1,000
actions.

    .venv/bin/python benchmarks/bench_simulated_reference.py [SCHEDULES]
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tabulate import tabulate

from harness.running.run import plan_of
from harness.simulating.pool import processes
from harness.simulating.request import SimulationRequest
from harness.simulating.screening import Screened
from harness.simulating.searching import (
    available_actions,
    processors,
    request_of_run,
    screen,
    screen_all,
    search,
)
from nodes.simulation.cluster import SimulationSpec
from nodes.simulation.compiled import compiled
from nodes.simulation.reference.cluster import ReferenceCluster
from nodes.simulation.timeline import Timeline
from workloads.register import write_of

SCHEDULES = 200
NODES = range(1, 4)
VIRTUAL_MS = 10_000
PAUSES_MS = (5, 20, 100, 300, 1_000)
MOVES = ("write", "cut", "restore", "kill", "start")
ACTIONS = 1_000
WARM_UP = 5
LIGHT_RATE = 2
IN_PROCESS = """
import sys
from pathlib import Path
from nodes.simulation.compiled import import_from
import_from(Path(sys.argv[1]))
from bench_simulated_reference import print_timed_runs
print_timed_runs(int(sys.argv[2]), int(sys.argv[3]))
"""


@dataclass(slots=True)
class Count:
    """What was simulated."""

    runs: int = 0
    virtual_ms: int = 0
    writes: int = 0
    answers: int = 0
    found: int = 0


def schedule(seed: int, count: Count) -> None:
    """One run of the cluster alone: ten virtual seconds of cuts, restarts and writes."""
    choices = random.Random(seed)
    cluster = ReferenceCluster(SimulationSpec(seed, len(NODES)), lambda _observation: None)
    down: set[int] = set()
    for node in NODES:
        cluster.start(node)
    while cluster.now_ms < VIRTUAL_MS:
        act(cluster, choices, down, count)
        end_ms = min(VIRTUAL_MS, cluster.now_ms + choices.choice(PAUSES_MS))
        while cluster.now_ms < end_ms:
            cluster.advance(end_ms)
    count.runs += 1
    count.virtual_ms += cluster.now_ms
    count.found += bool(cluster.violations)


def act(cluster: ReferenceCluster, choices: random.Random, down: set[int], count: Count) -> None:
    """One write to each node, a fault, or its repair."""
    node, what = choices.choice(NODES), choices.choice(MOVES)
    if what == "write":
        for each in NODES:
            count.writes += cluster.call(each, write_of(["r"], node), lambda response: answered(response, count))
    elif what == "cut":
        cluster.cut([link for peer in NODES if peer != node for link in ((node, peer), (peer, node))])
    elif what == "restore":
        cluster.restore()
    elif what == "kill" and not down:
        cluster.kill(node)
        down.add(node)
    elif what == "start" and down:
        cluster.start(down.pop())


def answered(response: object, count: Count) -> None:
    count.answers += response is not None


def add(screened: Screened, count: Count) -> None:
    count.runs += 1
    count.virtual_ms += screened.virtual_ms
    count.writes += screened.operations
    count.found += screened.reason is not None


def cluster_alone(schedules: int) -> Count:
    count = Count()
    for seed in range(schedules):
        schedule(seed, count)
    return count


def whole_runs(request: SimulationRequest, runs: int, is_light: bool, first_seed: int = 1) -> Count:
    """The first runs; if is_light, of those with few nodes and operations."""
    count, available = Count(), () if request.timed else available_actions(request)
    for seed in itertools.count(first_seed):
        drawn = request_of_run(request, seed, available)
        if not is_light or (drawn.nodes == len(NODES) and drawn.rate_per_second <= LIGHT_RATE):
            add(screen_all(request, [seed], available)[0] if request.timed else screen(plan_of(drawn, {})), count)
        if count.runs == runs:
            break
    return count


def in_processes(request: SimulationRequest) -> tuple[Count, float]:
    """The count, and the seconds since the first run began."""
    count, begun, ended = Count(), None, 0.0
    with processes(processors(request)) as pool:
        for screened in search(request, available_actions(request), pool):
            ended = time.perf_counter()
            begun = ended - screened.seconds if begun is None else begun
            add(screened, count)
    return count, ended - (begun or 0.0)


def print_timed_runs(runs: int, first_seed: int) -> None:
    """Simulate timed runs of three nodes in this process, whatever it imports; print the count and the seconds."""
    request = SimulationRequest(timed=True)
    whole_runs(request, WARM_UP, is_light=True)
    began, began_cpu = time.perf_counter(), time.process_time()
    count = whole_runs(request, runs, True, first_seed)
    print(json.dumps([asdict(count), time.perf_counter() - began, time.process_time() - began_cpu]))


def compiled_runs(name: str, runs: int, at_once: int) -> tuple[object, ...]:
    """A row: this many timed runs in each of some processes that import the compiled modules."""
    directory = compiled(print)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    argv = [[sys.executable, "-c", IN_PROCESS, str(directory), str(runs), str(1 + 10_000 * n)] for n in range(at_once)]
    started = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True, env=environment) for each in argv]
    results = [json.loads(each.communicate()[0]) for each in started]
    together = Count(*(sum(count[name] for count, _, _ in results) for name in asdict(Count())))
    return row(name, together, max(seconds for _, seconds, _ in results), sum(cpu for _, _, cpu in results))


def empty_actions() -> float:
    """CPU seconds of a timeline in which nothing happens: the fastest of several."""
    taken = []
    for _ in range(20):
        timeline, began = Timeline(), time.process_time()
        for at_ms in range(ACTIONS):
            timeline.after(at_ms, lambda: None)
        timeline.advance(ACTIONS)
        taken.append(time.process_time() - began)
    return min(taken)


def children_cpu() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(name: str, count: Count, seconds: float, cpu: float) -> tuple[object, ...]:
    tens = count.virtual_ms / VIRTUAL_MS
    return (
        *(name, count.runs, f"{count.virtual_ms / count.runs / 1000:.1f}", f"{count.writes / tens:.1f}"),
        *(round(tens / seconds * 60), round(tens / cpu * 60), f"{cpu / tens * 1000:.1f}"),
        *(f"{cpu / tens / empty_actions():.0f}", count.found),
    )


def measured(name: str, work: Callable[[], Count]) -> tuple[object, ...]:
    """A row: the work in this process."""
    began, began_cpu = time.perf_counter(), time.process_time()
    count = work()
    return row(name, count, time.perf_counter() - began, time.process_time() - began_cpu)


def main() -> None:
    schedules = int(sys.argv[1]) if len(sys.argv) > 1 else SCHEDULES
    cluster_alone(WARM_UP)
    rows = [measured("cluster alone", lambda: cluster_alone(schedules))]
    request, runs = SimulationRequest(seeds=2 * schedules, seed=1, at_once=2), max(1, schedules // 2)
    whole_runs(request, WARM_UP, is_light=False)
    rows.append(measured("whole runs", lambda: whole_runs(request, runs, is_light=False)))
    rows.append(measured("three nodes, light load", lambda: whole_runs(request, runs, is_light=True)))
    timed = request.model_copy(update={"timed": True})
    rows.append(measured("timed, three nodes", lambda: whole_runs(timed, runs, is_light=True)))
    rows.append(compiled_runs("the same, compiled", runs, 1))
    rows.append(compiled_runs("the same, two at a time", runs, 2))
    began_cpu = children_cpu()
    count, seconds = in_processes(request)
    rows.append(row("in two processes", count, seconds, children_cpu() - began_cpu))
    headers = (
        *("", "runs", "virtual s", "operations/10 s", "10 s/minute", "10 s/CPU minute"),
        *("CPU ms/10 s", f"CPU/{ACTIONS} empty actions", "found"),
    )
    print(tabulate(rows, headers=headers))


if __name__ == "__main__":
    main()
