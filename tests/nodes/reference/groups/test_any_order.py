"""Groups under any order of requests, appends and elections: what no client may ever see, and that all are answered."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kio.schema.errors import ErrorCode

from nodes.reference.core.groups import messages
from nodes.reference.core.groups.messages import GroupState
from nodes.reference.core.groups.settings import GroupSettings
from tests.nodes.reference.groups.clients import GROUP, REBALANCE_MS, T_0, Clients, commit, joining, member

PROTOCOLS = st.sampled_from([(("a", b"1"),), (("a", b"2"), ("b", b"")), (("b", b""), ("a", b"1"))])
DELAYS_MS = st.sampled_from([0, 3000])
APPEND_ERRORS = st.sampled_from([ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower])


class Groups(RuleBasedStateMachine):
    """Members that send anything at any time, of their own generation or of an earlier one."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: Any = None
        self.ids: list[str] = []
        self.assignments: dict[int, tuple[str, dict[str, bytes]]] = {}  # of each generation: its leader's, and which
        self.sent: dict[int, messages.Request] = {}

    @rule(delay_ms=DELAYS_MS)
    @precondition(lambda self: self.clients is None)
    def start(self, delay_ms: int) -> None:
        given = GroupSettings(initial_rebalance_delay_ms=delay_ms, partitions=1)
        self.clients = Clients(given, commits_at_once=False)

    def send(self, request: messages.Request) -> None:
        self.sent[self.clients.send(request)] = request

    @precondition(lambda self: self.clients)
    @rule(protocols=PROTOCOLS)
    def come(self, protocols: Any) -> None:
        self.send(joining("", protocols=protocols))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), protocols=PROTOCOLS)
    def join(self, data: st.DataObject, protocols: Any) -> None:
        self.send(joining(data.draw(st.sampled_from(self.ids)), protocols=protocols))

    @precondition(lambda self: self.assignments)
    @rule(data=st.data(), age=st.integers(0, 1))
    def sync(self, data: st.DataObject, age: int) -> None:
        generation = max(self.assignments) - age
        member_id = data.draw(st.sampled_from(self.ids))
        leader, given = self.assignments.get(generation, ("", {}))
        self.send(messages.SyncGroup(member(generation, member_id), given if member_id == leader else {}))

    @precondition(lambda self: self.assignments)
    @rule(data=st.data(), age=st.integers(0, 1), offset=st.integers(0, 9))
    def commit(self, data: st.DataObject, age: int, offset: int) -> None:
        self.send(commit(max(self.assignments) - age, data.draw(st.sampled_from(self.ids)), offset))

    @precondition(lambda self: self.assignments)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        self.send(messages.Heartbeat(member(max(self.assignments), data.draw(st.sampled_from(self.ids)))))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.send(messages.LeaveGroup(GROUP, (messages.Leaver(data.draw(st.sampled_from(self.ids))),)))

    @precondition(lambda self: self.clients and self.clients.appends)
    @rule(error=st.none() | APPEND_ERRORS)
    def append(self, error: ErrorCode | None) -> None:
        self.clients.commit_append(ErrorCode.none if error is None else error)

    @precondition(lambda self: self.clients)
    @rule(milliseconds=st.sampled_from([1, 5000, 20_000, REBALANCE_MS]))
    def wait(self, milliseconds: int) -> None:
        self.clients.after(milliseconds)

    @precondition(lambda self: self.clients)
    @rule()
    def elect_again(self) -> None:
        """The broker loses the leadership and gets it back; what it did not commit is gone."""
        self.clients.resign()
        while self.clients.appends:
            self.clients.commit_append(ErrorCode.not_leader_or_follower)
        self.clients.elect()
        self.assignments.clear()  # a generation that was not stored begins anew

    @invariant()
    def responses_are_those_of_one_generation(self) -> None:
        if self.clients is None:
            return
        for request_id in sorted(self.sent.keys() & self.clients.replies.keys()):
            request, response = self.sent.pop(request_id), self.clients.replies[request_id]
            match request, response:
                case messages.JoinGroup(), messages.JoinResponse(error, member_id, generation, _, _, leader, members):
                    if error is ErrorCode.member_id_required:
                        self.ids.append(member_id)
                    elif error is ErrorCode.none:
                        assert bool(members) == (member_id == leader)
                        self._joined(generation, leader, members)
                case messages.SyncGroup(membership), messages.SyncResponse(ErrorCode.none, _, _, assignment):
                    if membership.generation in self.assignments:
                        _, given = self.assignments[membership.generation]
                        assert assignment == given.get(membership.member_id, b"")

    def _joined(self, generation: int, leader: str, members: Any) -> None:
        """A generation has one leader, and what that assigns is its own."""
        known = self.assignments.setdefault(generation, (leader, {}))
        assert known[0] == leader
        for member_id in members:
            known[1][member_id] = f"{generation} {member_id}".encode()

    @invariant()
    def the_log_says_what_the_coordinator_says(self) -> None:
        """A stable group, and the offsets, are those that a new coordinator would read."""
        if self.clients is None or self.clients.appends:
            return
        other = Clients(self.clients.settings)
        other.log = list(self.clients.log)
        other.elect()
        assert other.committed() == self.clients.committed()
        described = self.clients.describe()
        if described.state is GroupState.STABLE:
            mine, theirs = (
                [(m.member_id, m.assignment) for m in each.members] for each in (described, other.describe())
            )
            assert sorted(mine) == sorted(theirs)

    def teardown(self) -> None:
        """Once time has passed and appends have ended, every request has a response, and no members are left."""
        if self.clients is None:
            return
        for _ in range(3):
            while self.clients.appends:
                self.clients.commit_append()
            self.clients.after(3 * REBALANCE_MS)
        assert self.sent.keys() <= self.clients.replies.keys()
        assert self.clients.describe().state in (GroupState.EMPTY, GroupState.DEAD)
        last = self.clients.send(commit(messages.NO_GENERATION, "", 5))
        self.clients.commit_append()
        assert self.clients.replies[last].errors == {T_0: ErrorCode.none}


def test_any_order() -> None:
    run_state_machine_as_test(Groups, settings=settings(max_examples=150, stateful_step_count=40, deadline=None))
