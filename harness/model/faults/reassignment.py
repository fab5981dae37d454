"""Reassignment of a quorum's voters as a whole (KIP-642): the view, the capability, and the steps that request it.

A change of one voter at a time, as Kafka has it (KIP-853), is in harness.model.faults.membership.

Contains values and protocols. Does not contain requests or waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from harness.model.story import Step, Who

REASSIGN_VOTERS: Final = "reassign_voters"
AWAIT_VOTERS: Final = "await_voters"

VOTERS_SECONDS: Final = 60.0
"""How long a story waits for a reassignment by default."""

Refusal = Literal["INVALID_REPLICA_ASSIGNMENT", "INVALID_REQUEST", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"]
"""The errors with which a node refuses a reassignment, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class VotersView:
    """The voters that the leader reports, and those that a reassignment will end with; empty without one."""

    leader: int
    voters: tuple[int, ...]
    target: tuple[int, ...]

    def is_done(self, target: tuple[int, ...] | None) -> bool:
        """Whether no reassignment is pending and the voters are as requested; any if that was cancelled."""
        return not self.target and (target is None or self.voters == target)

    def __str__(self) -> str:
        pending = f", target {list(self.target)}" if self.target else ", no reassignment pending"
        return f"voters {list(self.voters)}{pending}, led by n{self.leader}"


Assigned = tuple[tuple[int, ...], tuple[int, ...] | None]
"""A record of the log: the voters, and those that a reassignment will end with; None without one."""


class QuorumVoters(Protocol):
    """A quorum whose voters are reassigned by one request."""

    async def view(self) -> VotersView:
        """What the leader reports. Raises PeerFailure if no node leads."""

    async def assignments(self, node: int | None = None) -> Sequence[Assigned]:
        """All assignments in the leader's log, in its order; or in that of this node, which leads, or believes so.

        Raises PeerFailure if no node leads, or this one does not.
        """

    async def reassign(self, node: int, voters: Sequence[int] | None) -> None:
        """Request of a node that these nodes become the voters, or with None that a reassignment be cancelled.

        Returns once the target is committed; the voters change afterwards. Raises membership.Refused if the node
        answers with an error, and NoAnswer if the request may have had its effect.
        """


def reassign_voters(
    voters: Sequence[int] | None, who: Who = "leader", refused: Refusal | None = None, is_answered: bool = True
) -> Step:
    """Request that these nodes become the voters, or with None that the reassignment be cancelled.

    refused is the error that is expected instead of success. With is_answered=False the leader is expected to append
    the target and not to answer, because it cannot commit; the step ends shortly after it has appended. What happens
    otherwise is a finding of the check `responses`.
    """
    expected: dict[str, Any] = {
        **({"refused": refused} if refused else {}),
        **({} if is_answered else {"is_answered": False}),
    }
    return Step(REASSIGN_VOTERS, {"who": who, "voters": None if voters is None else list(voters), **expected})


def await_voters(
    within_seconds: float = VOTERS_SECONDS,
    records: Sequence[Assigned] | None = None,
    pending: Sequence[int] | None = None,
) -> Step:
    """Wait until the last accepted reassignment is done, or, with pending, until the leader's log has come to these
    voters and has a target still.

    records are the assignments that the leader's log is expected to have then, from its beginning; others are a finding
    of the check `responses`.
    """
    expected: dict[str, Any] = {}
    if records is not None:
        expected["records"] = [
            {"current": list(now), **({} if end is None else {"target": list(end)})} for now, end in records
        ]
    if pending is not None:
        expected["pending"] = list(pending)
    return Step(AWAIT_VOTERS, {"within_seconds": within_seconds, **expected})
