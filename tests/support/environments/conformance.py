"""Conformance script for a kind of host: starts a reference quorum, injects and heals faults, and ends it.

    python conformance.py KIND DIRECTORY [INVENTORY]      (started by tests/harness/environments/test_environments.py)

Prints what it observed as one JSON line. The test expects the same observations for every kind of host.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

from harness.engine.clock import RunClock
from harness.environments import Environment
from harness.environments.provision import provisioned
from harness.model import Observation
from harness.model.conditions import ALL_FOLLOW_LEADER
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.layouts import CONTROLLER_PORT
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.systems.cluster import Cluster
from harness.systems.kraft import connect
from nemesis.journal import UndoJournal
from nodes.hosts.processes import ServerProcesses
from nodes.observe.watch import QuorumWatch
from results.store import RunDirectory

SECONDS = 30.0
EVERY_LINK = list(permutations((1, 2, 3), 2))
NO_VOTES = intercept(RpcRule("no votes", RpcMatch((Api.VOTE,), sources=(1,)), DROP))


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"waiting until {what}"
        await asyncio.sleep(0.01)


async def run_script(plan: Plan, run: RunDirectory) -> dict[str, Any]:
    """Provision the hosts, use every capability once, and return what was observed."""
    clock, system, journal = RunClock.started_now(), Cluster(plan), UndoJournal(run.journal)
    events: list[list[Any]] = []
    observed: list[Observation] = []
    async with provisioned(plan, run, system, clock, journal) as environment:
        files = await _files(environment, run.path)
        await asyncio.gather(*(system.prepare(environment.host(node), environment.views) for node in environment.views))
        processes = environment.processes(system, lambda node, kind, how: events.append([node, kind, how]))
        connections = {
            node: connect(view.bound, CONTROLLER_PORT, "conformance") for node, view in environment.views.items()
        }
        node_files = {node: system.files(view) for node, view in environment.views.items()}
        watch = QuorumWatch(clock.now_ns, clock.wall_origin_ns, observed.append, node_files, connections)
        watch.start()
        try:
            result = await _processes(environment, processes, watch) | await _faults(environment, processes)
            return {**result, "files": files, "events": events, "transitions": _transitions(observed)}
        finally:
            await processes.kill_all()
            await watch.stop()
            await environment.collect()


async def _files(environment: Environment, scratch: Path) -> dict[str, str]:
    """Write a file, copy a folder to the host and back, and run commands."""
    host = environment.host(1)
    directory = host.view.directory
    await host.write(directory / "a folder" / "it's.txt", "written\n")
    source = scratch / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "bytes").write_bytes(bytes(range(256)) * 400)
    await host.put(source, directory / "copied")
    await host.get(directory / "copied", scratch / "copied back")
    return {
        "read": await host.run(["cat", str(directory / "a folder" / "it's.txt")]),
        "quoted": await host.run(["printf", "%s", "$(id); `id` 'x' \"y\""]),
        "same": str((scratch / "copied back" / "inner" / "bytes").read_bytes() == bytes(range(256)) * 400),
    }


async def _processes(environment: Environment, processes: ServerProcesses, watch: QuorumWatch) -> dict[str, Any]:
    """Start, kill, pause, resume and stop: the process state that the host's kernel reports after each."""
    for node in environment.views:
        await processes.start(node)
    assert await watch.until(ALL_FOLLOW_LEADER, SECONDS)
    states = [processes.state(1)]
    await processes.kill(1)
    states.append(processes.state(1))
    await processes.start(1)
    await processes.pause(1)
    states.append(processes.state(1))
    await processes.resume(1)
    states.append(processes.state(1))
    await processes.stop(2)
    states.append(processes.state(2))
    await processes.start(2)
    assert await watch.until(ALL_FOLLOW_LEADER, SECONDS)
    return {"states": states}


async def _faults(environment: Environment, processes: ServerProcesses) -> dict[str, Any]:
    """Cut and heal links in one direction and in both; RPC rules and clocks if the hosts support them."""
    cut: dict[str, list[list[int]]] = {}

    async def probe(name: str) -> None:
        passing = await environment.links.passes(EVERY_LINK)
        cut[name] = sorted(list(link) for link, passes in passing.items() if not passes)

    await probe("before")
    await environment.links.cut([(1, 2)])
    await probe("one direction")
    await environment.links.cut([(2, 1)])
    await environment.links.heal([(1, 2)])
    await probe("other direction")
    await environment.links.heal()
    await environment.links.heal()
    await probe("healed twice")
    return {"cut": cut, "rpcs": await _rpcs(environment), "clock_ms": await _clock(environment, processes)}


async def _rpcs(environment: Environment) -> Any:
    if environment.rpcs is None:
        return environment.unavailable["rpcs"]
    await environment.rpcs.replace([RpcRule.from_json(rule) for rule in NO_VOTES.value["rules"]])
    routes = await environment.rpcs.routes(EVERY_LINK)
    await environment.rpcs.clear()
    return sorted(set(routes.values()))


async def _clock(environment: Environment, processes: ServerProcesses) -> Any:
    if environment.clocks is None:
        return environment.unavailable["clocks"]
    clocks = environment.clocks(processes)
    await clocks.skew(3, ["realtime"], 5_000_000_000)
    skewed_ns = (await clocks.read(3))["realtime"].offset_ns
    await clocks.reset(3)
    reset_ns = (await clocks.read(3))["realtime"].offset_ns
    return [round(skewed_ns / 1e6), round(reset_ns / 1e6)]


def _transitions(observed: list[Observation]) -> list[int]:
    """The nodes whose logs contain transitions."""
    return sorted({each.node for each in observed if each.kind == "transition"})


def plan_of(kind: str, inventory: str | None) -> Plan:
    story = [StoryStep(f=NO_VOTES.f, value=NO_VOTES.value)]
    return Plan.model_validate(
        {"hosts": kind, "inventory": inventory, "name": "conformance", "seed": 5, "story": story}
    )


def main() -> None:
    kind, directory, *inventory = sys.argv[1:]
    run = RunDirectory(Path(directory))
    run.path.mkdir(parents=True, exist_ok=True)
    with suppress(KeyboardInterrupt):
        result = asyncio.run(run_script(plan_of(kind, inventory[0] if inventory else None), run))
        print(json.dumps(result))


if __name__ == "__main__":
    main()
