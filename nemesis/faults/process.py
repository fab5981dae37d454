"""Faults of processes: kill, stop, pause, and their undoing by start and resume.

Each is proved by what the kernel says of the process afterwards. A context with a floor spares as many nodes as it
takes to keep so many running.
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
    """What is done to a process, the state that proves it, and how the report words it."""

    act: Callable[[NemesisContext], Callable[[int], Awaitable[None]]]
    proves: str
    words: str
    undo: str | None = None


ACTIONS: Mapping[str, ProcessAction] = {
    "kill": ProcessAction(lambda context: context.processes.kill, "gone", "killed", "start"),
    "stop": ProcessAction(lambda context: context.processes.stop, "gone", "stopped", "start"),
    "pause": ProcessAction(lambda context: context.processes.pause, "paused", "paused", "resume"),
    "start": ProcessAction(lambda context: context.processes.start, "running", "started"),
    "resume": ProcessAction(lambda context: context.processes.resume, "running", "resumed"),
}


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes that are meant, but for those that the floor spares."""
    nodes = context.nodes_in_role(value["who"])
    return {"nodes": list(context.keeping_the_floor(nodes) if ACTIONS[f].undo else nodes)}


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """How to undo the action; None where the action itself undoes another."""
    kind = ACTIONS[f].undo
    return UndoRecord(f, kind, {"nodes": resolved["nodes"]}) if kind else None


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Do it to each node; returns the nodes and a label for the report.

    Raises PeerFailure where the kernel tells another state than the action should lead to.
    """
    action, nodes = ACTIONS[f], resolved["nodes"]
    for node in nodes:
        await action.act(context)(node)
        if context.processes.state(node) != action.proves:
            raise PeerFailure(f"{f} n{node}: it is {context.processes.state(node)}, expected {action.proves}")
    names = ", ".join(f"n{node}" for node in nodes) or "nobody"
    return {"nodes": nodes, "label": f"{names} {action.words}"}


async def heal(context: NemesisContext) -> None:
    """Resume the paused and start the dead."""
    await inject(context, "resume", {"nodes": list(context.nodes_in_role(PAUSED))})
    await inject(context, "start", {"nodes": list(context.nodes_in_role(DOWN))})


def _sample_kill(random_: random.Random, _nodes: int) -> list[Step]:
    """One node killed, a minority, all of them, restarted, or crashing again and again."""
    who = random_.choice([LEADER, FOLLOWERS])
    mass = [kill(random_.choice([MINORITY, MAJORITY, ALL]))]
    return random_.choice([[kill(who)], [kill(who)], mass, restart(who), crash_loop(who, random_.randint(2, 3), 1.0)])


def _sample_pause(random_: random.Random, _nodes: int) -> list[Step]:
    return [pause(random_.choice([LEADER, FOLLOWERS, LEADER, FOLLOWERS, MINORITY, ALL]))]


ENDS_KILL = frozenset({"kill", "stop"})

KILL = Fault(
    name="kill",
    summary="servers end by SIGKILL or SIGTERM: one, a minority, all, restarted, or crashing again and again",
    actions={"kill": Action(OnNodes), "stop": Action(OnNodes), "start": Action(OnNodes, ends=ENDS_KILL)},
    unavailable=lambda _situation, _action: None,
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
    summary="servers stand still by SIGSTOP, their connections open",
    actions={"pause": Action(OnNodes), "resume": Action(OnNodes, ends=frozenset({"pause"}))},
    unavailable=lambda _situation, _action: None,
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=_sample_pause,
    heal_order=60,
    trials=((pause("n1"), sleep(0.2)),),
)
