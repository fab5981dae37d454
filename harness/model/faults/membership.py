"""Members of a quorum and replicas of partitions, the capability to change both, and the steps that request it.

Contains the view, the changes, and whether a view shows that a change is complete. Does not contain requests or
waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from harness.model.errors import PeerFailure
from harness.model.story import Step, Who

ADD_VOTER: Final = "add_voter"
REMOVE_VOTER: Final = "remove_voter"

Partition = tuple[str, int]
"""Topic and partition."""

Election = Literal["preferred", "unclean"]

MEMBERSHIP_SECONDS: Final = 90.0
"""How long a story waits for requested changes by default."""

Refusal = Literal[
    "DUPLICATE_VOTER",
    "INVALID_REQUEST",
    "INVALID_VOTER_KEY",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "UNSUPPORTED_VERSION",
    "VOTER_NOT_FOUND",
]
"""The errors with which Kafka refuses a voter change (KIP-853, AddRaftVoter and RemoveRaftVoter)."""

IsAnswered = bool | Literal["any"]
"""Whether a voter change is expected to be answered; "any": either is right."""


class Refused(PeerFailure):
    """A request was answered with this error of Kafka, by its name in upper case."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Replicas:
    """A partition's replicas in order of preference, its in-sync replicas and its leader (None if it has none).

    adding and removing are the replicas that an ongoing reassignment has still to add or remove (KIP-455).
    """

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int | None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def __str__(self) -> str:
        moving = "".join(
            f", {word} {list(nodes)}" for word, nodes in (("adding", self.adding), ("removing", self.removing)) if nodes
        )
        led = "no leader" if self.leader is None else f"led by n{self.leader}"
        return f"replicas {list(self.replicas)}, in sync {list(self.in_sync)}, {led}{moving}"


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers that an ongoing reassignment ends with, or those that replicate the partition; neither if unknown."""

    replicas: tuple[int, ...] | None = None
    target: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class MembershipView:
    """The voters and observers that the quorum's leader reports, and all partitions of users' topics.

    The voters are those of the last record in the leader's log, committed or not. It is committed once a high watermark
    has reached a log_end of a view with these voters. Both are 0 without a quorum.
    """

    voters: tuple[int, ...]
    observers: tuple[int, ...]
    partitions: Mapping[Partition, Replicas] = field(default_factory=dict)
    log_end: int = 0
    high_watermark: int = 0


@dataclass(frozen=True, slots=True)
class VoterChange:
    """A node is added or removed as a voter (KIP-853)."""

    node: int
    joins: bool

    @property
    def text(self) -> str:
        """E.g. 'n3 becomes a voter'."""
        return f"n{self.node} {'becomes' if self.joins else 'is no longer'} a voter"

    def is_done(self, view: MembershipView) -> bool:
        """Whether the voters are as requested."""
        return (self.node in view.voters) is self.joins

    def state(self, view: MembershipView) -> str:
        """The current state of what the change concerns."""
        return f"voters {list(view.voters)}, observers {list(view.observers)}"


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition's replicas move to these nodes."""

    partition: Partition
    replicas: tuple[int, ...]

    @property
    def text(self) -> str:
        """E.g. 'log-0 moves to n1, n2'."""
        return f"{self.partition[0]}-{self.partition[1]} moves to {', '.join(f'n{node}' for node in self.replicas)}"

    def is_done(self, view: MembershipView) -> bool:
        """Whether the replicas are as requested and all in sync, and no reassignment is ongoing."""
        found = view.partitions.get(self.partition)
        if found is None or found.adding or found.removing:
            return False
        return set(found.replicas) == set(self.replicas) == set(found.in_sync)

    def state(self, view: MembershipView) -> str:
        """The current state of what the change concerns."""
        return str(view.partitions.get(self.partition, "the partition does not exist"))


Change = VoterChange | Reassignment


class Membership(Protocol):
    """A quorum and its brokers, whose members can be changed.

    Every call raises PeerFailure with the peer's message if it is refused, and NoAnswer if it may have taken effect.
    """

    async def view(self, with_partitions: bool = True) -> MembershipView:
        """The current members. Raises PeerFailure if no node can report them.

        A leader that cannot commit reports voters and observers, but no partitions.
        """

    async def change_voter(self, change: VoterChange) -> None:
        """Request that the leader add or remove a voter. Raises Refused if it answers with an error."""

    async def reassign(self, moves: Sequence[Reassignment]) -> None:
        """Request that the active controller reassign partitions."""

    async def elect(self, partitions: Sequence[Partition], how: Election) -> None:
        """Request leader elections from the active controller; a partition that needs none is skipped."""


def reassign(partitions: int = 1) -> Step:
    """Move the replicas of this many partitions to other nodes."""
    return Step("reassign", {"partitions": partitions})


def reassign_partition(partition: str, replicas: Sequence[int]) -> Step:
    """Request that a partition have these replicas, the preferred one first; `await_membership` waits for their copies.

    Replicas that are down or lag are no obstacle to the request: Kafka adds the new ones before it removes any.
    """
    return Step("reassign_partition", {"partition": partition, "replicas": list(replicas)})


def add_voter(who: Who, refused: Refusal | None = None, is_answered: IsAnswered = True) -> Step:
    """Make an observer a voter: of a role of several nodes, the first that is not one yet.

    refused is the error that is expected instead of success, for the first node of the role whatever it is. With
    is_answered=False the leader is expected to append the change and not to answer, because it cannot commit; the step
    ends as soon as it has appended. What happens otherwise is a finding of the check `responses`. With
    is_answered="any" the step ends so, too, and every answer is right.
    """
    return Step(ADD_VOTER, {"who": who, **_expected(refused, is_answered)})


def remove_voter(who: Who, refused: Refusal | None = None, is_answered: IsAnswered = True) -> Step:
    """Make a voter an observer: of a role of several nodes, the first that is one. For the rest see add_voter."""
    return Step(REMOVE_VOTER, {"who": who, **_expected(refused, is_answered)})


def _expected(refused: Refusal | None, is_answered: IsAnswered) -> dict[str, str | bool]:
    return {
        **({"refused": refused} if refused else {}),
        **({} if is_answered is True else {"is_answered": is_answered}),
    }


def elect(how: Election = "preferred", partition: str | None = None) -> Step:
    """Elect the leaders of all partitions that can be elected, or of one, which must be possible.

    The preferred replicas are elected, or (unclean) any replica where there is no leader.
    """
    return Step("elect", {"how": how} if partition is None else {"how": how, "partition": partition})


def await_membership(within_seconds: float = MEMBERSHIP_SECONDS, is_required: bool = True) -> Step:
    """Wait until all requested changes are done, or, if they are not required, for this long."""
    value: dict[str, Any] = {"within_seconds": within_seconds}
    return Step("await_membership", value if is_required else {**value, "is_required": False})
