"""The members of a group by their ids, in the order in which they joined, and what follows from them alone.

A static member (KIP-345) has a name of its own, its instance, beside the id that it has at present.

Contains no decision about a rebalance; those are in group.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups.events import RequestId
from nodes.reference.core.groups.messages import MemberFacts


@dataclass(slots=True)
class Member:
    """A member. deadline_ms is when its session ends; it does not end while a request of the member waits.

    has_joined: it joined this generation, so that it has to sync.
    """

    facts: MemberFacts
    deadline_ms: int
    joining: RequestId | None = None
    syncing: RequestId | None = None
    assignment: bytes = b""
    has_joined: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether the coordinator owes it a response."""
        return self.joining is not None or self.syncing is not None


Members = Mapping[str, Member]


def id_of(members: Members, instance: str | None) -> str | None:
    """The id that a static member has now."""
    if instance is None:
        return None
    return next((member_id for member_id, each in members.items() if each.facts.instance == instance), None)


def why_not(members: Members, instance: str | None, member_id: str) -> ErrorCode:
    """Why this is not the id of a static member; none if it is, or the member is not static."""
    if instance is None:
        return ErrorCode.none
    known = id_of(members, instance)
    if known is None:
        return ErrorCode.unknown_member_id
    return ErrorCode.none if known == member_id else ErrorCode.fenced_instance_id


def replaced(members: Members, former: str, member_id: str, member: Member) -> dict[str, Member]:
    """The members with another one in place of a former one."""
    return {member_id if each == former else each: member if each == former else members[each] for each in members}


def instances_of(members: Members) -> dict[str, str]:
    """The names of the static members."""
    return {each: name for each, member in members.items() if (name := member.facts.instance) is not None}


def common_protocols(members: Sequence[MemberFacts]) -> set[str]:
    """The protocols that all of these members have; there is at least one member."""
    return set.intersection(*({name for name, _ in each.protocols} for each in members))


def chosen_protocol(members: Members) -> str:
    """The protocol that most members like best of those that all have."""
    common = common_protocols([each.facts for each in members.values()])
    votes = [next(name for name, _ in each.facts.protocols if name in common) for each in members.values()]
    return max(votes, key=votes.count)


def rebalance_timeout_ms(members: Members) -> int:
    """How long a rebalance may take; 0 without members."""
    return max((each.facts.rebalance_timeout_ms for each in members.values()), default=0)
