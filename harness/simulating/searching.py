"""Searches many seeds for a run that breaks a rule: draws each run, simulates it, and screens it.

    with processes(at_once) as pool:
        for screened in search(request, available, pool):
            screened.seed, screened.reason, screened.digest

The runs are spread over processes, each of which draws and simulates those of some seeds in a row. A run is the same in
any process, so a run whose tables are needed is simulated again (record).

Contains the search. Does not contain the processes (pool.py), or what is done with a run that does not pass
(simulate.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import replace
from itertools import islice

from harness import plugins
from harness.exploration.coverage import Coverage
from harness.exploration.drawing import drawn
from harness.exploration.request import ExplorationRequest
from harness.planning.plan import Plan, Request
from harness.planning.story_steps import StoryStep
from harness.running.run import plan_of
from harness.simulating.releases import other_systems, system_to_draw_for, with_upgrade
from harness.simulating.request import HOSTS, SimulationRequest
from harness.simulating.screening import Screened, reason_of, reason_to_store
from harness.simulating.simulated import simulate
from harness.simulating.simulation import unavailable_actions
from harness.simulating.timed import timed_request, timed_run
from harness.simulating.timed_screening import screen_timed
from nodes.simulation.schedule import Played, ScheduledRun

Play = Callable[[str, Sequence[ScheduledRun]], Sequence[Played]]
TIMED_BATCH = 25
"""How many timed runs a process simulates between two reports; they go to a driver together. Of other runs, one."""


def request_of_run(request: SimulationRequest, seed: int, available: Collection[str]) -> Request:
    """The run of a seed. The same seed gives the same run, whatever was simulated before."""
    if request.timed:
        return timed_request(request, seed)
    exploration = ExplorationRequest(
        system=system_to_draw_for(request),
        switch=request.switches,
        hosts=HOSTS,
        run_seconds=max(5.0, request.run_seconds),
    )
    run = drawn(exploration, seed, available, Coverage())
    run = run.model_copy(update={"system": request.system, "node_systems": other_systems(request, seed, run.nodes)})
    if request.upgrade_to is None:
        return run
    story = with_upgrade([each.step() for each in run.story], request, seed, run.nodes)
    return run.model_copy(update={"story": [StoryStep.of(step) for step in story]})


def available_actions(request: SimulationRequest) -> tuple[str, ...]:
    """The actions that simulated nodes of this system allow. Raises BadInput for a system that is not simulated."""
    plan = Plan(name="survey", seed=0, story=[], system=request.system, hosts=HOSTS, switch=request.switches)
    return tuple(sorted(action for action, reason in unavailable_actions(plan).items() if reason is None))


def search(request: SimulationRequest, available: Collection[str], pool: Executor) -> Iterator[Screened]:
    """The runs of request.seeds seeds, as they are screened in the processes of the pool, in no fixed order."""
    assert request.seed is not None, "a resolved request has a seed"
    seeds = iter(range(request.seed, request.seed + request.seeds))
    batches = iter(lambda: tuple(islice(seeds, TIMED_BATCH if request.timed else 1)), ())
    pending: set[Future[list[Screened]]] = set()
    while True:
        for batch in islice(batches, 2 * processors(request) - len(pending)):
            pending.add(pool.submit(screen_all, request, batch, tuple(available)))
        if not pending:
            return
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            yield from future.result()


def processors(request: SimulationRequest) -> int:
    """How many runs are simulated at a time."""
    return request.at_once or len(os.sched_getaffinity(0))


def screen_all(request: SimulationRequest, seeds: Collection[int], available: Collection[str]) -> list[Screened]:
    """Draw, simulate and screen the runs of some seeds."""
    begun, screened = time.monotonic(), []
    system, version = plugins.system(request.system)
    if request.timed and system.play is not None:
        screened = _played(request, version, seeds, system.play)
        return [replace(each, seconds=time.monotonic() - begun) for each in screened]
    for seed in seeds:
        if request.timed:
            each = screen_timed(timed_run(request, seed))
        else:
            each = screen(plan_of(request_of_run(request, seed, available), {}))
        screened.append(replace(each, seconds=time.monotonic() - begun))
    return screened


def _played(request: SimulationRequest, version: str, seeds: Collection[int], play: Play) -> list[Screened]:
    """The timed runs of some seeds, all at once."""
    runs = [timed_run(request, seed) for seed in seeds]
    results = play(version, [each.scheduled() for each in runs])
    return [
        Screened(
            each.seed,
            reason_of(played.broken, played.exits > 0, played.unrecovered),
            played.digest,
            played.now_ms,
            played.calls,
        )
        for each, played in zip(runs, results, strict=True)
    ]


def screen(plan: Plan) -> Screened:
    """Simulate and screen one run."""
    outcome = simulate(plan)
    operations = sum(op.type == "invoke" for op in outcome.history)
    return Screened(plan.seed, reason_to_store(outcome), outcome.digest, outcome.virtual_ms, operations)
