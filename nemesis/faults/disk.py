"""Disk faults: lost, full, read-only, slow, hanging, failing at a rate; or files damaged while the node is down.

    Step("slow_disk", {"who": "leader", "delay_ms": 200})
    (harness.model.faults.disks has a function for each action)

Deeds at rest kill the node, damage its disk and leave it down: a step starts it, or healing, which does so after it has
mended the disks. What was lost stays lost, as the scenario that asks for it wants; a node whose checkpoint is garbage
need not come up again. Each action is proved by what a process on the node meets, and so is healing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from harness.model import EnvironmentFailure, PeerFailure, SplitbrainError
from harness.model.faults.disks import (
    AT_REST,
    METADATA_LOG,
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
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

RATE_MIN = 0.02
"""A disk that fails more seldom takes too long to be proved."""
DELAY_MS_MIN, DELAY_MS_MAX = 20, 10_000
Below = Annotated[str, Field(pattern=r"^[^/.][^/]*(/[^/.][^/]*)*$")]
"""A path or pattern below a node's log directory, and not above: no part begins with a dot."""


class LoseDisk(OnNodes):
    """Whether the node with the new disk is one that never voted."""

    newcomer: bool = False


class FlipBits(OnNodes):
    """How many bits of which files."""

    bits: Annotated[int, Field(ge=1, le=1 << 20)] = 1
    files: Below = f"{METADATA_LOG}/*.log"


class TruncateLog(OnNodes):
    """How much of a log's newest segment: so many bytes, or so many whole batches."""

    last_bytes: Annotated[int, Field(ge=0)] = 0
    last_batches: Annotated[int, Field(ge=0)] = 0
    log: Below = METADATA_LOG

    @model_validator(mode="after")
    def _is_one_of_them(self) -> TruncateLog:
        if bool(self.last_bytes) == bool(self.last_batches):
            raise ValueError("expected last_bytes or last_batches, one of them above 0")
        return self


class CorruptCheckpoint(OnNodes):
    """Which of a node's small files, and how."""

    checkpoint: Checkpoint = "quorum-state"
    damage: Damage = "garbage"


class FillDisk(OnNodes):
    """How much is left."""

    free_bytes: Annotated[int, Field(ge=0)] = 0


class SlowDisk(OnNodes):
    """How much longer each access takes."""

    delay_ms: Annotated[float, Field(ge=DELAY_MS_MIN, le=DELAY_MS_MAX)]


class DiskErrors(OnNodes):
    """How often, and which error."""

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
WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "lose_disk": lambda details: (
        "lost its disk and has a new one" + (", which never voted" if details["newcomer"] else "")
    ),
    "lose_unsynced": lambda _details: "lost what it had not synced",
    "flip_bits": lambda details: f"has {details['bits']} flipped bits in {details['files']}",
    "truncate_log": lambda details: f"lost the last {_amount(details)} of {details['log']}",
    "corrupt_checkpoint": lambda details: f"has {details['damage']} in its {details['checkpoint']}",
    "fill_disk": lambda details: f"has {details['free_bytes']} bytes left on its disk",
    "read_only_disk": lambda _details: "has a read-only disk",
    "slow_disk": lambda details: f"has a disk slower by {details['delay_ms']:g} ms",
    "hang_disk": lambda _details: "has a disk that hangs",
    "disk_errors": lambda details: f"has a disk with {details['rate']:.0%} {details['error']}",
}


def unavailable(context: NemesisContext, f: str) -> str | None:
    """Why an action cannot be had: the hosts have no disks of their own, or not of the kind that it takes."""
    return context.why_unavailable("disks") or _disks(context).unavailable(f)


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes that are meant, but for those that the floor spares, and all details.

    Raises EnvironmentFailure where these disks cannot do it.
    """
    reason = _disks(context).unavailable(f)
    if reason is not None:
        raise EnvironmentFailure(f"{f}: {reason}")
    nodes = context.nodes_in_role(value["who"])
    details = ACTIONS[f].model_validate(value).model_dump(exclude={"who"})
    return {**details, "nodes": list(context.keeping_the_floor(nodes) if f in AT_REST else nodes)}


def undo(f: str, resolved: Resolved) -> UndoRecord | None:
    """Starting the node, or mending its disk, undoes what can be undone."""
    return UndoRecord(f, "start" if f in AT_REST else "heal-disks", {"nodes": resolved["nodes"]})


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Do it to each node's disk, the node killed first where the disk must be at rest; returns what was done.

    Raises PeerFailure where a process on the node meets something else.
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
            raise PeerFailure(f"proving {f} on n{node}: {problem}")
    names = ", ".join(f"n{node}" for node in nodes) or "nobody"
    return {"nodes": nodes, "label": f"{names} {WORDS[f](details)}", "done": done}


async def heal(context: NemesisContext) -> None:
    """Mend every disk that does not work as it should, and prove it; one that cannot be keeps no other from it."""
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
        raise PeerFailure(f"proving that disks are whole: {'; '.join(problems)}")


def _disks(context: NemesisContext) -> Disks:
    assert context.disks is not None, "a fault that is missing is not carried out"
    return context.disks


def _amount(details: Mapping[str, Any]) -> str:
    return f"{details['last_bytes']} bytes" if details["last_bytes"] else f"{details['last_batches']} batches"


def sample(random_: random.Random, _nodes: int) -> list[Step]:
    """A disk that is slow, hangs, fails or lets nothing be written: what a quorum must survive whenever it comes."""
    who = random_.choice([LEADER, FOLLOWERS])
    sequences = [
        slow_disk(who, float(random_.choice([20, 100, 500]))),
        hang_disk(who),
        read_only_disk(who),
        disk_errors(who, random_.choice([0.05, 0.3, 1.0]), random_.choice(["EIO", "ENOSPC"])),
    ]
    return [random_.choice(sequences)]


TRIED: tuple[tuple[Step, ...], ...] = (
    (lose_disk("n1"),),
    (lose_unsynced("n2"),),
    (flip_bits("n3", 8), lose_disk("n3")),  # a node with a damaged disk need not come up, a new one does
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
    summary="disks are lost, full, read-only, slow, hanging or failing, lose unsynced writes, or hold damaged files",
    actions={name: Action(arguments, empties_disk=name == "lose_disk") for name, arguments in ACTIONS.items()},
    unavailable=unavailable,
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=50,
    trials=TRIED,
)
