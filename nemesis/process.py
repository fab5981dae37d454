"""Faults of processes: kill, stop, pause, and their undoing by start and resume.

Each is proved by what the kernel says of the process afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import UndoRecord
from harness.model.story import DOWN, PAUSED
from nemesis.situation import Situation


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


def undo_record(f: str, nodes: tuple[int, ...]) -> UndoRecord | None:
    """How to undo the deed; None where the deed itself undoes another."""
    undo = DEEDS[f].undo
    return UndoRecord(f, undo, {"nodes": list(nodes)}) if undo else None


async def carry_out(situation: Situation, f: str, nodes: tuple[int, ...]) -> dict[str, Any]:
    """Do it to each node; returns the nodes and a label for the report.

    Raises PeerFailure where the kernel tells another state than the deed should lead to.
    """
    deed = DEEDS[f]
    for node in nodes:
        await deed.act(situation)(node)
        if situation.processes.state(node) != deed.proves:
            raise PeerFailure(f"{f} n{node}: it is {situation.processes.state(node)}, expected {deed.proves}")
    return {"nodes": list(nodes), "label": f"{', '.join(f'n{node}' for node in nodes)} {deed.words}"}


async def heal(situation: Situation) -> None:
    """Resume the paused and start the dead."""
    await carry_out(situation, "resume", situation.whoever_is(PAUSED))
    await carry_out(situation, "start", situation.whoever_is(DOWN))
