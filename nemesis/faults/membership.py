"""Membership changes: voters join and leave, partition replicas move, partition leaders are elected.

An election is verified by the action that requests it. A voter change or reassignment takes longer: its action requests
it, and it is pending until the quorum's views show it done and committed. The reassignment of one named partition is
also verified to have begun: the new replicas come first in the partition's assignment. `await_membership`, which
healing includes, waits for the pending changes and reports the state of each that is not done. A request without a
response may have been carried out, so its change is pending too, for UNANSWERED_SECONDS.

A story may expect that a voter change is refused, or that it is appended and not answered. The answer is compared with
that, and a difference is a finding of the check `responses`. What is pending follows from what happened: an accepted
change is, also where a refusal was expected, so that a change which is acknowledged and lost shows; a change without an
answer is for UNANSWERED_SECONDS, after which either outcome is right; a refused change is not, although Kafka may still
commit one that it refused with REQUEST_TIMED_OUT or NOT_LEADER_OR_FOLLOWER after it was appended.

Nothing is undone: voters and replicas stay where they are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.model import PeerFailure
from harness.model.faults.membership import (
    ADD_VOTER,
    MEMBERSHIP_SECONDS,
    REMOVE_VOTER,
    Change,
    Election,
    IsAnswered,
    Membership,
    MembershipView,
    Partition,
    Reassignment,
    Refusal,
    Refused,
    Replicas,
    VoterChange,
    add_voter,
    elect,
    reassign,
    remove_voter,
)
from harness.model.session import NoAnswer
from harness.model.story import Step, sleep
from nemesis.arguments import PARTITION, Arguments, ExpectedAnswer, OnNodes, Seconds
from nemesis.arguments import Replicas as ChosenReplicas
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved
from nemesis.voter_answers import answer_after, answer_to, compared_answer

VOTER_ACTIONS = (ADD_VOTER, REMOVE_VOTER)
VOTERS = "voters"
"""The name in NemesisContext.unavailable of the reason why voters cannot change."""
VOTERS_MIN = 2
POLL_SECONDS = 0.25
LEADER_SECONDS = 10.0
"""How long to wait for a leader of the quorum, and for the elected leaders of partitions."""
UNANSWERED_SECONDS = 15.0
"""How long to wait for a change whose request had no response before it counts as not carried out."""


class ChangeVoter(OnNodes, ExpectedAnswer):
    """Whose role changes, and whether the request is expected to be refused with an error, or not to be answered.

    is_answered is "any" if nothing is expected of the answer.
    """

    refused: Refusal | None = None
    is_answered: IsAnswered = True  # type: ignore[assignment]


class Reassign(Arguments):
    """How many randomly chosen partitions move to random nodes."""

    partitions: Annotated[int, Field(ge=1, le=1000)] = 1


class ReassignPartition(Arguments):
    """The partition, and its new replicas, the preferred one first."""

    partition: Annotated[str, PARTITION]
    replicas: ChosenReplicas


class Elect(Arguments):
    """Which kind of election to request, and for which partition; all that can be elected if it is None."""

    how: Literal["preferred", "unclean"] = "preferred"
    partition: Annotated[str, PARTITION] | None = None


class AwaitMembership(Arguments):
    """How long to wait for pending changes, and whether changes that are not done then are an error."""

    within_seconds: Seconds = MEMBERSHIP_SECONDS
    is_required: bool = True


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """All nodes in random order, or the nodes of the role in that order; and a random number for each partition."""
    order = context.shuffled()
    if "who" in value:
        chosen = context.nodes_in_role(value["who"])
        return {**value, "nodes": [node for node in order if node in chosen]}
    if f == "reassign_partition":
        return {**value, "nodes": list(value["replicas"])}
    count = value["partitions"] if f == "reassign" else 0
    return {**value, "order": list(order), "random_numbers": [context.draw(1 << 16) for _ in range(count)]}


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Request a change or election, or wait for pending changes; returns what was requested and a label.

    Raises PeerFailure if the request was refused, or what is awaited or elected is not so in time.
    """
    membership = context.membership
    assert membership is not None
    if f == "await_membership":
        return await _await_pending(context, membership, resolved["within_seconds"], resolved["is_required"])
    if f in VOTER_ACTIONS:
        return await _change_voter(context, membership, f, resolved)
    if f == "elect":
        return await _elect(membership, await _view(membership), resolved["how"], resolved["partition"])
    if f == "reassign_partition":
        return await _reassign_partition(context, membership, resolved)
    changes = _moves(await _view(membership), resolved)
    if not changes:
        return {"label": f"{f}: no partition to change"}
    await _request(context, membership, changes)
    words = "; ".join(change.text for change in changes)
    return {"changes": [change.text for change in changes], "label": words}


