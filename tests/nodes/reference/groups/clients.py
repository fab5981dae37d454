"""Clients of a group coordinator: they send requests, and what it appends is committed when a test says so."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups import messages
from nodes.reference.core.groups.coordinator import GroupCoordinator, partition_of
from nodes.reference.core.groups.events import Append, Appended, Arrived, Elected, Event, Reply, Resigned, Tick
from nodes.reference.core.groups.settings import GroupSettings
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.wire.batches import Record

GROUP = "g"
SESSION_MS, REBALANCE_MS = 10_000, 60_000
T_0 = TopicPartition("t", 0)


@dataclass
class Clients:
    """One coordinator, from an empty partition on. commits_at_once: what it appends is committed at once."""

    settings: GroupSettings = field(default_factory=lambda: GroupSettings(initial_rebalance_delay_ms=0, partitions=1))
    commits_at_once: bool = True

    def __post_init__(self) -> None:
        self.now_ms, self._ids = 0, itertools.count(1)
        self.replies: dict[int, messages.Response] = {}
        self.appends: list[Append] = []  # those that wait for their outcome
        self.log: list[Record] = []
        member_ids = itertools.count(1)
        self.coordinator = GroupCoordinator(self.settings, lambda: str(next(member_ids)), 0)
        self.elect()

    @property
    def partition(self) -> int:
        """The group's partition."""
        return partition_of(GROUP, self.settings.partitions)

    def elect(self) -> None:
        """The broker is elected, with what the log has."""
        self.handle(Elected(self.partition, self.settings.partitions, list(self.log)))

    def resign(self) -> None:
        """The broker no longer leads the partition."""
        self.handle(Resigned(self.partition))

    def handle(self, event: Event) -> None:
        """Pass an event on, and take what follows from it."""
        for effect in self.coordinator.handle(event, self.now_ms):
            match effect:
                case Reply(request_id, response):
                    assert request_id not in self.replies, "a request has one response"
                    self.replies[request_id] = response
                case Append():
                    self.appends.append(effect)
        while self.commits_at_once and self.appends:
            self.commit_append()

    def commit_append(self, error: ErrorCode = ErrorCode.none) -> None:
        """The outcome of the oldest append."""
        append = self.appends.pop(0)
        if error is ErrorCode.none:
            self.log.extend(append.records)
        self.handle(Appended(append.append_id, error))

    def after(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.now_ms + milliseconds
        while self.coordinator.deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.coordinator.deadline_ms)
            self.handle(Tick())
        self.now_ms = end_ms

    def send(self, request: messages.Request) -> int:
        """Send a request; returns its id."""
        request_id = next(self._ids)
        self.handle(Arrived(request_id, request))
        return request_id

    def ask(self, request: messages.Request) -> Any:
        """The response to a request that is answered at once."""
        return self.replies[self.send(request)]

    def new_id(self, client: str = "c", **facts: Any) -> str:
        """The id that a new member is given."""
        refused = self.ask(joining("", client, **facts))
        assert refused.error is ErrorCode.member_id_required
        return str(refused.member_id)

    def describe(self) -> Any:
        """The group as DescribeGroups shows it."""
        return self.ask(messages.DescribeGroup(GROUP))

    def committed(self) -> Any:
        """All committed offsets."""
        return {
            each: offset.offset for each, offset in self.ask(messages.FetchOffsets(GROUP)).offsets.items() if offset
        }


def joining(member_id: str, client: str = "c", **facts: Any) -> messages.JoinGroup:
    """JoinGroup of a consumer with one protocol, range, unless the facts name others."""
    given = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS, "protocols": (("range", b"s"),)}
    return messages.JoinGroup(GROUP, member_id, "consumer", messages.MemberFacts(client, "/host", **(given | facts)))


def member(generation: int, member_id: str) -> messages.Membership:
    """A membership of the group."""
    return messages.Membership(GROUP, generation, member_id)


def commit(generation: int, member_id: str, offset: int) -> messages.CommitOffsets:
    """A commit of t-0's position."""
    return messages.CommitOffsets(member(generation, member_id), {T_0: messages.CommittedOffset(offset)})


def stable(clients: Clients, count: int) -> tuple[list[str], int]:
    """The ids of this many members of a stable group, the leader first, and its generation."""
    ids = [clients.new_id() for _ in range(count)]
    joins = [clients.send(joining(each)) for each in ids]
    first: Any = clients.replies[joins[0]]
    clients.ask(messages.SyncGroup(member(first.generation, ids[0]), {each: each.encode() for each in ids}))
    assert clients.describe().state is messages.GroupState.STABLE
    return ids, first.generation
