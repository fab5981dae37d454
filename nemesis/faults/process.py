"""Faults of processes: kill, stop, pause, and their undoing by start and resume.

Each is proved by what the kernel says of the process afterwards. A situation with a floor spares as many nodes as it
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
    for_,
    kill,
    pause,
    restart,
    stop,
)
from nemesis.arguments import OnNodes
from nemesis.context import Situation
from nemesis.fault import Aimed, Fault


@dataclass(frozen=True, slots=True)
class ProcessDeed:
    """What is done to a process, the state that proves it, and how the report words it."""

    act: Callable[[Situation], Callable[[int], Awaitable[None]]]
    proves: str
    words: str
    undo: str | None = None


DEEDS: Mapping[str, ProcessDeed] = {
    "kill": ProcessDeed(lambda situation: situation.processes.kill, "gone", "killed", "start"),
    "stop": ProcessDeed(lambda situation: situation.processes.stop, "gone", "stopped", "start"),
    "pause": ProcessDeed(lambda situation: situation.processes.pause, "paused", "paused", "resume"),
    "start": ProcessDeed(lambda situation: situation.processes.start, "running", "started"),
    "resume": ProcessDeed(lambda situation: situation.processes.resume, "running", "resumed"),
}


def aim(situation: Situation, f: str, value: Mapping[str, Any]) -> Aimed:
    """The nodes that are meant, but for those that the floor spares."""
    nodes = situation.whoever_is(value["who"])
    return {"nodes": list(situation.above_the_floor(nodes) if DEEDS[f].undo else nodes)}


def undo(f: str, aimed: Aimed) -> UndoRecord | None:
    """How to undo the deed; None where the deed itself undoes another."""
    kind = DEEDS[f].undo
    return UndoRecord(f, kind, {"nodes": aimed["nodes"]}) if kind else None


async def carry_out(situation: Situation, f: str, aimed: Aimed) -> dict[str, Any]:
    """Do it to each node; returns the nodes and a label for the report.

    Raises PeerFailure where the kernel tells another state than the deed should lead to.
    """
    deed, nodes = DEEDS[f], aimed["nodes"]
    for node in nodes:
        await deed.act(situation)(node)
        if situation.processes.state(node) != deed.proves:
            raise PeerFailure(f"{f} n{node}: it is {situation.processes.state(node)}, expected {deed.proves}")
    names = ", ".join(f"n{node}" for node in nodes) or "nobody"
    return {"nodes": nodes, "label": f"{names} {deed.words}"}


async def heal(situation: Situation) -> None:
    """Resume the paused and start the dead."""
    await carry_out(situation, "resume", {"nodes": list(situation.whoever_is(PAUSED))})
    await carry_out(situation, "start", {"nodes": list(situation.whoever_is(DOWN))})


def _killing(drawn: random.Random, _nodes: int) -> list[Step]:
    """One node killed, a minority, all of them, restarted, or crashing again and again."""
    who = drawn.choice([LEADER, FOLLOWERS])
    mass = [kill(drawn.choice([MINORITY, MAJORITY, ALL]))]
    return drawn.choice([[kill(who)], [kill(who)], mass, restart(who), crash_loop(who, drawn.randint(2, 3), 1.0)])


def _pausing(drawn: random.Random, _nodes: int) -> list[Step]:
    return [pause(drawn.choice([LEADER, FOLLOWERS, LEADER, FOLLOWERS, MINORITY, ALL]))]


KILL = Fault(
    name="kill",
    words="servers end by SIGKILL or SIGTERM: one, a minority, all, restarted, or crashing again and again",
    deeds={"kill": OnNodes, "stop": OnNodes, "start": OnNodes},
    missing=lambda _situation, _deed: None,
    aim=aim,
    undo=undo,
    carry_out=carry_out,
    heal=heal,
    draw=_killing,
    trials=((kill("n1"), for_(0.2)), (stop("n2"), for_(0.2)), (kill(ALL), for_(0.2))),
)
PAUSE = Fault(
    name="pause",
    words="servers stand still by SIGSTOP, their connections open",
    deeds={"pause": OnNodes, "resume": OnNodes},
    missing=lambda _situation, _deed: None,
    aim=aim,
    undo=undo,
    carry_out=carry_out,
    heal=heal,
    draw=_pausing,
    trials=((pause("n1"), for_(0.2)),),
)
