"""Carries out one plan on simulated nodes: the same story, faults, load and observations, under virtual time.

    outcome = Simulation(plan, observes=True).run()

Contains what harness.running.controller does on real hosts. Does not contain the nodes, or where rows are stored.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import plugins
from harness.engine.interpreter import Tally, interpret
from harness.model import Observation, Op
from harness.model.hosts import HostView, UndoRecord
from harness.model.session import Connection, Session
from harness.model.systems import NodeAccess
from harness.planning.plan import Plan
from harness.planning.workloads import access_of, generator_of, workload_of
from harness.running.capabilities import offered
from harness.simulating import requests
from harness.simulating.releases import later_versions
from harness.simulating.requests import SimulatedRequests
from harness.systems.cluster import Cluster, seats_of
from harness.systems.kraft import cluster_id
from nemesis.context import NemesisContext
from nemesis.session import NemesisSession, refuse_unavailable
from nodes.simulation.cluster import SimulatedCluster, SimulationSpec, Violation
from nodes.simulation.hosts import (
    SimulatedConfigs,
    SimulatedConnection,
    SimulatedDisks,
    SimulatedLinks,
    SimulatedProcesses,
    SimulatedRpcs,
)
from nodes.simulation.loop import virtual_loop
from nodes.simulation.observer import SimulatedObserver
from nodes.simulation.schedule import NO_SPIN
from workloads.workload import ClusterAccess, Workload

UNAVAILABLE: Mapping[str, str] = {
    "clocks": "simulated nodes have true clocks",
    "packets": "simulated links carry messages, not packets",
    "run_tool": "tools need sockets, which simulated nodes do not have",
    **requests.UNAVAILABLE,
}
"""The capabilities that simulated hosts lack."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulated run showed: the broken invariants, the rows of its tables, and how much time it covered.

    digest is a hash of all events; equal runs have equal ones. logs are the nodes' logs at the end, if they were
    recorded.
    """

    plan: Plan
    violations: Sequence[Violation]
    tally: Tally
    virtual_ms: int
    digest: str
    history: Sequence[Op]
    observations: Sequence[Observation]
    logs: Mapping[int, bytes]


class SimulatedClock:
    """harness.engine.clock.Clock of a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def now_ns(self) -> int:
        """Virtual time since the beginning."""
        return self._cluster.now_ms * 1_000_000


class _NoJournal:
    """The undo journal of hosts that end with the run."""

    def record(self, _undo: UndoRecord) -> int:
        return 0

    def healed(self, _identifier: int) -> None:
        pass


