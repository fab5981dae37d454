"""Provisions the hosts that a plan names, and removes those that outlived their controller.

    async with provisioned(plan, run, system, clock, journal) as environment:
        environment.processes(system, on_event)      # and links, clocks, packets, disks, rpcs, or why they are missing

Namespace hosts end with their sandbox, and local ones with the controller, whose children they are. Containers,
machines and cgroups do not: the journal names them before the first exists, and a watchdog
(harness.recovery.watchdog) undoes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from harness import plugins
from harness.engine.clock import RunClock
from harness.environments import Environment, EnvironmentSpec
from harness.model.hosts import UndoRecord
from harness.model.systems import NodeSystem
from harness.planning.plan import Plan
from harness.planning.preflight import require_hosts
from harness.recovery.teardown import HOSTS
from nemesis.journal import UndoJournal
from nodes.proxy.rpcs import Recording
from results.store import RunDirectory


def outlives(plan: Plan) -> bool:
    """Whether anything of the plan's hosts may remain after its controller: machines, containers, cgroups."""
    return plugins.host_kind(plan.hosts).outlives or plan.memory_mib is not None or plan.cpus is not None


@asynccontextmanager
async def provisioned(
    plan: Plan, run: RunDirectory, system: NodeSystem, clock: RunClock, journal: UndoJournal
) -> AsyncIterator[Environment]:
    """Provision the plan's hosts; they are gone at the end of the block. Raises BadInput as require_hosts does."""
    require_hosts(plan)
    spec = EnvironmentSpec(plan, run, system, Recording(run.rpc_record, clock.monotonic_origin_ns))
    async with AsyncExitStack() as stack:
        if outlives(plan):
            details = {"label": run.label, "inventory": plan.inventory or ""}
            stack.enter_context(_recorded(journal, UndoRecord(HOSTS, plan.hosts, details)))
        yield await plugins.host_kind(plan.hosts).provision(stack, spec)


@contextmanager
def _recorded(journal: UndoJournal, undo: UndoRecord) -> Iterator[None]:
    entry = journal.record(undo)
    yield
    journal.healed(entry)
