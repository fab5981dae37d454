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
from harness.model.story import CHANGE_VERSION, FOLLOWERS, LEADER, Step, configure, sleep
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

Property = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,120}$")]
PropertyValue = Annotated[str, Field(pattern=r"^[^\r\n]{0,400}$")]
TIMEOUTS = ("controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms")


class Configure(OnNodes):
    """Properties by the names that the system knows them by."""

    switches: Annotated[dict[Property, PropertyValue], Field(min_length=1)]


class ChangeVersion(OnNodes):
    """A system by its full name."""

    system: Annotated[str, Field(pattern=r"^(reference|kafka:[0-9]+\.[0-9]+\.[0-9]+)$")]


def resolve(context: NemesisContext, _f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes that are meant."""
    return {**value, "nodes": list(context.nodes_in_role(value["who"]))}


def undo(f: str, resolved: Resolved) -> UndoRecord:
    """What the run began with undoes any change."""
    return UndoRecord(f, "restore-node_configs", {"nodes": resolved["nodes"]})


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Change each node while it is down; returns the nodes and what they are called now."""
    node_configs = context.node_configs
    assert node_configs is not None
    words = []
    for node in resolved["nodes"]:
        await _down(context, node)
        label = await node_configs.change(node, resolved.get("switches", {}), resolved.get("system"))
        await _up(context, node, f)
        words.append(f"n{node} is {label}")
    return {"nodes": resolved["nodes"], "label": ", ".join(words)}


async def heal(context: NemesisContext) -> None:
    """Give every changed node back what the run began with."""
    if context.node_configs is None:
        return
    for node in context.node_configs.changed:
        await _down(context, node)
        await context.node_configs.restore(node)
        await _up(context, node, "heal")


async def _down(context: NemesisContext, node: int) -> None:
    if context.processes.state(node) == "paused":
        await context.processes.resume(node)
    if context.processes.state(node) != "gone":
        await context.processes.stop(node)


async def _up(context: NemesisContext, node: int, f: str) -> None:
    await context.processes.start(node)
    if context.processes.state(node) != "running":
        raise PeerFailure(f"{f} n{node}: it is {context.processes.state(node)} after its start, expected running")


def sample(random_: random.Random, _nodes: int) -> list[Step]:
    """A node with timeouts that somebody got wrong, too short or too long."""
    timeout_ms = random_.choice([150, 400, 6000])
    return [configure(random_.choice([LEADER, FOLLOWERS]), {random_.choice(TIMEOUTS): str(timeout_ms)})]


FAULT = Fault(
    name="change",
    summary="a node comes back with another configuration, or as another release",
    actions={"configure": Action(Configure), CHANGE_VERSION: Action(ChangeVersion)},
    unavailable=lambda context, _action: context.why_unavailable("node_configs"),
    resolve=resolve,
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=80,
    trials=((configure("n1", {TIMEOUTS[0]: "400"}), sleep(0.2)),),
)
