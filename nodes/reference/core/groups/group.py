"""One group: its members, its generations, and how it rebalances.

    Empty ─ a member joins ─► PreparingRebalance ─ all have joined ─► CompletingRebalance ─ assignments stored ─► Stable
      ▲                         │       ▲                                                                           │
      └─── no member is left ───┘       └──────────── a member joins, leaves, or is silent for too long ────────────┘

A member waits in a join until all others have joined, or until the rebalance timeout; a member that has not joined by
then is removed, unless it is static. The leader is told of all members, and syncs with an assignment for each; they are
stored before any member gets its own. Sources: Kafka's classic protocol (KIP-62), KIP-134 (the initial delay), KIP-394
(new members join with the id that they were given), KIP-345 (static members).

A static member has a name of its own and keeps its place when it restarts: the group gives it another id, and a request
with the former id is fenced. It is removed when its session ends.

Contains one group's generations; what follows from its members alone is in members.py. Offsets, and what a coordinator
does with requests for others, are in coordinator.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from nodes.reference.core.groups.context import NEVER_MS, Context
from nodes.reference.core.groups.events import RequestId
from nodes.reference.core.groups.members import (
    Member,
    chosen_protocol,
    common_protocols,
    id_of,
    instances_of,
    rebalance_timeout_ms,
    replaced,
    why_not,
)
from nodes.reference.core.groups.messages import (
    DescribedMember,
    Ended,
    GroupDescription,
    GroupState,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    Leaver,
    LeaveResponse,
    MemberFacts,
    Membership,
    SyncGroup,
    SyncResponse,
)
from nodes.reference.core.groups.records import StoredGroup, StoredMember, group_record

EMPTY, STABLE, DEAD = GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


_SyncAnswer = Callable[[Member], SyncResponse]


@dataclass(slots=True)
class _Delay:
    """How an empty group's first rebalance waits for more members (KIP-134): how much longer it may be delayed, and
    whether one has joined since the last time."""

    left_ms: int = 0
    is_waiting: bool = False
    has_grown: bool = False


class Group:
    """A group, from the first request about it on, or from what is stored of it."""

    def __init__(self, context: Context, partition: int, name: str, stored: StoredGroup | None = None) -> None:
        self._context, self._partition, self.name = context, partition, name
        self.state = EMPTY
        self.protocol_type = stored.protocol_type if stored else ""
        self.generation = stored.generation if stored else 0
        self._protocol = stored.protocol if stored else None
        self._leader = stored.leader if stored else None
        self._members: dict[str, Member] = {}
        self._invited: dict[str, int] = {}  # ids that were given to new members, and until when they may join
        self._deadline_ms = NEVER_MS  # of the rebalance: of joins, or of syncs
        self._delay = _Delay()
        self._is_storing = False
        for member_id, member in (stored.members if stored else {}).items():
            self._members[member_id] = Member(
                member.facts, self._session_ends_ms(member.facts), None, None, member.assignment
            )
            self.state = STABLE

    @property
    def members(self) -> Mapping[str, Member]:
        """The members, for reading."""
        return self._members

    # Requests.

    def join(self, request_id: RequestId, request: JoinGroup) -> None:
        """Handle JoinGroup; the reply follows when the rebalance is complete."""
        facts, member_id = request.facts, request.member_id
        if not self._accepts(request):
            self._refuse_join(request_id, member_id, ErrorCode.inconsistent_group_protocol)
        elif facts.instance is not None and not member_id:
            self._join_static(request_id, request, facts.instance)
        elif (error := why_not(self._members, facts.instance, member_id)) is not ErrorCode.none:
            self._refuse_join(request_id, member_id, error)
        elif not member_id:
            self._join_new(request_id, request)
        elif member_id in self._invited:
            del self._invited[member_id]
            self._add(member_id, request, request_id)
        elif member_id not in self._members:
            self._refuse_join(request_id, member_id, ErrorCode.unknown_member_id)
        else:
            self._join_again(request_id, member_id, facts)

    def _accepts(self, request: JoinGroup) -> bool:
        """Whether the group has no members, or they have the protocol's type and a protocol in common with this one."""
        names = {name for name, _ in request.facts.protocols}
        former = id_of(self._members, request.facts.instance) or request.member_id
        others = [each.facts for member_id, each in self._members.items() if member_id != former]
        if not names or not request.protocol_type:
            return False
        return not others or (request.protocol_type == self.protocol_type and bool(names & common_protocols(others)))

    def _join_new(self, request_id: RequestId, request: JoinGroup) -> None:
        member_id = f"{request.facts.client_id}-{self._context.new_id()}"
        if request.knows_its_id:
            self._invited[member_id] = self._session_ends_ms(request.facts)
            self._refuse_join(request_id, member_id, ErrorCode.member_id_required)
        else:
            self._add(member_id, request, request_id)

    def _join_static(self, request_id: RequestId, request: JoinGroup, instance: str) -> None:
        """A static member joins for the first time, or has restarted."""
        former, member_id = id_of(self._members, instance), f"{instance}-{self._context.new_id()}"
        if former is None:
            self._add(member_id, request, request_id)
            return
        before = self._members[former]
        self._fence(former, before)
        member = Member(request.facts, self._session_ends_ms(request.facts), None, None, before.assignment)
        self._members = replaced(self._members, former, member_id, member)
        is_leader = self._leader == former
        self._leader = member_id if is_leader else self._leader
        if self.state is STABLE and self._asks_for_the_same(before.facts, request.facts):
            self._keep_place(request_id, request, member_id, former if is_leader else None)
        else:
            member.joining = request_id
            self._rebalance(f"static member {instance} has restarted as {member_id}")

    def _fence(self, member_id: str, member: Member) -> None:
        if member.joining is not None:
            self._refuse_join(member.joining, member_id, ErrorCode.fenced_instance_id)
        if member.syncing is not None:
            self._context.reply(member.syncing, SyncResponse(ErrorCode.fenced_instance_id))

    def _asks_for_the_same(self, before: MemberFacts, after: MemberFacts) -> bool:
        """Whether the group's protocol stays what it is, and what this member needs of it too."""
        protocol = self._protocol or ""
        is_same = dict(before.protocols).get(protocol) == dict(after.protocols).get(protocol)
        return is_same and chosen_protocol(self._members) == protocol

    def _keep_place(self, request_id: RequestId, request: JoinGroup, member_id: str, led_as: str | None) -> None:
        """Answer a restarted member without a rebalance, once its new id is stored; led_as: its id as the leader.

        A leader would assign the partitions anew. It is told not to, or, if it cannot be, that its former id leads.
        """
        response = self._joined(member_id)
        if led_as is not None and request.may_skip_assignment:
            response = replace(response, skips_assignment=True)
        elif led_as is not None:
            response = replace(response, leader=led_as, members={}, instances={})

        def stored(error: ErrorCode) -> None:
            is_stored = error is ErrorCode.none
            self._context.reply(request_id, response if is_stored else JoinResponse(error, member_id))

        assignments = {each: member.assignment for each, member in self._members.items()}
        self._context.append(self._partition, (group_record(self.name, self._stored(assignments)),), stored)

    def _refuse_join(self, request_id: RequestId, member_id: str, error: ErrorCode) -> None:
        self._context.reply(request_id, JoinResponse(error, member_id))

    def _add(self, member_id: str, request: JoinGroup, request_id: RequestId) -> None:
        if not self._members:
            self.protocol_type = request.protocol_type
        self._members[member_id] = Member(request.facts, self._session_ends_ms(request.facts), request_id)
        self._delay.has_grown = True
        self._rebalance(f"member {member_id} joins")

    def _join_again(self, request_id: RequestId, member_id: str, facts: MemberFacts) -> None:
        member = self._members[member_id]
        is_same = facts.protocols == member.facts.protocols
        has_changed = not is_same or (self.state is STABLE and member_id == self._leader)
        if self.state is not PREPARING and not has_changed:
            self._end_session_later(member)
            self._context.reply(request_id, self._joined(member_id))
            return
        if member.joining is not None:
            self._refuse_join(member.joining, member_id, ErrorCode.unknown_member_id)
        member.facts, member.joining = facts, request_id
        self._rebalance(f"member {member_id} joins again")

    def sync(self, request_id: RequestId, request: SyncGroup) -> None:
        """Handle SyncGroup; the reply follows when the leader's assignments are stored."""
        membership = request.membership
        error = self._error(membership)
        if error is ErrorCode.none and self.state is PREPARING:
            error = ErrorCode.rebalance_in_progress
        if error is not ErrorCode.none:
            self._context.reply(request_id, SyncResponse(error))
            return
        member = self._members[membership.member_id]
        self._end_session_later(member)
        if self.state is STABLE:
            self._context.reply(request_id, self._synced(member))
            return
        if member.syncing is not None:
            self._context.reply(member.syncing, SyncResponse(ErrorCode.rebalance_in_progress))
        member.syncing = request_id
        if membership.member_id == self._leader and not self._is_storing:
            self._store_assignments(request.assignments)

    def _error(self, membership: Membership) -> ErrorCode:
        """Why this is no member of the generation; none if it is one."""
        if self.state is DEAD:
            return ErrorCode.coordinator_not_available
        if (error := why_not(self._members, membership.instance, membership.member_id)) is not ErrorCode.none:
            return error
        if membership.member_id not in self._members:
            return ErrorCode.unknown_member_id
        if membership.generation != self.generation:
            return ErrorCode.illegal_generation
        is_other_type = membership.protocol_type not in (None, self.protocol_type)
        if is_other_type or membership.protocol not in (None, self._protocol):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.none

    def _store_assignments(self, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignments; a member that it left out gets an empty one."""
        generation = self.generation
        by_member = {member_id: assignments.get(member_id, b"") for member_id in self._members}

        def stored(error: ErrorCode) -> None:
            if self.generation != generation or self.state is not COMPLETING:
                return
            self._is_storing = False
            if error is not ErrorCode.none:
                self._answer_syncs(lambda _: SyncResponse(error))
                self._rebalance(f"storing the assignments: {error.name}")
                return
            for member_id, assignment in by_member.items():
                if member_id in self._members:
                    self._members[member_id].assignment = assignment
            self.state, self._deadline_ms = STABLE, NEVER_MS
            self._answer_syncs(self._synced)

        self._is_storing = True
        self._context.append(self._partition, (group_record(self.name, self._stored(by_member)),), stored)

    def heartbeat(self, request: Heartbeat) -> Ended:
        """The response to Heartbeat."""
        error = self._error(request.membership)
        if error is ErrorCode.none:
            self._end_session_later(self._members[request.membership.member_id])
            error = ErrorCode.rebalance_in_progress if self.state is PREPARING else ErrorCode.none
        return Ended(error)

    def leave(self, request: LeaveGroup) -> LeaveResponse:
        """Remove members."""
        return LeaveResponse(ErrorCode.none, tuple((each, self._leave(each)) for each in request.members))

    def _leave(self, leaver: Leaver) -> ErrorCode:
        member_id = leaver.member_id or id_of(self._members, leaver.instance) or ""
        if (error := why_not(self._members, leaver.instance, member_id)) is not ErrorCode.none:
            return error
        if self._invited.pop(member_id, None) is not None:
            self._complete_joins()
        elif member_id not in self._members:
            return ErrorCode.unknown_member_id
        else:
            self._remove(member_id, "leaves")
        return ErrorCode.none

    def may_commit(self, membership: Membership) -> ErrorCode:
        """Whether a member may commit offsets, or who is none while the group is empty; its session goes on."""
        if membership.generation < 0 and not membership.member_id:
            return ErrorCode.none if self.state is EMPTY else ErrorCode.unknown_member_id
        error = self._error(membership)
        if error is ErrorCode.none:
            self._end_session_later(self._members[membership.member_id])
            error = ErrorCode.rebalance_in_progress if self.state is COMPLETING else ErrorCode.none
        return error

    def description(self) -> GroupDescription:
        """The group for DescribeGroups."""
        protocol = self._protocol if self.state is STABLE else None
        members = tuple(
            DescribedMember(member_id, each.facts, dict(each.facts.protocols).get(protocol or "", b""), each.assignment)
            for member_id, each in self._members.items()
        )
        return GroupDescription(ErrorCode.none, self.name, self.state, self.protocol_type, protocol or "", members)

    def end(self, error: ErrorCode) -> None:
        """The group is deleted, or this broker is no longer its coordinator: waiting members are told."""
        self.state, self._deadline_ms = DEAD, NEVER_MS
        for member_id, member in self._members.items():
            if member.joining is not None:
                self._refuse_join(member.joining, member_id, error)
            if member.syncing is not None:
                self._context.reply(member.syncing, SyncResponse(error))
        self._members.clear()
        self._invited.clear()

    # Time.

    @property
    def deadline_ms(self) -> int:
        """When to call `expire`."""
        sessions = (each.deadline_ms for each in self._members.values() if not each.is_waiting)
        return min(self._deadline_ms, *sessions, *self._invited.values(), NEVER_MS)

    def expire(self) -> None:
        """End what is over: sessions, invitations, and the time to join or to sync."""
        now_ms = self._context.now_ms
        for member_id, member in list(self._members.items()):
            if not member.is_waiting and member.deadline_ms <= now_ms:
                self._remove(member_id, "is silent")
        for member_id in [each for each, deadline_ms in self._invited.items() if deadline_ms <= now_ms]:
            del self._invited[member_id]
            self._complete_joins()
        if self._deadline_ms > now_ms:
            return
        if self.state is COMPLETING:
            self._deadline_ms = NEVER_MS  # if all have synced, only the records are waited for
            late = [each for each, member in self._members.items() if member.has_joined and member.syncing is None]
            for member_id in late:
                self._remove(member_id, "has not synced")
        elif self._delay.has_grown and self._delay.left_ms:
            self._wait_for_more()
        else:
            self._begin_generation()

    def _session_ends_ms(self, facts: MemberFacts) -> int:
        return self._context.now_ms + facts.session_timeout_ms

    def _end_session_later(self, member: Member) -> None:
        member.deadline_ms = self._session_ends_ms(member.facts)

    # Rebalances.

    def _remove(self, member_id: str, why: str) -> None:
        member = self._members.pop(member_id)
        if member.joining is not None:
            self._refuse_join(member.joining, member_id, ErrorCode.unknown_member_id)
        if member.syncing is not None:
            self._context.reply(member.syncing, SyncResponse(ErrorCode.unknown_member_id))
        self._rebalance(f"member {member_id} {why}")

    def _rebalance(self, why: str) -> None:
        """Let all members join again; members that are joining already need not."""
        if self.state is PREPARING:
            self._complete_joins()
            return
        self._answer_syncs(lambda _: SyncResponse(ErrorCode.rebalance_in_progress))
        for member in self._members.values():
            member.assignment = b""
        timeout_ms = rebalance_timeout_ms(self._members)
        self._context.note(f"Preparing to rebalance group {self.name} in generation {self.generation} ({why})")
        self._is_storing, was_empty, self.state = False, self.state is EMPTY, PREPARING
        if was_empty and self._context.settings.initial_rebalance_delay_ms:
            self._delay = _Delay(timeout_ms)
            self._wait_for_more()
        else:
            self._delay = _Delay()
            self._deadline_ms = self._context.now_ms + timeout_ms
            self._complete_joins()

    def _wait_for_more(self) -> None:
        """Wait for more members, up to the rebalance timeout in all."""
        wait_ms = min(self._context.settings.initial_rebalance_delay_ms, self._delay.left_ms)
        self._delay = _Delay(self._delay.left_ms - wait_ms, is_waiting=True)
        self._deadline_ms = self._context.now_ms + wait_ms

    def _complete_joins(self) -> None:
        """Begin the next generation if everybody has joined."""
        is_complete = not self._invited and all(each.joining is not None for each in self._members.values())
        if self.state is PREPARING and is_complete and not (self._delay.is_waiting and self._members):
            self._begin_generation()

    def _begin_generation(self) -> None:
        """Begin a generation of those who have joined; the others are no longer members, unless they are static."""
        self._members = {
            member_id: each
            for member_id, each in self._members.items()
            if each.joining is not None or each.facts.instance is not None
        }
        self._delay = _Delay()
        joined = [member_id for member_id, each in self._members.items() if each.joining is not None]
        if self._members and not joined:  # static members alone, until one joins or their sessions end
            self._deadline_ms = self._context.now_ms + rebalance_timeout_ms(self._members)
            return
        self.generation += 1
        if not self._members:
            self.state, self._protocol, self._leader, self._deadline_ms = EMPTY, None, None, NEVER_MS
            self._context.append(self._partition, (group_record(self.name, self._stored({})),), lambda _: None)
            self._context.note(f"Group {self.name} with generation {self.generation} is now empty")
            return
        if self._leader not in joined:
            self._leader = joined[0]
        self._protocol, self.state = chosen_protocol(self._members), COMPLETING
        self._deadline_ms = self._context.now_ms + rebalance_timeout_ms(self._members)
        self._context.note(
            f"Stabilized group {self.name} generation {self.generation} with {len(self._members)} members"
        )
        for member_id, member in self._members.items():
            member.has_joined = member.joining is not None
            if member.joining is not None:
                self._context.reply(member.joining, self._joined(member_id))
                member.joining = None
                self._end_session_later(member)

    def _joined(self, member_id: str) -> JoinResponse:
        subscriptions = {
            each: dict(member.facts.protocols)[self._protocol or ""] for each, member in self._members.items()
        }
        about = self.protocol_type, self._protocol, self._leader or ""
        if member_id != self._leader:
            return JoinResponse(ErrorCode.none, member_id, self.generation, *about)
        static = instances_of(self._members)
        return JoinResponse(ErrorCode.none, member_id, self.generation, *about, subscriptions, static)

    def _synced(self, member: Member) -> SyncResponse:
        return SyncResponse(ErrorCode.none, self.protocol_type, self._protocol, member.assignment)

    def _answer_syncs(self, response: _SyncAnswer) -> None:
        for member in self._members.values():
            if member.syncing is not None:
                self._context.reply(member.syncing, response(member))
                member.syncing = None
                self._end_session_later(member)

    def _stored(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        members = {
            member_id: StoredMember(self._members[member_id].facts, assignment)
            for member_id, assignment in assignments.items()
        }
        return StoredGroup(self.protocol_type, self.generation, self._protocol, self._leader, members)
