"""Records a run that did not pass the screen: simulates it again, and stores what it leaves, to be judged like any run.

    recording = pool.submit(record, request, versions, seed, available, store)
    directory, events = recording.result()

This runs in a process that simulates (searching.py): its imports are done, and it has the Raft client's JVM.

Contains the recording of one run. Does not contain the tables (storing.py), or which runs are recorded (simulate.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from harness.exploration.explore import begin_run
from harness.model.progress import Event
from harness.running.controller_process import recorded
from harness.running.run import plan_of, refuse_impossible
from harness.simulating.request import SimulationRequest
from harness.simulating.searching import request_of_run
from harness.simulating.simulated import simulate
from harness.simulating.storing import store_tables


def record(
    request: SimulationRequest, versions: Mapping[str, str], seed: int, available: Collection[str], store: Path
) -> tuple[Path, list[Event]]:
    """Record the run of a seed in a new directory of the store; returns it, and the events to show."""
    events: list[Event] = []
    drawn = request_of_run(request, seed, available)
    plan = plan_of(drawn, dict(versions)).model_copy(update={"name": "simulate"})
    refuse_impossible(plan)
    run, plan = begin_run(plan, drawn, store, events.append)
    with recorded(plan, run):
        store_tables(simulate(plan, observes=True), run)
    return run.path, events
