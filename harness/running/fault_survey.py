"""Which faults can be had on a kind of host here: brings two hosts up, asks every fault, and takes the hosts down.

    python -m harness.running.fault_survey results/…/survey
    (started by harness.running.fault_trials, never by hand)

Prints one JSON line: each action, and why it cannot be had, or null.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from harness.engine.clock import RunClock
from harness.environments.provision import provisioned
from harness.model import SplitbrainError
from harness.planning.node_configs import ReconfigurableSystem, RunNodeConfigs
from harness.planning.plan import Plan
from harness.planning.systems import build
from harness.running.controller import nemesis_context
from nemesis.journal import UndoJournal
from nemesis.registry import BY_ACTION
from results.store import RunDirectory


def main() -> None:
    """Survey the hosts of the plan in the directory that the command line names."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    plan = Plan.read(run.plan)
    try:
        reasons = asyncio.run(reasons_on(plan, run))
    except SplitbrainError as error:
        reasons = dict.fromkeys(BY_ACTION, str(error))
    print(json.dumps(reasons))


async def reasons_on(plan: Plan, run: RunDirectory) -> dict[str, str | None]:
    """Why each action cannot be had on the plan's hosts; None where it can. Raises EnvironmentFailure without hosts."""
    journal = UndoJournal(run.journal)
    async with provisioned(plan, run, build(plan), RunClock.started_now(), journal) as environment:
        processes = environment.processes(build(plan), lambda *_: None)
        context = nemesis_context(plan, environment, processes, lambda: None)
        context.node_configs = RunNodeConfigs(ReconfigurableSystem(plan), environment)
        return {action: fault.missing(context, action) for action, fault in BY_ACTION.items()}


if __name__ == "__main__":
    main()
