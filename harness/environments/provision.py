"""Brings up the hosts that a plan names, and takes down those that outlived their controller.

    async with provisioned(plan, run, system, clock, journal) as environment:
        environment.processes(system, tell)      # and links, clocks, packets, disks, rpcs, or why there are none

Namespace hosts end with their sandbox, and local ones with the controller, whose children they are; containers and
machines are on their own, and so are cgroups: they are in the journal before the first is there, and a guardian
(harness.running.controller_process starts it) undoes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from typing import cast

from harness.engine.clock import RunClock
from harness.environments import Environment, EnvironmentModule, EnvironmentSpec
from harness.model.hosts import HostKind, UndoRecord
from harness.model.systems import System
from harness.planning.plan import Plan
from harness.recovery.teardown import HOSTS
from nemesis.journal import UndoJournal
from nodes.proxy.rpcs import Recording
from results.store import RunDirectory

OUTLIVING: tuple[HostKind, ...] = ("docker", "ssh")


def outlives(plan: Plan) -> bool:
    """Whether anything of the plan's hosts may be there after their controller: machines, containers, cgroups."""
    return plan.hosts in OUTLIVING or plan.memory_mib is not None or plan.cpus is not None


@asynccontextmanager
async def provisioned(
    plan: Plan, run: RunDirectory, system: System, clock: RunClock, journal: UndoJournal
) -> AsyncIterator[Environment]:
    """Bring up the plan's hosts; they are gone at the end of the block."""
    spec = EnvironmentSpec(plan, run, system, Recording(run.rpc_record, clock.monotonic_origin_ns))
    async with AsyncExitStack() as stack:
        if outlives(plan):
            details = {"label": run.label, "inventory": plan.inventory or ""}
            stack.enter_context(_written_down(journal, UndoRecord(HOSTS, plan.hosts, details)))
        environment = cast(EnvironmentModule, import_module(f"harness.environments.{plan.hosts}"))
        yield await environment.up(stack, spec)


@contextmanager
def _written_down(journal: UndoJournal, undo: UndoRecord) -> Iterator[None]:
    entry = journal.record(undo)
    yield
    journal.healed(entry)
