"""Finds which faults are available on a kind of host: provisions its hosts, asks every fault, and removes the hosts.

    python -P -m harness.running.fault_survey results/…/survey      (started by harness.running.fault_trials only)

Prints one JSON line: each action, and why it is unavailable, or null.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from harness import plugins
from harness.engine.clock import RunClock
from harness.environments.provision import provisioned
from harness.model import SplitbrainError
from harness.planning.plan import Plan
from harness.running.controller import capabilities_of_system, nemesis_context
from harness.simulating.simulation import unavailable_actions
from harness.systems.cluster import Cluster, ClusterConfigs
from nemesis.journal import UndoJournal
from results.store import RunDirectory


def main() -> None:
    """Survey the hosts of the plan in the directory that the command line names."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    plan = Plan.read(run.plan)
    try:
        is_simulated = plugins.host_kind(plan.hosts).simulated
        reasons = unavailable_actions(plan) if is_simulated else asyncio.run(reasons_on(plan, run))
    except SplitbrainError as error:
        reasons = dict.fromkeys(plugins.actions(), str(error))
    print(json.dumps(reasons))


async def reasons_on(plan: Plan, run: RunDirectory) -> dict[str, str | None]:
    """Why each action is unavailable on the plan's hosts, None where it is available. Raises EnvironmentFailure."""
    journal = UndoJournal(run.journal)
    cluster = Cluster(plan)
    async with provisioned(plan, run, cluster, RunClock.started_now(), journal) as environment:
        processes = environment.processes(cluster, lambda *_: None)
        context = nemesis_context(plan, environment, processes, lambda: None)
        context.node_configs = ClusterConfigs(cluster, environment.host, environment.views)
        async with capabilities_of_system(context, cluster, environment.views):
            return {action: fault.unavailable(context, action) for action, fault in plugins.actions().items()}


if __name__ == "__main__":
    main()
