"""Simulates a timed run as quickly as possible, and screens it: without a plan, a loop, observers and their rows.

    screen_timed(timed_run(request, seed))      # Screened(seed, reason, …), of the same digest as its plan's

Contains this shortcut. Does not contain the run of a plan with all it leaves (timed_simulation.py).
"""

from __future__ import annotations

from harness import plugins
from harness.model import Observation, Op
from harness.simulating.screening import REGISTER, STALE_READ, Screened, reason_of, stale_reads
from harness.simulating.timed import WORKLOAD, TimedRun
from harness.simulating.timed_calls import TimedCalls
from nodes.simulation.schedule import Player


def screen_timed(run: TimedRun) -> Screened:
    """Simulate and screen one run, of a system that has no play of its own."""
    kind, version = plugins.system(run.system)
    assert kind.simulate is not None
    scheduled, history, exits = run.scheduled(), list[Op](), list[Observation]()

    def record(op: Op) -> Op:
        row = op.at(len(history), cluster.now_ms * 1_000_000)
        history.append(row)
        return row

    def observe(observation: Observation) -> None:
        if observation.kind == "exited":
            exits.append(observation)

    cluster = kind.simulate(version, scheduled.spec, observe)
    try:
        calls = TimedCalls(cluster, record)
        player = Player(cluster, run.nodes, lambda _command, _nodes: None, calls.of)
        for at_ms in player.play(scheduled.schedule):
            while cluster.now_ms < at_ms:
                cluster.advance(at_ms)
        calls.abandon()
        broken = [(violation.invariant, violation.message) for violation in cluster.violations]
        reason = reason_of(broken, bool(exits), player.unrecovered)
        if reason is None and kind.clients[WORKLOAD].check == REGISTER and any(True for _ in stale_reads(history)):
            reason = STALE_READ
        return Screened(run.seed, reason, cluster.digest(), cluster.now_ms, calls.count)
    finally:
        cluster.close()
