"""Disk faults: disks that are lost, full, read-only, slow, hang or fail; and files damaged while the node is down.

    Step("slow_disk", {"who": "leader", "delay_ms": 200})
    (harness.model.faults.disks has a function for each action)

Actions in AT_REST kill the node, damage its disk and leave the node down; a later step starts it, or healing does so
once the disks work. Lost data stays lost, which is what scenarios need; a node with a damaged checkpoint may fail to
start. Each action, and healing, is verified by file access from a process on the node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from harness.model import PeerFailure, SplitbrainError
from harness.model.faults.disks import (
    AT_REST,
    Checkpoint,
    Damage,
    DiskError,
    Disks,
    corrupt_checkpoint,
    disk_errors,
    fill_disk,
    flip_bits,
    hang_disk,
    lose_disk,
    lose_unsynced,
    read_only_disk,
    slow_disk,
    truncate_log,
)
from harness.model.hosts import UndoRecord
from harness.model.story import FOLLOWERS, LEADER, Step, sleep
from harness.model.systems import SystemKind
from harness.model.validation import Matching
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

RATE_MIN = 0.02
"""A lower error rate takes too long to verify."""
DELAY_MS_MIN, DELAY_MS_MAX = 20, 10_000
META_PROPERTIES: Checkpoint = "meta.properties"
"""The checkpoint that is beside the metadata log; the others are in its folder."""
Below = Annotated[
    str,
    Matching(
        r"[^/.][^/]*(/[^/.][^/]*)*", "a path below the log directory, of which no part is empty or begins with a dot"
    ),
]
"""A path or pattern below a node's log directory; no part begins with a dot, so it cannot leave the directory."""


class LoseDisk(OnNodes):
    """Whether the new disk has a new directory id, so that the node is not a voter (KIP-853)."""

    newcomer: bool = False


class FlipBits(OnNodes):
    """How many bits to flip, and in which files: by default, the segments of the system's metadata log."""

    bits: Annotated[int, Field(ge=1, le=1 << 20)] = 1
    files: Below | None = None


class TruncateLog(OnNodes):
    """How much to cut off the newest segment of a log, bytes or whole batches; by default, of the metadata log."""

    last_bytes: Annotated[int, Field(ge=0)] = 0
    last_batches: Annotated[int, Field(ge=0)] = 0
    log: Below | None = None

    @model_validator(mode="after")
    def _is_one_of_them(self) -> TruncateLog:
        if bool(self.last_bytes) == bool(self.last_batches):
            raise ValueError("expected last_bytes or last_batches, one of them above 0")
        return self


class CorruptCheckpoint(OnNodes):
    """Which checkpoint file to damage, and how; by default, of the metadata log."""

    checkpoint: Checkpoint = "quorum-state"
    damage: Damage = "garbage"
    log: Below | None = None


class FillDisk(OnNodes):
    """How much space to leave."""

    free_bytes: Annotated[int, Field(ge=0)] = 0


class SlowDisk(OnNodes):
    """How much longer each access takes."""

    delay_ms: Annotated[float, Field(ge=DELAY_MS_MIN, le=DELAY_MS_MAX)]


class DiskErrors(OnNodes):
    """The share of accesses that fail, and their error."""

    rate: Annotated[float, Field(ge=RATE_MIN, le=1)]
    error: DiskError = "EIO"


ACTIONS: Mapping[str, type[OnNodes]] = {
    "lose_disk": LoseDisk,
    "lose_unsynced": OnNodes,
    "flip_bits": FlipBits,
    "truncate_log": TruncateLog,
    "corrupt_checkpoint": CorruptCheckpoint,
    "fill_disk": FillDisk,
    "read_only_disk": OnNodes,
    "slow_disk": SlowDisk,
    "hang_disk": OnNodes,
    "disk_errors": DiskErrors,
}
SURVIVED = ("slow_disk", "lose_unsynced")
"""The actions after which a server has all that it synced, on a disk that works."""
ERASE_VOTE = ("lose_disk", "corrupt_checkpoint")
WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "lose_disk": lambda details: "lost its disk and has a new one" + (", not a voter's" if details["newcomer"] else ""),
    "lose_unsynced": lambda _details: "lost its unsynced writes",
    "flip_bits": lambda details: f"has {details['bits']} flipped bits in {details['files']}",
    "truncate_log": lambda details: f"lost the last {_amount(details)} of {details['log']}",
    "corrupt_checkpoint": lambda details: (
        f"has no {details['checkpoint']}"
        if details["damage"] == "missing"
        else f"has {details['damage']} in its {details['checkpoint']}"
    ),
    "fill_disk": lambda details: f"has {details['free_bytes']} bytes left on its disk",
    "read_only_disk": lambda _details: "has a read-only disk",
    "slow_disk": lambda details: f"has a disk that is {details['delay_ms']:g} ms slower",
    "hang_disk": lambda _details: "has a hanging disk",
    "disk_errors": lambda details: f"has a disk that fails {details['rate']:.0%} of accesses with {details['error']}",
}