async def _change_voter(context: NemesisContext, membership: Membership, f: str, resolved: Resolved) -> dict[str, Any]:
    """Request one voter change, and compare its answer if a refusal or no answer is expected.

    Raises PeerFailure if success is expected and the request is refused, or if there is nothing to compare.
    """
    refused, is_answered = resolved["refused"], resolved["is_answered"]
    view = await _view(membership, with_partitions=False)
    is_any_possible = refused is not None or is_answered is not True
    change = _voter(view, resolved["nodes"], f == ADD_VOTER, is_any_possible)
    if change is None:
        return {"label": f"{f}: no node to change"}
    done = {"changes": [change.text], "nodes": [change.node], "name": change.text}
    if refused is None and is_answered is True:
        await _request_again_if_timed_out(context, membership, change)
        return {**done, "label": change.text}
    request = _request(context, membership, [change])
    if is_answered is True:
        found, message = await answer_to(request)
    else:
        appended = partial(_without_change, membership, change)
        found, message = await answer_after(request, f"requesting that {change.text}", appended)
    compared = [] if is_answered == "any" else compared_answer(refused, found)
    return {**done, "message": message, "compared": compared, "label": f"{change.text}: {found}"}


async def _without_change(membership: Membership, change: VoterChange) -> str | None:
    """None if the leader's voters are as requested, else how they differ."""
    view = await _view(membership, with_partitions=False)
    return None if change.is_done(view) else change.state(view)


async def _request_again_if_timed_out(context: NemesisContext, membership: Membership, change: VoterChange) -> None:
    """Request a change; again if the answer is REQUEST_TIMED_OUT, as Kafka's admin client does for LEADER_SECONDS.

    A leader answers so at once while it has no connection to a new voter that has just started.
    """
    deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
    while True:
        try:
            return await _request(context, membership, [change])
        except Refused as refusal:
            if refusal.error != "REQUEST_TIMED_OUT" or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(POLL_SECONDS)
        if change.is_done(await _view(membership, with_partitions=False)):  # it was appended nevertheless
            context.pending[_subject(change)] = change
            return None


async def _elect(membership: Membership, view: MembershipView, how: Election, name: str | None) -> dict[str, Any]:
    """Request elections of partitions that can be elected, and verify their effect.

    Others are not requested, because Kafka refuses a preferred election of a replica that is not in sync. Raises
    PeerFailure if the one named partition is among these.
    """
    partitions = [partition for partition, replicas in sorted(view.partitions.items()) if _can_elect(replicas, how)]
    if name is not None:
        chosen = _numbered(name)
        if chosen not in partitions:
            found = view.partitions.get(chosen, "no such partition")
            raise PeerFailure(f"{how} election of {name}: expected one that can be elected, found {found}")
        partitions = [chosen]
    if partitions:
        await membership.elect(partitions, how)
        view = await _verify_elections(membership, partitions, how)
    led = f" of {name}: n{view.partitions[partitions[0]].leader} leads" if name is not None else "s"
    return {"label": f"{how} election{led}"}


def _numbered(name: str) -> Partition:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


