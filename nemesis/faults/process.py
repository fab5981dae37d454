"""Process faults: kill, stop and pause, undone by start and resume.

Each is verified by the process's state in the kernel. If the context has a floor, at least that many nodes keep
running.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import UndoRecord
from harness.model.story import (
    ALL,
    DOWN,
    FOLLOWERS,
    LEADER,
    MAJORITY,
    MINORITY,
    PAUSED,
    Step,
    crash_loop,
    kill,
    pause,
    restart,
    sleep,
    stop,
)
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved


@dataclass(frozen=True, slots=True)
class ProcessAction:
    """How to act on a process, the state that it must have afterwards, the word for the report, and what undoes it."""

    act: Callable[[NemesisContext], Callable[[int], Awaitable[None]]]
    expected: str
    word: str
    undo: str | None = None


ACTIONS: Mapping[str, ProcessAction] = {
    "kill": ProcessAction(lambda context: context.processes.kill, "gone", "killed", "start"),
    "stop": ProcessAction(lambda context: context.processes.stop, "gone", "stopped", "start"),
    "pause": ProcessAction(lambda context: context.processes.pause, "paused", "paused", "resume"),
    "start": ProcessAction(lambda context: context.processes.start, "running", "started"),
    "resume": ProcessAction(lambda context: context.processes.resume, "running", "resumed"),
}


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes of the role; for actions that stop nodes, only as many as the floor allows."""
    nodes = context.nodes_in_role(value["who"])
    return {"nodes": list(context.stoppable(nodes) if ACTIONS[f].undo else nodes)}


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """How to undo the action; None if the action itself undoes another."""
    kind = ACTIONS[f].undo
    return UndoRecord(f, kind, {"nodes": resolved["nodes"]}) if kind else None


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Act on each node; returns the nodes and a label for the report.

    Raises PeerFailure for the start of a node that is not down, and if a process does not have the expected state
    afterwards.
    """
    action, nodes = ACTIONS[f], resolved["nodes"]
    for node in nodes:
        if f == "start" and context.processes.state(node) != "gone":
            raise PeerFailure(f"start n{node}: it is {context.processes.state(node)}, expected a node that is down")
        await action.act(context)(node)
        if context.processes.state(node) != action.expected:
            raise PeerFailure(f"{f} n{node}: it is {context.processes.state(node)}, expected {action.expected}")
    names = ", ".join(f"n{node}" for node in nodes) or "no node"
    return {"nodes": nodes, "label": f"{names} {action.word}"}


async def heal(context: NemesisContext) -> None:
    """Resume paused nodes and start stopped ones."""
    await inject(context, "resume", {"nodes": list(context.nodes_in_role(PAUSED))})
    await inject(context, "start", {"nodes": list(context.nodes_in_role(DOWN))})


def _sample_kill(random_source: random.Random, _nodes: int) -> list[Step]:
    """Kill one node, a minority, a majority or all; or restart or crash-loop one."""
    who = random_source.choice([LEADER, FOLLOWERS])
    mass = [kill(random_source.choice([MINORITY, MAJORITY, ALL]))]
    return random_source.choice(
        [[kill(who)], [kill(who)], mass, restart(who), crash_loop(who, random_source.randint(2, 3), 1.0)]
    )


def _sample_pause(random_source: random.Random, _nodes: int) -> list[Step]:
    return [pause(random_source.choice([LEADER, FOLLOWERS, LEADER, FOLLOWERS, MINORITY, ALL]))]


ENDS_KILL = frozenset({"kill", "stop"})

KILL = Fault(
    name="kill",
    summary="servers are killed (SIGKILL), stopped (SIGTERM), restarted or crash-looped: one, some or all",
    actions={"kill": Action(OnNodes), "stop": Action(OnNodes), "start": Action(OnNodes, ends=ENDS_KILL)},
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=_sample_kill,
    heal_order=70,
    trials=((kill("n1"), sleep(0.2)), (stop("n2"), sleep(0.2)), (kill(ALL), sleep(0.2))),
)
PAUSE = Fault(
    name="pause",
    summary="servers are paused (SIGSTOP); their connections stay open",
    actions={"pause": Action(OnNodes), "resume": Action(OnNodes, ends=frozenset({"pause"}))},
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=_sample_pause,
    heal_order=60,
    trials=((pause("n1"), sleep(0.2)),),
)
