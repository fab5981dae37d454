"""Who belongs to a quorum and where partitions' copies are, as values, and the capability to change both.

What may live here: the view, the changes that one may ask for, and whether a view shows a change done. What may not:
requests, waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Partition = tuple[str, int]
"""Topic and partition."""

Election = Literal["preferred", "unclean"]


@dataclass(frozen=True, slots=True)
class Replicas:
    """A partition's copies: replicas in order of preference, who is in sync, who leads (None: nobody).

    adding and removing are what a reassignment under way is yet to bring about (AlterPartitionReassignments, KIP-455).
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
class MembershipView:
    """The quorum's voters and observers as its leader tells them, and every partition of the users' topics."""

    voters: tuple[int, ...]
    observers: tuple[int, ...]
    partitions: Mapping[Partition, Replicas] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VoterChange:
    """A node becomes a voter, or is one no longer (KIP-853)."""

    node: int
    joins: bool

    @property
    def words(self) -> str:
        """E.g. 'n3 becomes a voter'."""
        return f"n{self.node} {'becomes' if self.joins else 'is no longer'} a voter"

    def is_done(self, view: MembershipView) -> bool:
        """Whether the voters are as asked."""
        return (self.node in view.voters) is self.joins

    def state(self, view: MembershipView) -> str:
        """What is there instead."""
        return f"voters {list(view.voters)}, observers {list(view.observers)}"


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition's copies move to these nodes."""

    partition: Partition
    replicas: tuple[int, ...]

    @property
    def words(self) -> str:
        """E.g. 'log-0 moves to n1, n2'."""
        return f"{self.partition[0]}-{self.partition[1]} moves to {', '.join(f'n{node}' for node in self.replicas)}"

    def is_done(self, view: MembershipView) -> bool:
        """Whether the copies are where they were asked to be, all in sync, with no move under way."""
        found = view.partitions.get(self.partition)
        if found is None or found.adding or found.removing:
            return False
        return set(found.replicas) == set(self.replicas) == set(found.in_sync)

    def state(self, view: MembershipView) -> str:
        """What is there instead."""
        return str(view.partitions.get(self.partition, "the partition is not there"))


Change = VoterChange | Reassignment


class Membership(Protocol):
    """A quorum with its brokers whose members can be changed.

    Every call raises PeerFailure where it was refused, in the peer's words, and NoAnswer where it may have happened.
    """

    async def view(self) -> MembershipView:
        """Who belongs to it now. Raises PeerFailure where nobody can tell."""

    async def change_voter(self, change: VoterChange) -> None:
        """Ask the leader to add or remove a voter."""

    async def reassign(self, moves: Sequence[Reassignment]) -> None:
        """Ask the active controller to move partitions."""

    async def elect(self, partitions: Sequence[Partition], how: Election) -> None:
        """Ask the active controller for elections; a partition that needs none is passed over."""