async def _reassign_partition(context: NemesisContext, membership: Membership, resolved: Resolved) -> dict[str, Any]:
    """Request the reassignment of one partition. Raises PeerFailure if its assignment does not begin as requested."""
    move = Reassignment(_numbered(resolved["partition"]), tuple(resolved["replicas"]))
    await _request(context, membership, [move])
    deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
    while True:
        view = await _view(membership)
        found = view.partitions.get(move.partition)
        if found is not None and found.replicas[: len(move.replicas)] == move.replicas:
            return {"changes": [move.text], "nodes": list(move.replicas), "label": move.text}
        if asyncio.get_running_loop().time() > deadline:
            raise PeerFailure(
                f"verifying that {move.text}: not effective after {LEADER_SECONDS:g} s: {move.state(view)}"
            )
        await asyncio.sleep(POLL_SECONDS)


def _can_elect(replicas: Replicas, how: Election) -> bool:
    return replicas.leader is None if how == "unclean" else replicas.replicas[0] in replicas.in_sync


async def _verify_elections(membership: Membership, partitions: Sequence[Partition], how: Election) -> MembershipView:
    """Poll until the elections have taken effect, and return the view that shows it.

    Raises PeerFailure that names the partitions where they have not.
    """
    deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
    while True:
        view = await _view(membership)
        failed = {partition: problem for partition in partitions if (problem := _not_elected(view, partition, how))}
        if not failed:
            return view
        if asyncio.get_running_loop().time() > deadline:
            problems = "; ".join(f"{topic}-{number}: {problem}" for (topic, number), problem in failed.items())
            raise PeerFailure(f"verifying {how} elections: not effective after {LEADER_SECONDS:g} s: {problems}")
        await asyncio.sleep(POLL_SECONDS)


def _not_elected(view: MembershipView, partition: Partition, how: Election) -> str | None:
    """What is wrong with the partition's leader after an election; None if it is as expected."""
    found = view.partitions.get(partition)
    if found is None:
        return "the partition does not exist"
    if how == "unclean":
        return f"expected a leader, found {found}" if found.leader is None else None
    preferred = found.replicas[0]
    if preferred not in found.in_sync or found.leader == preferred:
        return None
    return f"expected its preferred replica n{preferred} to lead, found {found}"


async def _view(membership: Membership, with_partitions: bool = True) -> MembershipView:
    """A view, once there is a leader to provide it. Raises PeerFailure if there is none for LEADER_SECONDS."""
    deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
    while True:
        try:
            return await membership.view(with_partitions)
        except PeerFailure:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(POLL_SECONDS)


async def heal(context: NemesisContext) -> None:
    """Wait for pending changes."""
    if context.membership is not None and context.pending:
        await _await_pending(context, context.membership, MEMBERSHIP_SECONDS)


async def _request(context: NemesisContext, membership: Membership, changes: Sequence[Change]) -> None:
    """Request changes. A change replaces a pending one of the same voter or partition."""
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
    except (NoAnswer, asyncio.CancelledError):
        context.unanswered |= {_subject(change) for change in changes}
        raise
    except PeerFailure:
        context.pending = before
        raise


def _subject(change: Change) -> str:
    return f"n{change.node}" if isinstance(change, VoterChange) else f"{change.partition[0]}-{change.partition[1]}"


