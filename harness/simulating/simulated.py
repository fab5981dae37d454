"""Simulates a plan: timed runs as they are scheduled, all others as on real hosts.

    outcome = simulate(plan)
    outcome.violations, outcome.history, outcome.observations

Contains the choice between the two. Does not contain how either is carried out.
"""

from __future__ import annotations

from harness.planning.plan import Plan
from harness.planning.preflight import require_simulation
from harness.simulating.simulation import Outcome, Simulation
from harness.simulating.timed_simulation import TimedSimulation


def simulate(plan: Plan, *, observes: bool = False) -> Outcome:
    """Carry a plan out under virtual time, until its end or a broken invariant other than NO_SPIN.

    observes: record what the observers of real nodes do, too: the leaders' answers to DescribeQuorum, and the logs at
    the end; and go on after a broken invariant, unless the run is timed. Without it a run takes less time, and is
    otherwise the same. Raises BadInput for what simulated nodes do not support.
    """
    require_simulation(plan)
    return (TimedSimulation if plan.timed else Simulation)(plan, observes).run()
