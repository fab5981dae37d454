"""The fault that reassigns a quorum's voters: what it requests, awaits and compares."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from harness.model import PeerFailure
from harness.model.faults.membership import Refused
from harness.model.faults.reassignment import Assigned, VotersView, await_voters, reassign_voters
from harness.model.session import NoAnswer
from harness.model.story import Step
from nemesis import voter_answers
from nemesis.context import NemesisContext
from nemesis.faults import reassignment

FIRST: Assigned = ((1, 2, 3), None)


class Quorum:
    """A quorum that answers as told, and whose leader reports one view after the other, the last one forever."""

    def __init__(
        self, *views: VotersView, answer: Exception | None = None, hangs: bool = False, appends: bool = True
    ) -> None:
        self.views, self.requests = list(views), []  # type: ignore[var-annotated]
        self.log: list[Assigned] = [FIRST]
        self._answer, self._hangs, self._appends = answer, hangs, appends

    async def view(self) -> VotersView:
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]

    async def assignments(self, node: int | None = None) -> Sequence[Assigned]:  # noqa: ARG002
        return self.log

    async def reassign(self, node: int, voters: Sequence[int] | None) -> None:
        self.requests.append((node, voters))
        if self._appends:
            self.log = [*self.log, ((1, 2, 3), None if voters is None else tuple(voters))]
        if self._hangs:
            await asyncio.Event().wait()
        if self._answer is not None:
            raise self._answer


SETTLED = VotersView(1, (1, 2, 3), ())
PENDING = VotersView(1, (1, 2, 4), (4, 5))
DONE = VotersView(4, (4, 5), ())


def perform(context: NemesisContext, quorum: Quorum, *steps: Step) -> list[dict[str, Any]]:
    """Carry out steps; what each of them did."""
    context.reassignment = quorum

    async def main() -> list[dict[str, Any]]:
        done = []
        for step in steps:
            value = reassignment.FAULT.actions[step.f].complete(step.value)
            done.append(await reassignment.inject(context, step.f, reassignment.resolve(context, step.f, value)))
        return done

    return asyncio.run(main())


def test_leader_is_asked_and_the_end_is_awaited(context: NemesisContext) -> None:
    quorum = Quorum(PENDING, DONE)
    requested, awaited = perform(context, quorum, reassign_voters([5, 4]), await_voters())
    assert quorum.requests == [(2, [4, 5])]
    assert requested["label"] == "the voters become [4, 5]"
    assert awaited["label"] == "reassignment done: voters [4, 5], no reassignment pending, led by n4"
    assert not context.has_reassigned


def test_other_voters_than_requested_are_reported_in_time(context: NemesisContext) -> None:
    with pytest.raises(PeerFailure, match=r"waiting for voters \[4, 5\]: not so after 0.1 s: voters \[1, 2, 3\]"):
        perform(context, Quorum(SETTLED), reassign_voters([4, 5]), await_voters(within_seconds=0.1))


def test_after_a_cancellation_any_voters_will_do(context: NemesisContext) -> None:
    quorum = Quorum(SETTLED)
    perform(context, quorum, reassign_voters(None), await_voters())
    assert quorum.requests == [(2, None)]


def test_pending_reassignment_is_awaited_as_far_as_told(context: NemesisContext) -> None:
    quorum = Quorum(SETTLED, PENDING)
    quorum.log = [FIRST, ((1, 2, 4), (4, 5))]
    (done,) = perform(context, quorum, await_voters(pending=[1, 2, 4]))
    assert done["label"] == "reassignment pending: voters [1, 2, 4]"


def test_records_of_the_log_are_compared(context: NemesisContext) -> None:
    quorum = Quorum(SETTLED)
    quorum.log = [FIRST, ((1, 2, 3), (4, 5))]
    same, other = perform(context, quorum, await_voters(records=quorum.log), await_voters(records=[FIRST]))
    assert [each["compared"][0]["holds"] for each in (same, other)] == [True, False]
    assert other["compared"][0]["found"] == "1,2,3; 1,2,3 → 4,5"


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (Quorum(SETTLED, answer=Refused("no", "NOT_LEADER_OR_FOLLOWER")), ("NOT_LEADER_OR_FOLLOWER", True)),
        (Quorum(SETTLED, answer=Refused("no", "INVALID_REQUEST")), ("INVALID_REQUEST", False)),
        (Quorum(SETTLED), ("accepted", False)),
    ],
)
def test_refusal_is_compared(context: NemesisContext, quorum: Quorum, expected: tuple[str, bool]) -> None:
    (done,) = perform(context, quorum, reassign_voters([1, 2], "n3", refused="NOT_LEADER_OR_FOLLOWER"))
    assert quorum.requests == [(3, [1, 2])]
    assert (done["compared"][0]["found"], done["compared"][0]["holds"]) == expected


@pytest.mark.parametrize("quorum", [Quorum(SETTLED, answer=NoAnswer("gone")), Quorum(SETTLED, hangs=True)])
def test_missing_answer_is_as_expected(context: NemesisContext, quorum: Quorum) -> None:
    (done,) = perform(context, quorum, reassign_voters([1, 2], is_answered=False))
    assert (done["compared"][0]["found"], done["compared"][0]["holds"]) == ("no answer", True)


def test_request_that_is_neither_appended_nor_answered_is_a_failure(
    context: NemesisContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voter_answers, "APPEND_SECONDS", 0.1)
    quorum = Quorum(SETTLED, hangs=True, appends=False)
    expected = r"n2: the voters become \[1, 2\]: not appended after 0.1 s: its log ends with 1,2,3$"
    with pytest.raises(PeerFailure, match=expected):
        perform(context, quorum, reassign_voters([1, 2], is_answered=False))


def test_unexpected_refusal_is_a_failure(context: NemesisContext) -> None:
    with pytest.raises(Refused):
        perform(context, Quorum(SETTLED, answer=Refused("no", "INVALID_REQUEST")), reassign_voters([1, 2]))


def test_healing_waits_for_what_was_requested(context: NemesisContext) -> None:
    quorum = Quorum(PENDING, PENDING, DONE)
    perform(context, quorum, reassign_voters([4, 5]))
    asyncio.run(reassignment.heal(context))
    assert not context.has_reassigned


@pytest.mark.parametrize(
    "value", [{"voters": []}, {"voters": [1, 1]}, {"voters": [1], "refused": "INVALID_REQUEST", "is_answered": False}]
)
def test_impossible_arguments_are_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        reassignment.FAULT.actions["reassign_voters"].complete(value)
