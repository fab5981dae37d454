"""The controller of one run, where its hosts are: hosts, system, watchers, nemesis, clients, recorder, in this order.

    python -m harness.running.controller results/runs/20261121T051700Z-…
    (started by harness.running.controller_process, never by hand)

It reads plan.json, carries the plan out and leaves the tables. What it is doing goes to standard output as JSON lines,
`{"doing": …}`; the last line is `{"done": …}` or `{"failed": …, "exit_code": …}`. When standard input ends, whoever
started it is gone or wants it to stop: it ends the run in good order, with everything recorded.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.engine.clock import RunClock
from harness.engine.interpreter import Tally, interpret
from harness.engine.recorder import Recorder
from harness.environments import Environment
from harness.environments.provision import provisioned
from harness.model import Observation, SplitbrainError
from harness.model.session import Session
from harness.model.systems import System
from harness.planning.node_configs import ReconfigurableSystem, RunNodeConfigs
from harness.planning.plan import Plan
from harness.planning.workloads import generator_of, workload_of
from harness.running.collect import collect_logs, collect_rpcs
from nemesis.context import NemesisContext
from nemesis.faults.membership import VOTERS
from nemesis.journal import UndoJournal
from nemesis.session import NemesisSession, refuse_unavailable
from nodes.clocks.line_times import LineTimes
from nodes.hosts.processes import ServerProcesses
from nodes.kafka.configuration import CLIENT_PORT
from nodes.kafka.membership import KafkaMembership
from nodes.observe.watch import QuorumWatch
from results.store import RunDirectory
from workloads.workload import ClusterAccess

NO_BROKERS = "only a Kafka whose nodes are brokers too has members that change; use --layout combined"
STATIC = "the voters of a static quorum never change; use --voters N with Kafka 3.9 or later (KIP-853)"


def main() -> None:
    """Carry out the plan of the run directory that the command line names."""
    run = RunDirectory(Path(sys.argv[1]).absolute())
    try:
        tally = asyncio.run(run_plan(Plan.read(run.plan), run))
    except SplitbrainError as error:
        tell(failed=str(error), exit_code=error.exit_code)
        sys.exit(error.exit_code)
    tell(done=asdict(tally))


def tell(**line: Any) -> None:
    """One JSON line for whoever started the run."""
    print(json.dumps(line), flush=True)


async def run_plan(plan: Plan, run: RunDirectory) -> Tally:
    """Carry out a plan, recording into the run's directory."""
    clock = RunClock.started_now()
    system = ReconfigurableSystem(plan)
    stop = asyncio.Event()
    stopper = asyncio.create_task(_until_input_ends(stop))
    try:
        with Recorder(run.path, clock) as recorder:
            return await _run_plan(plan, run, system, clock, recorder, stop)
    finally:
        stopper.cancel()


async def _run_plan(
    plan: Plan,
    run: RunDirectory,
    system: ReconfigurableSystem,
    clock: RunClock,
    recorder: Recorder,
    stop: asyncio.Event,
) -> Tally:
    async with AsyncExitStack() as stack:
        tell(doing=f"making {plan.nodes} hosts")
        journal = UndoJournal(run.journal)
        environment = await stack.enter_async_context(provisioned(plan, run, system, clock, journal))
        tell(doing=f"preparing {system.label}")
        await asyncio.gather(*(system.prepare(environment.host(node), environment.views) for node in environment.views))
        # What is entered after this is left before it: the servers have ended when their logs are read.
        stack.callback(collect_logs, environment.views, system, run)
        stack.callback(collect_rpcs, run)
        stack.push_async_callback(environment.collect)
        line_times = LineTimes(clock.now_ns, recorder.observe)
        watch = QuorumWatch(clock.now_ns, clock.wall_origin_ns, line_times.observe)
        processes = await stack.enter_async_context(_processes(environment, system, clock, recorder, watch.forget))
        await stack.enter_async_context(_watching(watch, environment, system))
        context = nemesis_context(plan, environment, processes, lambda: watch.view().leader())
        context.node_configs = RunNodeConfigs(system, environment)
        context.membership = await stack.enter_async_context(_membership(plan, environment, watch))
        refuse_unavailable((step.f for step in plan.story), context)
        nemesis = NemesisSession(context, journal, watch.until)
        tell(doing=f"starting {system.label}")
        for node in environment.views:
            await processes.start(node)
        tell(doing="running")
        return await _interpret(plan, environment, nemesis, clock, recorder, stop)


