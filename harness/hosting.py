"""Brings up the hosts that a plan names, and takes down those that outlived their controller.

    async with hosting(plan, run, system, clock, journal) as ground:
        ground.processes(system, tell)      # and links, clocks, packets, disks, rpcs, or why there are none

Namespace hosts end with their sandbox, and local ones with the controller, whose children they are; containers and
machines are on their own: they are in the journal, and watched over by a guardian, before the first is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from typing import cast

from harness.engine.clock import RunClock
from harness.grounds import Ground, GroundModule, Setting
from harness.guardian import guarded
from harness.model.hosts import HostKind, UndoRecord
from harness.model.systems import System
from harness.plan import Plan
from harness.undoing import HOSTS
from nemesis.journal import UndoJournal
from nodes.proxy.rpcs import Recording
from results.store import RunDirectory

OUTLIVING: tuple[HostKind, ...] = ("docker", "ssh")


@asynccontextmanager
async def hosting(
    plan: Plan, run: RunDirectory, system: System, clock: RunClock, journal: UndoJournal
) -> AsyncIterator[Ground]:
    """Bring up the plan's hosts; they are gone at the end of the block."""
    setting = Setting(plan, run, system, Recording(run.rpc_record, clock.monotonic_origin_ns))
    async with AsyncExitStack() as stack:
        if plan.hosts in OUTLIVING:
            details = {"label": run.label, "inventory": plan.inventory or ""}
            stack.enter_context(_watched_over(journal, UndoRecord(HOSTS, plan.hosts, details), run))
        ground = cast(GroundModule, import_module(f"harness.grounds.{plan.hosts}"))
        yield await ground.up(stack, setting)


@contextmanager
def _watched_over(journal: UndoJournal, undo: UndoRecord, run: RunDirectory) -> Iterator[None]:
    entry = journal.record(undo)
    with guarded(run):
        yield
        journal.healed(entry)
