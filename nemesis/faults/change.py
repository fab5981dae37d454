"""Changes of single nodes: another configuration, another release; the node is stopped, changed, and started.

A quorum whose nodes differ is what a rolling upgrade makes of it, and what a user's mistake makes of it: one node with
a fetch timeout too low (KIP-996, motivation). Healing stops the changed nodes, gives them back what the run began with,
and starts them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from harness.model import PeerFailure
from harness.model.hosts import UndoRecord
from harness.model.story import CHANGE_VERSION, FOLLOWERS, LEADER, Step, configure, for_
from nemesis.arguments import OnNodes
from nemesis.context import Situation
from nemesis.fault import Aimed, Fault

Property = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,120}$")]
Setting = Annotated[str, Field(pattern=r"^[^\r\n]{0,400}$")]
TIMEOUTS = ("controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms")


class Configure(OnNodes):
    """Properties by the names that the system knows them by."""

    switches: Annotated[dict[Property, Setting], Field(min_length=1)]


class ChangeVersion(OnNodes):
    """A system by its full name."""

    system: Annotated[str, Field(pattern=r"^(reference|kafka:[0-9]+\.[0-9]+\.[0-9]+)$")]


def aim(situation: Situation, _f: str, value: Mapping[str, Any]) -> Aimed:
    """The nodes that are meant."""
    return {**value, "nodes": list(situation.whoever_is(value["who"]))}


def undo(f: str, aimed: Aimed) -> UndoRecord:
    """What the run began with undoes any change."""
    return UndoRecord(f, "restore-recipes", {"nodes": aimed["nodes"]})


async def carry_out(situation: Situation, f: str, aimed: Aimed) -> dict[str, Any]:
    """Change each node while it is down; returns the nodes and what they are called now."""
    recipes = situation.recipes
    assert recipes is not None
    words = []
    for node in aimed["nodes"]:
        await _down(situation, node)
        label = await recipes.change(node, aimed.get("switches", {}), aimed.get("system"))
        await _up(situation, node, f)
        words.append(f"n{node} is {label}")
    return {"nodes": aimed["nodes"], "label": ", ".join(words)}


async def heal(situation: Situation) -> None:
    """Give every changed node back what the run began with."""
    if situation.recipes is None:
        return
    for node in situation.recipes.changed:
        await _down(situation, node)
        await situation.recipes.restore(node)
        await _up(situation, node, "heal")


async def _down(situation: Situation, node: int) -> None:
    if situation.processes.state(node) == "paused":
        await situation.processes.resume(node)
    if situation.processes.state(node) != "gone":
        await situation.processes.stop(node)


async def _up(situation: Situation, node: int, f: str) -> None:
    await situation.processes.start(node)
    if situation.processes.state(node) != "running":
        raise PeerFailure(f"{f} n{node}: it is {situation.processes.state(node)} after its start, expected running")


def draw(drawn: random.Random, _nodes: int) -> list[Step]:
    """A node with timeouts that somebody got wrong, too short or too long."""
    timeout_ms = drawn.choice([150, 400, 6000])
    return [configure(drawn.choice([LEADER, FOLLOWERS]), {drawn.choice(TIMEOUTS): str(timeout_ms)})]


FAULT = Fault(
    name="change",
    words="a node comes back with another configuration, or as another release",
    deeds={"configure": Configure, CHANGE_VERSION: ChangeVersion},
    missing=lambda situation, _deed: situation.why_lacking("recipes"),
    aim=aim,
    undo=undo,
    carry_out=carry_out,
    heal=heal,
    draw=draw,
    trials=((configure("n1", {TIMEOUTS[0]: "400"}), for_(0.2)),),
)
