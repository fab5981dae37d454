"""Stores a simulated run: the tables that a run on real hosts leaves, so that the same checks judge it.

Contains the tables. Does not contain the verdict (harness.judging).
"""

from __future__ import annotations

import json
from dataclasses import astuple
from itertools import chain

from harness.engine.clock import VirtualClock
from harness.engine.recorder import Recorder
from harness.engine.records import write_chunk
from harness.model import Observation
from harness.model.records.tables import BATCHES
from harness.running.collect import CHUNK
from harness.simulating.simulation import Outcome
from nodes.observe.log_batches import batches_of
from nodes.simulation.cluster import Violation
from nodes.simulation.network import METADATA
from results.store import RunDirectory


def store_tables(outcome: Outcome, run: RunDirectory) -> None:
    """Write the history, the observations and the logs of a run. Raises EnvironmentFailure if the disk refuses."""
    clock = VirtualClock()
    with Recorder(run.path, clock) as recorder:
        for observation in chain(outcome.observations, map(_observation, outcome.violations)):
            recorder.observe(observation)
        for op in outcome.history:
            clock.time_ns = op.time_ns
            recorder.record(op)
    (quorum_log,) = METADATA
    batches = [astuple(each) for node, log in outcome.logs.items() for each in batches_of(node, quorum_log, log)]
    if batches:
        run.batches.mkdir(exist_ok=True)
        write_chunk(run.batches / CHUNK, BATCHES, batches)


def _observation(violation: Violation) -> Observation:
    detail = json.dumps({"invariant": violation.invariant, "message": violation.message})
    return Observation(violation.time_ms * 1_000_000, violation.node or 0, "simulation", "violation", detail=detail)