def unavailable_actions(plan: Plan) -> dict[str, str | None]:
    """Why each action is unavailable on simulated nodes, None where it is available."""
    return asyncio.run(Simulation(plan, observes=False).unavailable_actions())


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan, observes: bool) -> None:
        self._plan, self._observes = plan, observes
        self._history: list[Op] = []
        self._observations: list[Observation] = []
        self._numbers = tuple(range(1, plan.nodes + 1))
        kind, version = plugins.system(plan.system)
        assert kind.simulate is not None
        seats = seats_of(plan)
        spec = SimulationSpec(
            plan.seed,
            plan.nodes,
            plan.voters,
            cluster_id(plan.seed),
            {node: own for node, (_, _, own) in seats.items()},
            versions={node: other for node, (_, other, _) in seats.items() if other != version},
            later_versions=later_versions(plan.system, plan.story),
        )
        self._cluster = kind.simulate(version, spec, self._reported)
        self._kind = kind
        self._stop = asyncio.Event()
        self._observer = SimulatedObserver(self._cluster, self._numbers, self._observed, observes)
        self._processes = SimulatedProcesses(self._cluster, self._numbers, self._process_event)

    def run(self) -> Outcome:
        try:
            with virtual_loop(self._cluster) as loop:
                tally = loop.run_until_complete(self._carry_out())
            cluster = self._cluster
            logs = {node: cluster.log(node) for node in self._numbers} if self._observes else {}
            rows = (self._history, self._observations, logs)
            return Outcome(self._plan, tuple(cluster.violations), tally, cluster.now_ms, cluster.digest(), *rows)
        finally:
            self._cluster.close()

    async def _carry_out(self) -> Tally:
        context = self._context()
        async with offered(self._kind, self._access(), context):
            context.requests = SimulatedRequests(self._cluster)
            refuse_unavailable((step.f for step in self._plan.story), context, plugins.actions())
            self._observer.start()
            try:
                for node in self._numbers:
                    if node not in self._plan.not_started:
                        await self._processes.start(node)
                return await self._interpret(context)
            finally:
                await self._observer.stop()
                for node in self._numbers:
                    await self._processes.kill(node)

    async def _interpret(self, context: NemesisContext) -> Tally:
        workload = workload_of(self._plan)
        nemesis = NemesisSession(context, _NoJournal(), self._observer.until, plugins.faults())
        try:
            return await interpret(
                generator_of(self._plan, workload),
                concurrency=self._plan.concurrency,
                open_session=lambda process: self._open_session(workload, process),
                nemesis=nemesis,
                recorder=self,
                clock=SimulatedClock(self._cluster),
                stop=self._stop,
            )
        finally:
            if not self._stop.is_set():
                await nemesis.close()

    async def unavailable_actions(self) -> dict[str, str | None]:
        """Why each action is unavailable, None where it is available."""
        context = self._context()
        async with offered(self._kind, self._access(), context):
            return {action: fault.unavailable(context, action) for action, fault in plugins.actions().items()}

    def _access(self) -> NodeAccess:
        """How the system's own capabilities reach the nodes."""
        plan, cluster = self._plan, self._cluster
        views = {node: HostView(node, f"n{node}", f"n{node}", Path(f"n{node}")) for node in self._numbers}

        def connect(node: int, _port: int, _client_id: str) -> Connection:
            return SimulatedConnection(cluster, node)

        def stored_epoch(node: int) -> int | None:
            status = cluster.status(node)
            return None if status is None else status.epoch

        _, version = plugins.system(plan.system)
        return NodeAccess(Cluster(plan).spec, views, self._observer.leader, connect, stored_epoch, version)

    async def _open_session(self, workload: Workload, process: int) -> Session:
        assert workload.make_session is not None

        def connect(node: int) -> Connection:
            return SimulatedConnection(self._cluster, node)

        addresses = {node: f"n{node}" for node in self._numbers}
        access = ClusterAccess(connect, self._numbers, {}, connect, controller_addresses=addresses)
        return workload.make_session(access_of(self._plan, access, process), process)

    def _context(self) -> NemesisContext:
        plan, cluster = self._plan, self._cluster
        return NemesisContext(
            self._numbers,
            SimulatedLinks(cluster),
            self._processes,
            self._observer.leader,
            random.Random(f"nemesis {plan.seed}").randrange,
            rpcs=SimulatedRpcs(cluster),
            disks=SimulatedDisks(cluster),
            node_configs=SimulatedConfigs(cluster),
            unavailable={**self._kind.reasons(plan.layout, plan.voters, plan.switches), **UNAVAILABLE},
            nodes_where=self._observer.nodes_where,
            floor=plan.floor,
            metadata_log=self._kind.metadata_log,
        )

    def record(self, op: Op) -> Op:
        """Keep a row of the history; a broken invariant ends the run."""
        self._stop_if_broken()
        row = op.at(len(self._history), self._cluster.now_ms * 1_000_000)
        self._history.append(row)
        return row

    def _reported(self, observation: Observation) -> None:
        """The cluster reports something."""
        if observation.kind == "exited":
            self._processes.exited(observation.node)
            self._observer.forget(observation.node)
        self._observer.reported(observation)

    def _stop_if_broken(self) -> None:
        """What is recorded goes on: a finding may follow from the broken invariant."""
        if not self._observes and any(each.invariant != NO_SPIN for each in self._cluster.violations):
            self._stop.set()

    def _observed(self, observation: Observation) -> None:
        self._stop_if_broken()
        self._observations.append(observation)

    def _process_event(self, node: int, kind: str, how: str) -> None:
        assert kind in ("started", "stopped")
        now_ns = self._cluster.now_ms * 1_000_000
        self._observer.forget(node)
        self._observed(Observation(now_ns, node, "process", kind, detail=how or None))  # type: ignore[arg-type]
