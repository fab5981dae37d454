"""Changes to single nodes: another configuration or another release. The node is stopped, changed and started.

Nodes of a quorum differ during a rolling upgrade, and after a user's mistake: one node with a fetch timeout that is too
low (KIP-996, motivation). Healing stops the changed nodes, restores their original configuration and release, and
starts them; a node that does not stop is killed.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

from pydantic import Field

from harness.model import PeerFailure
from harness.model.hosts import UndoRecord
from harness.model.story import CHANGE_VERSION, FOLLOWERS, LEADER, Step, configure, sleep
from harness.model.validation import Matching
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

Property = Annotated[str, Matching(r"[A-Za-z0-9._-]{1,120}", "the name of a property")]
PropertyValue = Annotated[str, Matching(r"[^\r\n]{0,400}", "one line of at most 400 characters")]
TIMEOUTS = ("controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms")


class Configure(OnNodes):
    """Properties to set, by the system's names for them."""

    switches: Annotated[dict[Property, PropertyValue], Field(min_length=1)]


class ChangeVersion(OnNodes):
    """The system to change to, by its full name."""

    system: Annotated[str, Matching(r"[A-Za-z0-9_.:-]{1,120}", "a system, e.g. kafka:4.3.1")]


def undo(f: str, resolved: Resolved) -> UndoRecord:
    """Undone by restoring the original configuration and release."""
    return UndoRecord(f, "restore-node-configs", {"nodes": resolved["nodes"]})


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Change each node while it is down; returns the nodes and a label."""
    node_configs = context.node_configs
    assert node_configs is not None
    words = []
    for node in resolved["nodes"]:
        await _stop(context, node)
        label = await node_configs.change(node, resolved.get("switches", {}), resolved.get("system"))
        await _start(context, node, f)
        words.append(f"n{node} is {label}")
    return {"nodes": resolved["nodes"], "label": ", ".join(words)}


async def heal(context: NemesisContext) -> None:
    """Restore every changed node."""
    if context.node_configs is None:
        return
    for node in context.node_configs.changed:
        try:
            await _stop(context, node)
        except PeerFailure:  # a broker that reaches no controller waits for it for minutes before it stops
            await context.processes.kill(node)
        await context.node_configs.restore(node)
        await _start(context, node, "heal")


async def _stop(context: NemesisContext, node: int) -> None:
    if context.processes.state(node) == "paused":
        await context.processes.resume(node)
    if context.processes.state(node) != "gone":
        await context.processes.stop(node)


async def _start(context: NemesisContext, node: int, f: str) -> None:
    await context.processes.start(node)
    if context.processes.state(node) != "running":
        raise PeerFailure(f"{f} n{node}: it is {context.processes.state(node)} after its start, expected running")


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """A node with a misconfigured timeout, too short or too long."""
    timeout_ms = random_source.choice([150, 400, 6000])
    return [configure(random_source.choice([LEADER, FOLLOWERS]), {random_source.choice(TIMEOUTS): str(timeout_ms)})]


FAULT = Fault(
    name="change",
    summary="a node is restarted with another configuration or another release",
    actions={"configure": Action(Configure), CHANGE_VERSION: Action(ChangeVersion)},
    unavailable=lambda context, _action: context.why_unavailable("node_configs"),
    undo=undo,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=80,
    trials=((configure("n1", {TIMEOUTS[0]: "400"}), sleep(0.2)),),
)