def unsupported(system: SystemKind, step: Step) -> str | None:
    """Why a system does not support a step: the step damages the metadata log, and the system has none."""
    if system.metadata_log is not None:
        return None
    if step.f == "corrupt_checkpoint":
        return f"{system.name} has no metadata log, and so no checkpoints"
    argument = {"flip_bits": "files", "truncate_log": "log"}.get(step.f)
    if argument is None or step.value.get(argument):
        return None
    return f"expected {argument}, because {system.name} has no metadata log, which is the default"


def unavailable(context: NemesisContext, f: str) -> str | None:
    """Why an action is not possible: the hosts have no separate disks, or not of the kind that it needs."""
    return context.why_unavailable("disks") or _disks(context).unavailable(f)


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes of the role and all details; for actions that kill nodes, only as many nodes as the floor allows."""
    nodes = context.nodes_in_role(value["who"])
    details = {name: each for name, each in value.items() if name != "who"}
    damaged = _damaged_files(f, details, context.metadata_log)
    return {**details, **damaged, "nodes": list(context.stoppable(nodes) if f in AT_REST else nodes)}


def _damaged_files(f: str, details: Mapping[str, Any], metadata_log: str | None) -> dict[str, Any]:
    """The files that an action damages, as paths below a node's log directory; nothing for other actions."""
    if f == "flip_bits":
        return {"files": details["files"] or f"{metadata_log}/*.log"}
    if f == "truncate_log":
        return {"log": details["log"] or metadata_log}
    if f == "corrupt_checkpoint":
        name = details["checkpoint"]
        return {"file": name if name == META_PROPERTIES else f"{details['log'] or metadata_log}/{name}"}
    return {}


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Undone by starting the node or healing its disk; lost data stays lost."""
    return UndoRecord(f, "start" if f in AT_REST else "heal-disks", {"nodes": resolved["nodes"]})


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Inject the fault on each node's disk, after killing the node if the action needs that; returns what was done.

    Raises PeerFailure if a process on the node does not see the fault.
    """
    disks, nodes = _disks(context), resolved["nodes"]
    details = {name: value for name, value in resolved.items() if name != "nodes"}
    done: dict[str, Any] = {}
    for node in nodes:
        if f in AT_REST and context.processes.state(node) != "gone":
            await context.processes.kill(node)
        done[f"n{node}"] = await disks.inject(node, f, details)
        problem = await disks.probe(node, f, done[f"n{node}"])
        if problem is not None:
            raise PeerFailure(f"verifying {f} on n{node}: {problem}")
    names = ", ".join(f"n{node}" for node in nodes) or "no node"
    newcomer = {"newcomer": True} if details.get("newcomer") else {}
    return {"nodes": nodes, **newcomer, "label": f"{names} {WORDS[f](details)}", "done": done}


async def heal(context: NemesisContext) -> None:
    """Heal every faulty disk and verify that it works, even if others fail."""
    if context.disks is None:
        return
    problems: list[str] = []
    for node in tuple(context.disks.faulty):
        try:
            await context.disks.heal(node)
            problem = await context.disks.problem(node)
        except SplitbrainError as error:
            problem = str(error)
        if problem is not None:
            problems.append(f"n{node}: {problem}")
    if problems:
        raise PeerFailure(f"verifying that disks work: {'; '.join(problems)}")


def _disks(context: NemesisContext) -> Disks:
    assert context.disks is not None, "unavailable faults are refused before"
    return context.disks


def _amount(details: Mapping[str, Any]) -> str:
    return f"{details['last_bytes']} bytes" if details["last_bytes"] else f"{details['last_batches']} batches"


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """A slow, hanging, failing or read-only disk: faults that a quorum must survive at any time."""
    who = random_source.choice([LEADER, FOLLOWERS])
    steps = [
        slow_disk(who, float(random_source.choice([20, 100, 500]))),
        hang_disk(who),
        read_only_disk(who),
        disk_errors(who, random_source.choice([0.05, 0.3, 1.0]), random_source.choice(["EIO", "ENOSPC"])),
    ]
    return [random_source.choice(steps)]


TRIALS: tuple[tuple[Step, ...], ...] = (
    (lose_disk("n1"),),
    (lose_unsynced("n2"),),
    (flip_bits("n3", 8), lose_disk("n3")),  # a node with a damaged disk may fail to start; with a new disk it starts
    (truncate_log("n1", last_batches=1),),
    (corrupt_checkpoint("n2"), lose_disk("n2")),
    (fill_disk("n1"), sleep(0.2)),
    (read_only_disk("n1"), sleep(0.2)),
    (slow_disk("n1", 50), sleep(0.2)),
    (hang_disk("n1"), sleep(0.2)),
    (disk_errors("n1", 0.3), sleep(0.2)),
)

FAULT = Fault(
    name="disk",
    summary="disks are lost, full, read-only, slow, hang or fail, lose unsynced writes, or have damaged files",
    actions={
        name: Action(
            arguments,
            harms_disk=name not in SURVIVED,
            empties_disk=name == "lose_disk",
            erases_vote=name in ERASE_VOTE,
        )
        for name, arguments in ACTIONS.items()
    },
    unsupported=unsupported,
    unavailable=unavailable,
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=50,
    trials=TRIALS,
)
