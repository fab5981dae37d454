"""The controller of one run: it provisions hosts, starts the system, observers, nemesis and clients, and records.

    python -P -m harness.running.controller results/runs/20261121T051700Z-…
    (started by harness.running.controller_process only)

It runs where its hosts are, reads plan.json, carries the plan out and writes the tables. What happens goes to standard
output as the JSON lines of harness.model.progress; the last one is RunEnded or RunFailed. When standard input ends, the
command that started the controller is gone or wants it to stop: the controller then ends the run in good order, with
everything recorded.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from harness import plugins
from harness.engine.clock import RunClock
from harness.engine.interpreter import interpret
from harness.engine.recorder import Recorder
from harness.environments import Environment
from harness.environments.provision import provisioned
from harness.model import Observation, SplitbrainError
from harness.model.hosts import HostView
from harness.model.layouts import CONTROLLER_PORT
from harness.model.progress import Event, Phase, RunEnded, RunFailed
from harness.model.session import Connection, Session
from harness.model.systems import NodeAccess, NodeSystem, Observer, ObserverContext
from harness.planning.plan import Plan
from harness.planning.workloads import access_of, generator_of, workload_of
from harness.running.capabilities import offered
from harness.running.collect import collect_logs, collect_rpcs
from harness.running.event_lines import to_line
from harness.running.progress import RunProgress
from harness.simulating.simulated import simulate
from harness.simulating.storing import store_tables
from harness.systems.cluster import Cluster, ClusterConfigs, label_of
from nemesis.context import NemesisContext
from nemesis.journal import UndoJournal
from nemesis.session import NemesisSession, refuse_unavailable
from nodes.hosts.processes import ServerProcesses
from nodes.observe.last_error import last_error, size_of
from nodes.observe.quorum_state import read_quorum_state
from results.store import RunDirectory
from workloads.workload import ClusterAccess


def main() -> None:
    """Carry out the plan in the run directory that the command line names."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    try:
        plan = Plan.read(run.plan)
        if plugins.host_kind(plan.hosts).simulated:
            report(Phase(f"simulating {label_of(plan)}", "start"))
            store_tables(simulate(plan, observes=True), run)
        else:
            asyncio.run(carry_out_plan(plan, run))
    except SplitbrainError as error:
        report(RunFailed(str(error), error.exit_code))
        sys.exit(error.exit_code)
    report(RunEnded())


def report(event: Event) -> None:
    """One JSON line for the command that started the run."""
    print(to_line(event), flush=True)


async def carry_out_plan(plan: Plan, run: RunDirectory) -> None:
    """Carry out a plan, recording into the run's directory."""
    clock = RunClock.started_now()
    cluster = Cluster(plan)
    stop = asyncio.Event()
    stopper = asyncio.create_task(_until_input_ends(stop))
    try:
        with Recorder(run.path, clock) as recorder:
            await _carry_out(plan, run, cluster, clock, RunProgress(recorder, plugins.ops(), report), stop)
    finally:
        stopper.cancel()


async def _carry_out(
    plan: Plan, run: RunDirectory, cluster: Cluster, clock: RunClock, recorder: RunProgress, stop: asyncio.Event
) -> None:
    async with AsyncExitStack() as stack:
        report(Phase(f"provisioning {plan.nodes} hosts", "start"))
        journal = UndoJournal(run.journal)
        environment = await stack.enter_async_context(provisioned(plan, run, cluster, clock, journal))
        report(Phase(f"preparing {cluster.label}"))
        views = environment.views
        await asyncio.gather(*(cluster.prepare(environment.host(node), views) for node in views))
        # The stack unwinds in reverse order: the servers have ended when their logs are read.
        stack.callback(collect_logs, views, cluster, run)
        stack.callback(collect_rpcs, run)
        stack.push_async_callback(environment.collect)
        observer = _observer(cluster, environment, clock, recorder)
        processes = await stack.enter_async_context(_processes(environment, cluster, clock, recorder, observer.forget))
        await stack.enter_async_context(_running(observer))
        context = nemesis_context(plan, environment, processes, observer.leader)
        context.node_configs = ClusterConfigs(cluster, environment.host, views)
        await stack.enter_async_context(capabilities_of_system(context, cluster, views))
        refuse_unavailable((step.f for step in plan.story), context, plugins.actions())
        context.nodes_where = observer.nodes_where
        nemesis = NemesisSession(context, journal, observer.until, plugins.faults())
        report(Phase(f"starting {cluster.label}"))
        for node in views:
            if node not in plan.not_started:
                await processes.start(node)
        async with _background(recorder.report_regularly(observer.leader, stop)):
            await _interpret(cluster, environment, nemesis, clock, recorder, stop)
        recorder.report_operations()
        report(Phase("stopping the servers and collecting their logs", "collection"))


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do this until the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _observer(cluster: Cluster, environment: Environment, clock: RunClock, recorder: RunProgress) -> Observer:
    files = {node: cluster.files(view) for node, view in environment.views.items()}
    return cluster.kind.observe(
        ObserverContext(cluster.spec, environment.views, files, clock.now_ns, clock.wall_origin_ns, recorder.observe)
    )