async def _await_pending(
    context: NemesisContext, membership: Membership, within_seconds: float, is_required: bool = True
) -> dict[str, Any]:
    """Poll until all changes are done. Raises PeerFailure with the state of each that is not done in time.

    If they are not required, a label says so instead. In both cases nothing waits for them again.
    """
    start = asyncio.get_running_loop().time()
    requested, dropped, problem = len(context.pending), 0, ""
    with_partitions = any(isinstance(change, Reassignment) for change in context.pending.values())
    log_ends: dict[str, int] = {}
    while context.pending:
        elapsed = asyncio.get_running_loop().time() - start
        try:
            view = await membership.view(with_partitions)
        except PeerFailure as error:
            problem = str(error)
        else:
            left = _left(context.pending, view, log_ends)
            problem = "; ".join(f"{change.text}: {change.state(view)}" for change in left.values())
            unanswered = context.unanswered & left.keys() if elapsed > UNANSWERED_SECONDS else set()
            dropped += len(unanswered)
            context.pending = {subject: change for subject, change in left.items() if subject not in unanswered}
        if context.pending and elapsed > within_seconds:
            context.pending = {}  # they are reported now; the next heal does not report them again
            late = f"not done after {within_seconds:g} s: {problem}"
            if is_required:
                raise PeerFailure(f"waiting for membership changes: {late}")
            return {"label": f"membership changes {late}"}
        await asyncio.sleep(POLL_SECONDS)
    context.unanswered.clear()
    without_response = f", without response or effect: {dropped}" if dropped else ""
    return {"label": f"membership changes done: {requested - dropped}{without_response}"}


def _left(pending: Mapping[str, Change], view: MembershipView, log_ends: dict[str, int]) -> dict[str, Change]:
    """The changes that are not done, or not committed yet.

    log_ends has the leader's log end when a view first showed a change, by subject; it is updated.
    """
    for subject, change in pending.items():
        if change.is_done(view):
            log_ends.setdefault(subject, view.log_end)
        else:
            log_ends.pop(subject, None)
    return {
        subject: change
        for subject, change in pending.items()
        if subject not in log_ends or view.high_watermark < log_ends[subject]
    }


def _moves(view: MembershipView, resolved: Resolved) -> Sequence[Change]:
    """New replicas for each chosen partition, as many as it has: consecutive nodes of the order.

    Each partition begins one node later than the previous one.
    """
    known, order = sorted(view.partitions), resolved["order"]
    moves: dict[Any, Change] = {}
    for number, random_number in enumerate(resolved["random_numbers"] if known else []):
        partition = known[random_number % len(known)]
        count = len(view.partitions[partition].replicas)
        replicas = tuple(order[(number + place) % len(order)] for place in range(count))
        moves[partition] = Reassignment(partition, replicas)
    return list(moves.values())


def _voter(view: MembershipView, nodes: Sequence[int], joins: bool, is_any_possible: bool) -> VoterChange | None:
    """The change of the first of these nodes that can join, or can leave with VOTERS_MIN voters or more remaining.

    is_any_possible: of the first of these nodes, since the change need not succeed.
    """
    if is_any_possible:
        can_change = nodes
    elif joins:
        can_change = [node for node in nodes if node in view.observers]
    else:
        can_change = [node for node in nodes if node in view.voters and len(view.voters) > VOTERS_MIN]
    return VoterChange(can_change[0], joins) if can_change else None


def unavailable(context: NemesisContext, f: str) -> str | None:
    """Why an action is not possible here; None if it is. Partitions can move even if voters cannot change."""
    reason = context.why_unavailable("membership")
    return reason or (context.unavailable.get(VOTERS) if f in VOTER_ACTIONS else None)


def sample(random_source: random.Random, _nodes: int) -> list[Step]:
    """A reassignment, a voter that leaves or joins, or preferred elections."""
    sequences = [[reassign(random_source.randint(1, 4))], [remove_voter("all")], [add_voter("all")], [elect()]]
    return random_source.choice(sequences)


FAULT = Fault(
    name="membership",
    summary="voters join and leave the quorum, partitions move to other nodes, partition leaders are elected",
    actions={
        "reassign": Action(Reassign, momentary=True),
        "reassign_partition": Action(ReassignPartition, momentary=True),
        ADD_VOTER: Action(ChangeVoter, momentary=True),
        REMOVE_VOTER: Action(ChangeVoter, momentary=True),
        "elect": Action(Elect, momentary=True),
        "await_membership": Action(AwaitMembership, waits=True),
    },
    unavailable=unavailable,
    resolve=resolve,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=90,
    trials=((remove_voter("n3"), sleep(0.5)), (elect(), sleep(0.2))),
    checks=("responses",),
)