@asynccontextmanager
async def _processes(
    environment: Environment, system: System, clock: RunClock, recorder: Recorder, forget: Callable[[int], None]
) -> AsyncIterator[ServerProcesses]:
    def on_event(node: int, kind: str, how: str) -> None:
        assert kind in ("started", "stopped")
        kinds: dict[str, Any] = {"started": "started", "stopped": "stopped"}
        recorder.observe(Observation(clock.now_ns(), node, "process", kinds[kind], detail=how or None))
        forget(node)

    processes = environment.processes(system, on_event)
    try:
        yield processes
    finally:
        await processes.kill_all()


@asynccontextmanager
async def _watching(watch: QuorumWatch, environment: Environment, system: System) -> AsyncIterator[None]:
    connections = {node: environment.connect(node, "splitbrain-watch") for node in environment.views}
    watch.start({node: system.files(view) for node, view in environment.views.items()}, connections)
    try:
        yield
    finally:
        await watch.stop()
        for connection in connections.values():
            await connection.close()


@asynccontextmanager
async def _membership(
    plan: Plan, environment: Environment, watch: QuorumWatch
) -> AsyncIterator[KafkaMembership | None]:
    """Who can change the members of a quorum that has brokers; None where it has none."""
    if plan.layout != "combined":
        yield None
        return
    addresses = {node: view.address for node, view in environment.views.items()}
    membership = KafkaMembership(addresses, environment.connect, lambda: watch.view().leader())
    try:
        yield membership
    finally:
        await membership.close()


def nemesis_context(
    plan: Plan, environment: Environment, processes: ServerProcesses, leader: Callable[[], int | None]
) -> NemesisContext:
    """The environment as its nemesis sees it."""
    drawn = random.Random(f"nemesis {plan.seed}")
    return NemesisContext(
        tuple(range(1, plan.nodes + 1)),
        environment.links,
        processes,
        leader,
        drawn.randrange,
        clocks=environment.clocks(processes) if environment.clocks else None,
        rpcs=environment.rpcs,
        packets=environment.packets,
        disks=environment.disks,
        floor=plan.floor,
        unavailable={
            "membership": NO_BROKERS,
            **({VOTERS: STATIC} if plan.voters is None else {}),
            **environment.unavailable,
        },
    )


async def _interpret(
    plan: Plan,
    environment: Environment,
    nemesis: NemesisSession,
    clock: RunClock,
    recorder: Recorder,
    stop: asyncio.Event,
) -> Tally:
    """Run the plan's generator; the faults are healed whatever happens."""
    workload = workload_of(plan)

    async def open_session(process: int) -> Session:
        assert workload.make_session is not None
        return workload.make_session(_cluster_access(environment, f"splitbrain-{process}"), process)

    try:
        if workload.prepare is not None:
            tell(doing=f"preparing workload {workload.name}")
            await workload.prepare(_cluster_access(environment, "splitbrain-prepares"))
            tell(doing="running")
        return await interpret(
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


def _cluster_access(environment: Environment, client_id: str) -> ClusterAccess:
    addresses = {node: view.address for node, view in environment.views.items()}
    return ClusterAccess(
        lambda node: environment.connect(node, client_id),
        addresses,
        lambda node: environment.connect(node, client_id, CLIENT_PORT),
    )


async def _until_input_ends(stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stop.set()


if __name__ == "__main__":
    main()