@asynccontextmanager
async def capabilities_of_system(
    context: NemesisContext, cluster: Cluster, views: Mapping[int, HostView]
) -> AsyncIterator[None]:
    """Give the nemesis what the plan's system offers, until the end of the block. It connects at first use."""
    files = {node: cluster.files(view) for node, view in views.items()}
    system, version = plugins.system(cluster.plan.system)

    def connect_to(node: int, port: int, client_id: str) -> Connection:
        assert system.connect is not None, f"{system.name} has no connections of its own"
        return system.connect(views[node].bound, port, client_id)

    def stored_epoch(node: int) -> int | None:
        path = files[node].quorum_state
        state = read_quorum_state(path) if path else None
        return state.epoch if state else None

    access = NodeAccess(cluster.spec, views, context.leader, connect_to, stored_epoch, version)
    async with offered(system, access, context):
        yield


@asynccontextmanager
async def _processes(
    environment: Environment, system: NodeSystem, clock: RunClock, recorder: RunProgress, forget: Callable[[int], None]
) -> AsyncIterator[ServerProcesses]:
    begins: dict[int, int] = {}

    def on_event(node: int, kind: Literal["started", "stopped", "exited"], how: str) -> None:
        log = system.files(environment.views[node]).log
        if kind == "started":
            begins[node] = size_of(log)
        cause = last_error(log, begins[node]) if kind == "exited" else None
        detail = f"{how}: {cause}" if cause else how or None
        recorder.observe(Observation(clock.now_ns(), node, "process", kind, detail=detail))
        forget(node)

    processes = environment.processes(system, on_event)
    try:
        yield processes
    finally:
        await processes.kill_all()


@asynccontextmanager
async def _running(observer: Observer) -> AsyncIterator[None]:
    observer.start()
    try:
        yield
    finally:
        await observer.stop()


def nemesis_context(
    plan: Plan, environment: Environment, processes: ServerProcesses, leader: Callable[[], int | None]
) -> NemesisContext:
    """The environment as the nemesis sees it."""
    system, _ = plugins.system(plan.system)
    return NemesisContext(
        tuple(range(1, plan.nodes + 1)),
        environment.links,
        processes,
        leader,
        random.Random(f"nemesis {plan.seed}").randrange,
        clocks=environment.clocks(processes) if environment.clocks else None,
        rpcs=environment.rpcs,
        packets=environment.packets,
        disks=environment.disks,
        floor=plan.floor,
        unavailable={**environment.unavailable, **system.reasons(plan.layout, plan.voters, plan.switches)},
        metadata_log=system.metadata_log,
    )


async def _interpret(
    cluster: Cluster,
    environment: Environment,
    nemesis: NemesisSession,
    clock: RunClock,
    recorder: RunProgress,
    stop: asyncio.Event,
) -> None:
    """Run the plan's generator; the faults are healed in any case."""
    plan = cluster.plan
    workload = workload_of(plan)

    async def open_session(process: int) -> Session:
        assert workload.make_session is not None
        access = _access(cluster, environment, f"splitbrain-{process}")
        return workload.make_session(access_of(plan, access, process), process)

    try:
        if workload.prepare is not None:
            report(Phase(f"preparing the workload {workload.name}"))
            await workload.prepare(_access(cluster, environment, "splitbrain-prepare"))
        report(Phase("waiting for the cluster"))
        await interpret(
            generator_of(plan, workload),
            concurrency=plan.concurrency,
            open_session=open_session,
            nemesis=nemesis,
            recorder=recorder,
            clock=clock,
            stop=stop,
        )
    finally:
        await nemesis.close()


def _access(cluster: Cluster, environment: Environment, client_id: str) -> ClusterAccess:
    """The addresses and connections by which a workload's client reaches the nodes."""
    system = cluster.kind

    def connect(node: int, port: int) -> Connection:
        assert system.connect is not None, f"{system.name} has no connections of its own; its workloads dial addresses"
        return system.connect(environment.views[node].bound, port, client_id)

    return ClusterAccess(
        lambda node: connect(node, CONTROLLER_PORT),
        system.controllers(cluster.spec),
        {node: environment.views[node].address for node in system.serving(cluster.spec)},
        lambda node: connect(node, system.client_port),
        {node: environment.views[node].address for node in system.controllers(cluster.spec)},
    )


async def _until_input_ends(stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stop.set()


if __name__ == "__main__":
    main()
