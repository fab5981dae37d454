"""Leadership: a chosen node becomes the leader.

KRaft has no request that transfers leadership, so the choice is made by the logs: while the other voters are cut off
from the leader, only the chosen node receives the leader's records. Once its log is the longest, the leader is cut off
too, and no voter with a shorter log can win against the chosen one (KIP-595, "Vote"). The links are restored before the
action completes. If no record was appended in APPEND_SECONDS, another node may win; then the action repeats this.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

from harness.model import PeerFailure
from harness.model.hosts import UndoRecord
from harness.model.plurals import counted
from harness.model.story import LEAD, ONE, Step, lead
from nemesis.arguments import OnNodes
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved
from nemesis.faults.partition_shapes import isolation

APPEND_SECONDS = 1.5
"""How long to wait until the chosen node's log is the longest: an idle Kafka controller appends every half second."""
ELECTION_SECONDS = 20.0
ATTEMPTS_MAX = 6
POLL_SECONDS = 0.05


class Lead(OnNodes):
    """Whether it is a failure if another node leads in the end: a node that does not vote never leads."""

    is_required: bool = True


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The one node of the role, and the links that may be cut."""
    links = sorted(list(link) for link in frozenset(permutations(context.nodes, 2)) - context.cut_links)
    chosen = context.require_one(f, value["who"])
    return {"nodes": [chosen], "links": links, "is_required": value.get("is_required", True)}


def undo(f: str, resolved: Resolved) -> UndoRecord:
    """Undone by healing every link that was not cut before."""
    return UndoRecord(f, "heal-links", {"links": resolved["links"]})


async def inject(context: NemesisContext, _f: str, resolved: Resolved) -> dict[str, Any]:
    """Depose leaders until the chosen node leads.

    Raises PeerFailure if it does not after ATTEMPTS_MAX elections, if that is required.
    """
    (chosen,) = resolved["nodes"]
    elections = 0
    while (leader := await _leader_other_than(context, None)) != chosen:
        if elections == ATTEMPTS_MAX and resolved["is_required"]:
            raise PeerFailure(f"lead n{chosen}: n{leader} leads after {elections} elections")
        if elections == ATTEMPTS_MAX:
            return {"nodes": [leader], "label": f"n{leader} leads, not n{chosen}, after {elections} elections"}
        await _depose(context, leader, chosen)
        elections += 1
    after = f" after {counted(elections, 'election')}" if elections else ""
    return {"nodes": [chosen], "label": f"n{chosen} leads{after}"}


async def _depose(context: NemesisContext, leader: int, chosen: int) -> None:
    """Cut the leader off, the chosen node last, until another node leads; restore the links that this has cut."""
    last = frozenset({(leader, chosen), (chosen, leader)})
    others = isolation(context.nodes, (leader,), "both") - last
    try:
        await context.links.cut(others - context.cut_links)
        await _holds_within(APPEND_SECONDS, lambda: chosen in context.nodes_where("has_longest_log"))
        await context.links.cut(last - context.cut_links)
        await _leader_other_than(context, leader)
    finally:
        await context.links.heal((others | last) - context.cut_links)


async def _leader_other_than(context: NemesisContext, former: int | None) -> int:
    if not await _holds_within(ELECTION_SECONDS, lambda: context.leader() not in (None, former)):
        expected = "a leader" if former is None else f"a leader other than n{former}"
        raise PeerFailure(f"waiting for {expected}: none after {ELECTION_SECONDS:g} s")
    return context.require_leader()


async def _holds_within(seconds: float, is_met: Callable[[], bool]) -> bool:
    deadline = asyncio.get_running_loop().time() + seconds
    while not is_met():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def sample(_random_source: random.Random, _nodes: int) -> list[Step]:
    """A random node becomes the leader."""
    return [lead(ONE)]


FAULT = Fault(
    name="leadership",
    summary="a chosen node becomes the leader: the others are cut off from the old one until it wins the election",
    actions={LEAD: Action(Lead, momentary=True)},
    resolve=resolve,
    undo=undo,
    inject=inject,
    sample=sample,
    trials=((lead("n1"),),),
)
