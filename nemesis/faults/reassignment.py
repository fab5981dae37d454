"""Reassignment of the quorum's voters as a whole (KIP-642): one request names all voters of the future.

The request is verified by its answer: success means that the target is committed. The voters then change one at a time;
`await_voters`, which healing includes, waits until they are as requested. A story may expect that the request is
refused, or appended and not answered; a difference is a finding of the check `responses`. A request without an answer
may have had its effect, so nothing is awaited after it but the end of whatever is pending.

Nothing is undone: the voters stay as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator

from harness.model import PeerFailure
from harness.model.expected import Compared
from harness.model.faults.reassignment import (
    AWAIT_VOTERS,
    REASSIGN_VOTERS,
    VOTERS_SECONDS,
    Assigned,
    QuorumVoters,
    Refusal,
    await_voters,
    reassign_voters,
)
from harness.model.story import Step
from nemesis.arguments import Arguments, ExpectedAnswer, Replicas, Seconds, Who
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved
from nemesis.voter_answers import answer_after, answer_to, compared_answer

POLL_SECONDS = 0.25

Voters = Annotated[Replicas, AfterValidator(sorted)]


class ReassignVoters(ExpectedAnswer):
    """Of whom to request it, and the voters of the future; none cancels. What is expected as membership's changes."""

    who: Who = "leader"
    voters: Voters | None
    refused: Refusal | None = None


class Record(Arguments):
    """One assignment in the log; without a target no reassignment is pending."""

    current: Voters
    target: Voters | None = None

    def __str__(self) -> str:
        return shown((tuple(self.current), None if self.target is None else tuple(self.target)))


class AwaitVoters(Arguments):
    """How long to wait, the voters to wait for while a reassignment is pending, the records expected in the log."""

    within_seconds: Seconds = VOTERS_SECONDS
    pending: Voters | None = None
    records: list[Record] | None = None


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The arguments, with the one node of the role."""
    if f == AWAIT_VOTERS:
        return value
    return {**value, "nodes": [context.require_one(f, value["who"])]}


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Request a reassignment, or wait for its end; returns the nodes and a label.

    Raises PeerFailure if an unexpected error is the answer, or if the reassignment is not done in time.
    """
    assert context.reassignment is not None, "unavailable actions are refused before"
    if f == AWAIT_VOTERS:
        return await _await_voters(context, context.reassignment, resolved)
    (node,), voters = resolved["nodes"], resolved["voters"]
    words = "the reassignment is cancelled" if voters is None else f"the voters become {voters}"
    done = {"nodes": [node], "voters": voters, "name": words}
    if resolved["refused"] is None and resolved["is_answered"]:
        context.has_reassigned, context.awaited_voters = True, None
        await context.reassignment.reassign(node, voters)
        context.awaited_voters = None if voters is None else tuple(voters)
        return {**done, "label": words}
    context.has_reassigned, context.awaited_voters = True, None
    request = context.reassignment.reassign(node, voters)
    if resolved["is_answered"]:
        found, message = await answer_to(request)
    else:
        appended = partial(_log_without, context.reassignment, node, None if voters is None else tuple(voters))
        found, message = await answer_after(request, f"n{node}: {words}", appended)
    compared = compared_answer(resolved["refused"], found)
    return {**done, "message": message, "compared": compared, "label": f"{words}: {found}"}


async def _log_without(quorum: QuorumVoters, node: int, target: tuple[int, ...] | None) -> str | None:
    """None if the last assignment in the node's log has the target, else that assignment."""
    last = (await quorum.assignments(node))[-1]
    return None if last[1] == target else f"its log ends with {shown(last)}"


async def _await_voters(context: NemesisContext, quorum: QuorumVoters, resolved: Resolved) -> dict[str, Any]:
    """Wait, and compare the records of the log if some are expected."""
    pending, expected = resolved["pending"], resolved["records"]
    label = await _await(context, quorum, resolved["within_seconds"], None if pending is None else tuple(pending))
    if expected is None:
        return {"label": label}
    found = [shown(each) for each in await quorum.assignments()]
    wanted = [str(Record(**each)) for each in expected]
    compared = Compared("records", "; ".join(wanted), "; ".join(found), found == wanted)
    return {"label": label, "name": "voter assignments in the log", "compared": [compared.to_json()]}


def shown(assigned: Assigned) -> str:
    """E.g. '1,2,3 → 4,5,6', and '4,5,6' without a target."""
    current, target = (None if each is None else ",".join(map(str, each)) for each in assigned)
    return f"{current}" if target is None else f"{current} → {target}"


async def _await(
    context: NemesisContext, quorum: QuorumVoters, within_seconds: float, pending: tuple[int, ...] | None = None
) -> str:
    """Poll until no reassignment is pending and the voters are as requested, or until a pending one has come this far.

    Raises PeerFailure with what is seen.
    """
    deadline = asyncio.get_running_loop().time() + within_seconds
    awaited = context.awaited_voters
    while True:
        try:
            view = await quorum.view()
            has_come = pending is not None and await _has_come_to(quorum, pending)
        except PeerFailure as error:
            problem = str(error)
        else:
            problem = str(view)
            if has_come:
                return f"reassignment pending: voters {list(pending or ())}"
            if pending is None and view.is_done(awaited):
                context.has_reassigned, context.awaited_voters = False, None
                return f"reassignment done: {view}"
        if asyncio.get_running_loop().time() > deadline:
            context.has_reassigned, context.awaited_voters = False, None  # a later heal does not report it again
            awaited = awaited if pending is None else pending
            wanted = "any voters, no reassignment pending" if awaited is None else f"voters {list(awaited)}"
            raise PeerFailure(f"waiting for {wanted}: not so after {within_seconds:g} s: {problem}")
        await asyncio.sleep(POLL_SECONDS)


async def _has_come_to(quorum: QuorumVoters, voters: tuple[int, ...]) -> bool:
    """Whether the last assignment in the leader's log has these voters, and a target still."""
    current, target = (await quorum.assignments())[-1]
    return current == voters and target is not None


async def heal(context: NemesisContext) -> None:
    """Wait for the end of what was requested."""
    if context.reassignment is not None and context.has_reassigned:
        await _await(context, context.reassignment, VOTERS_SECONDS)


def unavailable(context: NemesisContext, _f: str) -> str | None:
    """Why the system cannot do this; None if it can."""
    return context.why_unavailable("reassignment")


def sample(random_source: random.Random, nodes: int) -> list[Step]:
    """A reassignment to random nodes, at most five."""
    count = random_source.randint(1, min(5, nodes))
    return [reassign_voters(sorted(random_source.sample(range(1, nodes + 1), count)))]


FAULT = Fault(
    name="reassignment",
    summary="the voters of the quorum are reassigned as a whole (KIP-642)",
    actions={
        REASSIGN_VOTERS: Action(ReassignVoters, momentary=True),
        AWAIT_VOTERS: Action(AwaitVoters, waits=True),
    },
    unavailable=unavailable,
    resolve=resolve,
    inject=inject,
    heal=heal,
    sample=sample,
    heal_order=90,
    trials=((reassign_voters([1, 2]), await_voters(), reassign_voters([1, 2, 3]), await_voters()),),
    checks=("responses",),
)
