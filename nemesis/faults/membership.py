"""Membership: voters join and leave, partitions move, leaders are elected; and what was asked for is seen to its end.

An action asks, and what it asked for is pending until a view of the quorum shows it done: a request that nobody
answered
may have been carried out, so its change is pending too, for a while. `settle`, which healing ends with, waits for the
pending ones and tells of each that is not done which state it is stuck in.

These are no faults to undo: whoever moved stays where it is.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from harness.model import PeerFailure
from harness.model.faults.membership import Change, Membership, MembershipView, Reassignment, VoterChange
from harness.model.session import NoAnswer
from harness.model.story import Step, sleep
from nemesis.arguments import Arguments, OnNodes, Seconds
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

OF_VOTERS = ("add_voter", "remove_voter")
VOTERS = "voters"
"""What a context lacks whose voters never change."""
VOTERS_MIN = 2
POLL_SECONDS = 0.25
SETTLE_SECONDS = 90.0
LEADER_SECONDS = 10.0
UNANSWERED_SECONDS = 15.0
"""How long a change whose request had no answer is waited for before it counts as never asked."""


class Reassign(Arguments):
    """So many partitions, drawn, move to nodes that are random_."""

    partitions: Annotated[int, Field(ge=1, le=1000)] = 1


class Elect(Arguments):
    """Elections of the leaders of all partitions."""

    how: Annotated[str, Field(pattern="^(preferred|unclean)$")] = "preferred"


class Settle(Arguments):
    """How long to wait for what is pending."""

    within_seconds: Seconds = SETTLE_SECONDS


def reassign(partitions: int = 1) -> Step:
    """Move so many partitions to other nodes."""
    return Step("reassign", {"partitions": partitions})


def add_voter(who: str) -> Step:
    """Ask that an observer becomes a voter; of a role of several nodes, the first that is none yet."""
    return Step("add_voter", {"who": who})


def remove_voter(who: str) -> Step:
    """Ask that a voter becomes an observer; of a role of several nodes, the first that is one."""
    return Step("remove_voter", {"who": who})


def settle(within_seconds: float = SETTLE_SECONDS) -> Step:
    """Wait until all that was asked for is done."""
    return Step("await_membership", {"within_seconds": within_seconds})


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The nodes in an order drawn, and the nodes of the role, in that order, where one is named."""
    order = context.shuffled()
    if "who" in value:
        meant = context.nodes_in_role(value["who"])
        return {"nodes": [node for node in order if node in meant]}
    partitions = [context.draw(1 << 16) for _ in range(int(value.get("partitions", 1)))] if f == "reassign" else []
    return {**value, "order": list(order), "drawn": partitions}


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Ask for it, or wait for what was asked. Raises PeerFailure where it was refused."""
    membership = context.membership
    assert membership is not None
    if f == "await_membership":
        return await _settle(context, membership, float(resolved.get("within_seconds", SETTLE_SECONDS)))
    view = await _view(membership)
    if f == "elect":
        await membership.elect(sorted(view.partitions), resolved.get("how", "preferred"))
        return {"label": f"{resolved.get('how', 'preferred')} elections"}
    changes = _moves(view, resolved) if f == "reassign" else _voter(view, resolved["nodes"], joins=f == "add_voter")
    if not changes:
        return {"label": f"{f}: nobody to ask it of"}
    await _ask(context, membership, changes)
    words = "; ".join(change.text for change in changes)
    return {"changes": [change.text for change in changes], "label": words}


async def _view(membership: Membership) -> MembershipView:
    """A view, once somebody leads who can give one. Raises PeerFailure where nobody does for LEADER_SECONDS."""
    deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
    while True:
        try:
            return await membership.view()
        except PeerFailure:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(POLL_SECONDS)


async def heal(context: NemesisContext) -> None:
    """See what was asked for to its end."""
    if context.membership is not None and context.pending:
        await _settle(context, context.membership, SETTLE_SECONDS)


async def _ask(context: NemesisContext, membership: Membership, changes: Sequence[Change]) -> None:
    """A change that is asked for takes the place of an earlier one of the same voter or partition."""
    before = dict(context.pending)
    context.pending |= {_subject(change): change for change in changes}
    context.unanswered -= context.pending.keys()
    try:
        for change in changes:
            if isinstance(change, VoterChange):
                await membership.change_voter(change)
        moves = [change for change in changes if isinstance(change, Reassignment)]
        if moves:
            await membership.reassign(moves)
    except NoAnswer:
        context.unanswered |= {_subject(change) for change in changes}
        raise
    except PeerFailure:
        context.pending = before
        raise


def _subject(change: Change) -> str:
    return f"n{change.node}" if isinstance(change, VoterChange) else f"{change.partition[0]}-{change.partition[1]}"


async def _settle(context: NemesisContext, membership: Membership, within_seconds: float) -> dict[str, Any]:
    """Poll until all is as asked. Raises PeerFailure that tells the state in which each of the others is stuck."""
    began = asyncio.get_running_loop().time()
    asked, forgotten, trouble = len(context.pending), 0, ""
    while context.pending:
        passed = asyncio.get_running_loop().time() - began
        try:
            view = await membership.view()
        except PeerFailure as error:
            trouble = str(error)
        else:
            left = {subject: change for subject, change in context.pending.items() if not change.is_done(view)}
            trouble = "; ".join(f"{change.text}: {change.state(view)}" for change in left.values())
            never = context.unanswered & left.keys() if passed > UNANSWERED_SECONDS else set()
            forgotten += len(never)
            context.pending = {subject: change for subject, change in left.items() if subject not in never}
        if context.pending and passed > within_seconds:
            context.pending = {}  # it has been told, and would only be told again
            raise PeerFailure(f"settling membership: not done after {within_seconds:g} s: {trouble}")
        await asyncio.sleep(POLL_SECONDS)
    context.unanswered.clear()
    never_asked = f", {forgotten} were never answered" if forgotten else ""
    return {"label": f"{asked - forgotten} changes of membership are as asked{never_asked}"}


def _moves(view: MembershipView, resolved: Resolved) -> Sequence[Change]:
    """Each drawn partition to as many nodes as it has copies, the drawn order begun at another place for each."""
    known, order = sorted(view.partitions), resolved["order"]
    moves: dict[Any, Change] = {}
    for number, drawn in enumerate(resolved["drawn"] if known else []):
        partition = known[drawn % len(known)]
        count = len(view.partitions[partition].replicas)
        replicas = tuple(order[(number + place) % len(order)] for place in range(count))
        moves[partition] = Reassignment(partition, replicas)
    return list(moves.values())


def _voter(view: MembershipView, nodes: Sequence[int], joins: bool) -> Sequence[Change]:
    """The first of these that can join, or leave a quorum that stays large enough."""
    if joins:
        return [VoterChange(node, True) for node in nodes if node in view.observers][:1]
    enough = len(view.voters) > VOTERS_MIN
    return [VoterChange(node, False) for node in nodes if node in view.voters and enough][:1]


def unavailable(context: NemesisContext, f: str) -> str | None:
    """Why an action cannot be done here, None where it can: partitions may move in a quorum whose voters stay."""
    reason = context.why_unavailable("membership")
    return reason or (context.unavailable.get(VOTERS) if f in OF_VOTERS else None)


def sample(random_: random.Random, _nodes: int) -> list[Step]:
    """Some partitions move, a voter leaves or joins, or preferred leaders are elected."""
    sequences = [
        [reassign(random_.randint(1, 4))],
        [remove_voter("all")],
        [add_voter("all")],
        [Step("elect", {"how": "preferred"})],
    ]
    return random_.choice(sequences)


FAULT = Fault(
    name="membership",
    summary="voters join and leave the quorum, partitions move to other nodes, leaders are elected",
    actions={
        "reassign": Action(Reassign, momentary=True),
        "add_voter": Action(OnNodes, momentary=True),
        "remove_voter": Action(OnNodes, momentary=True),
        "elect": Action(Elect, momentary=True),
        "await_membership": Action(Settle, momentary=True),
    },
    unavailable=unavailable,
    resolve=resolve,
    undo=lambda _f, _resolved: None,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=90,
    trials=((remove_voter("n3"), sleep(0.5)), (Step("elect", {"how": "preferred"}), sleep(0.2))),
)
