"""Whatever clients and faults do, voters change one at a time, and acknowledged reassignments and writes stay: a state
machine over a simulated quorum.

A request that is acknowledged makes a claim on every later leader: the log of a live leader of the request's epoch or a
later one has the record that made the request true. That is a claim about records, so it also holds for a reassignment
that another one has replaced since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from kio.schema.errors import ErrorCode

from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    NominateRequest,
    VoteRequest,
)
from nodes.reference.core.mutants import Mutant
from nodes.reference.core.node import Node
from nodes.reference.core.records.control import assignments_in
from nodes.reference.core.roles.states import Leader
from tests.nodes.reference.test_any_faults import stale_reads
from tests.support.nodes.quorum_simulation import Operation, Simulation, is_ok

SIZE = 6
NODES = range(1, SIZE + 1)
KINDS = (FetchRequest, VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, NominateRequest)
SWITCHES: tuple[dict[str, Any], ...] = (
    {},
    {"read_mode": "lease"},
    {"promotion": "in-order"},
    {"promotion": "observer-based"},
)
nodes = st.sampled_from(NODES)
voter_sets = st.lists(nodes, min_size=1, max_size=5, unique=True).map(lambda each: tuple(sorted(each)))
anyone = st.one_of(st.none(), nodes)  # None is the leader
distances = st.integers(1, SIZE - 1)  # how far the other node is, in a circle of all
moments = st.sampled_from([0, 1, 5, 20, 100, 500])

Written = tuple[int, Assignment]
"""An assignment in a log, and the offset of its record."""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A request for voters, the epoch of the leader that it was sent to, and the record that makes it true."""

    operation: Operation
    epoch: int
    record: Written

    @property
    def is_acknowledged(self) -> bool:
        """Whether the leader has said that the record is committed."""
        response = self.operation.response
        return response is not None and response.error is ErrorCode.none


@dataclass(frozen=True, slots=True)
class Wrote:
    """A write of a value that no other writes, and the epoch of the leader that it was sent to."""

    operation: Operation
    epoch: int
    value: str


def written(node: Node) -> list[Written]:
    """The assignments in a node's log."""
    return list(assignments_in(node.log.read_from(0)))


def record_of(before: list[Written], after: list[Written], target: tuple[int, ...] | None) -> Written:
    """The record that makes a request true: the one that it appended, or the first of the last ones with its target."""
    appended = after[len(before) :]
    known = [*before, *appended[:1]] if appended and appended[0][1].target == target else before
    found = known[-1]
    for each in reversed(known):
        if each[1].target != known[-1][1].target:
            break
        found = each
    return found


def moves(assignments: list[Written]) -> Iterator[tuple[Written, set[int]]]:
    """Each assignment but the first, with the voters that it adds or removes."""
    for (_, before), after in pairwise(assignments):
        yield after, set(before.current) ^ set(after[1].current)


class Quorum(RuleBasedStateMachine):
    """Six nodes, of which one to four vote in the beginning."""

    mutant: Mutant | None = None

    @initialize(
        seed=st.integers(0, 1_000),
        size=st.integers(1, 4),
        switches=st.sampled_from(SWITCHES),
        has_pre_vote=st.booleans(),
    )
    def begin(self, seed: int, size: int, switches: dict[str, Any], has_pre_vote: bool) -> None:
        self.configured = tuple(range(1, size + 1))
        self.has_pre_vote = has_pre_vote
        self.quorum = Simulation(
            seed=seed,
            size=size,
            observers=SIZE - size,
            voter_changes="kip-642",
            mutant=self.mutant,
            pre_vote=has_pre_vote,
            **switches,
        )
        self.reassignments: list[Reassigned] = []
        self.writes: list[Wrote] = []
        self.reads: list[Operation] = []
        self.quorum.elect()

    @property
    def leaders(self) -> dict[int, Leader]:
        """The live nodes that consider themselves leaders."""
        live = ((node, member.node.state) for node, member in self.quorum.members.items() if member.node)
        return {node: state for node, state in live if isinstance(state, Leader)}

    @property
    def is_pending(self) -> bool:
        """Whether a leader has a reassignment that has not ended."""
        return any(self.quorum.node(node).voters.last.assignment.target for node in self.leaders)

    def request(self, target: tuple[int, ...] | None) -> None:
        """Ask every node that considers itself the leader."""
        for node, state in self.leaders.items():
            before = written(self.quorum.node(node))
            operation = self.quorum.reassign(node, *(target or ()))
            if self.quorum.members[node].is_up and before:
                record = record_of(before, written(self.quorum.node(node)), target)
                self.reassignments.append(Reassigned(operation, state.epoch, record))

    def resolve(self, who: int | None) -> int:
        """The node, or the leader of the highest epoch, or node 1 if there is none."""
        leaders = self.leaders
        return who or max(leaders, key=lambda node: leaders[node].epoch, default=1)

    @rule(voters=voter_sets, then_ms=moments)
    def reassign(self, voters: tuple[int, ...], then_ms: int) -> None:
        self.request(voters)
        self.pass_time(then_ms)

    @precondition(lambda self: self.is_pending)
    @rule(voters=voter_sets, then_ms=moments)
    def replace_target(self, voters: tuple[int, ...], then_ms: int) -> None:
        self.request(voters)
        self.pass_time(then_ms)

    @precondition(lambda self: self.is_pending)
    @rule(then_ms=moments)
    def cancel(self, then_ms: int) -> None:
        self.request(None)
        self.pass_time(then_ms)

    @precondition(lambda self: self.is_pending)
    @rule()
    def wait_for_a_step(self) -> None:
        """Let time pass until a leader has changed the voters, and has not committed that; at most a second."""
        for _ in range(1_000):
            now = [self.quorum.node(node).voters for node in self.leaders]
            if any(each.last.assignment.current != each.committed.assignment.current for each in now):
                break
            self.pass_time(1)

    @rule(then_ms=moments)
    def write_and_read(self, then_ms: int) -> None:
        for node, state in self.leaders.items():
            value = f"<{len(self.writes)}>"
            self.writes.append(Wrote(self.quorum.write(node, "k", value), state.epoch, value))
        self.reads += [self.quorum.read(node, "k") for node in self.leaders]
        self.pass_time(then_ms)

    @rule(who=anyone, distance=distances, is_one_way=st.booleans())
    def cut(self, who: int | None, distance: int, is_one_way: bool) -> None:
        pair = self.resolve(who), other(self.resolve(who), distance)
        if is_one_way:
            self.quorum.cut_one_way(*pair)
        else:
            self.quorum.cut(pair)

    @rule(who=anyone)
    def isolate(self, who: int | None) -> None:
        self.quorum.isolate(self.resolve(who))

    @precondition(lambda self: self.leaders)
    @rule(voters=voter_sets, then_ms=moments)
    def reassign_where_nobody_hears(self, voters: tuple[int, ...], then_ms: int) -> None:
        """The leader that is asked is cut off, so that its log ends with what others will replace."""
        self.quorum.isolate(self.resolve(None))
        self.reassign(voters, then_ms)

    @rule(who=anyone, distance=distances)
    def reconnect(self, who: int | None, distance: int) -> None:
        self.quorum.reconnect((self.resolve(who), other(self.resolve(who), distance)))

    @rule()
    def heal(self) -> None:
        self.quorum.heal()
        self.quorum.message_rule = lambda _sender, _receiver, _request, _is_response: 0

    @rule(who=anyone, is_graceful=st.booleans())
    def end(self, who: int | None, is_graceful: bool) -> None:
        node = self.resolve(who)
        if is_graceful and self.quorum.members[node].is_up:
            self.quorum.stop(node)
        else:
            self.quorum.crash(node)

    @rule(node=nodes)
    def restart(self, node: int) -> None:
        if not self.quorum.members[node].is_up:
            self.quorum.restart(node)

    @rule(kind=st.sampled_from(KINDS), of_responses=st.booleans(), delay_ms=st.sampled_from([None, 50, 700, 3_000]))
    def treat_messages(self, kind: type, of_responses: bool, delay_ms: int | None) -> None:
        """Drop or delay one kind of requests, or the responses to them."""
        self.quorum.message_rule = lambda _sender, _receiver, request, is_response: (
            delay_ms if isinstance(request, kind) and is_response is of_responses else 0
        )

    @rule(duration_ms=st.sampled_from([5, 50, 500, 2_000, 5_000]))
    def pass_time(self, duration_ms: int) -> None:
        """Leaders have not committed a record of their own for some milliseconds only, so each of them is looked at."""
        for _ in range(duration_ms):
            self.quorum.run(1)
            self.leader_commits_a_record_of_its_own_before_it_changes_the_voters()

    @invariant()
    def protocol_holds(self) -> None:
        assert self.quorum.violations == []

    @invariant()
    def log_says_who_votes(self) -> None:
        """A node acts on the last assignment in its own log, committed or not (Reassignment Algorithm, step 4)."""
        for node, member in self.quorum.members.items():
            if member.node is not None:
                found = written(member.node)
                said = found[-1][1] if found else member.election.assignment or Assignment(self.configured)
                assert member.node.voters.effective.assignment == said, f"node {node}: {self.quorum.describe()}"

    @invariant()
    def one_voter_changes_at_a_time(self) -> None:
        for node, member in self.quorum.members.items():
            for (offset, _), changed in moves(list(assignments_in(bytes(member.log)))):
                assert len(changed) <= 1, f"node {node} at offset {offset}: {changed}"

    @invariant()
    def leader_commits_a_record_of_its_own_before_it_changes_the_voters(self) -> None:
        """Ongaro's correction of single-server changes."""
        for node, state in self.leaders.items():
            log = self.quorum.node(node).log
            if log.high_watermark <= state.start_offset:
                early = [offset for (offset, _), moved in moves(written(self.quorum.node(node))) if moved]
                assert max(early, default=-1) <= state.start_offset, f"node {node}: {self.quorum.describe()}"

    @invariant()
    def acknowledged_requests_hold_on_later_leaders(self) -> None:
        for node, state in self.leaders.items():
            found = written(self.quorum.node(node))
            for each in self.reassignments:
                if each.is_acknowledged and each.epoch <= state.epoch:
                    assert each.record in found, f"leader {node} of epoch {state.epoch}: {each.operation.request}"
            log = bytes(self.quorum.members[node].log)
            for write in self.writes:
                if is_ok(write.operation) and write.epoch <= state.epoch:
                    assert write.value.encode() in log, f"leader {node} of epoch {state.epoch}: {write.value}"

    def reassignment_ends(self) -> None:
        self.request((2, 4, 6))
        reached = Assignment((2, 4, 6))
        live = self.quorum.members.values()
        self.quorum.run_until(lambda: all(m.node and m.node.voters.last.assignment == reached for m in live))

    def write_until_one_is_acknowledged(self) -> None:
        """A leader that a reassignment removes steps down, and does not answer the writes that came just before."""
        before = len(self.writes)
        for _ in range(10):
            self.write_and_read(2_000)
            if any(is_ok(each.operation) for each in self.writes[before:]):
                return
        raise AssertionError(f"no progress: {self.quorum.describe()}")

    def teardown(self) -> None:
        """Once all faults are healed there is a leader, and a write is acknowledged.

        A reassignment ends with Pre-Vote. Without it, a voter that missed its removal may never find out (RA-15).
        """
        if not hasattr(self, "quorum"):
            return
        self.heal()
        self.quorum.run(8_000)  # until nodes that are stopping have ended, and requests that were lost have timed out
        self.log_says_who_votes()
        for node in NODES:
            self.restart(node)
        self.quorum.elect()
        if self.has_pre_vote:
            self.reassignment_ends()
        self.quorum.elect()
        self.write_until_one_is_acknowledged()
        for check in (self.protocol_holds, self.log_says_who_votes, self.acknowledged_requests_hold_on_later_leaders):
            check()
        assert stale_reads(self.quorum, [each.operation for each in self.writes], self.reads) == []


def other(node: int, distance: int) -> int:
    """The node at this distance from a node, in a circle of all."""
    return (node - 1 + distance) % SIZE + 1


TRIED = settings(
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("examples", [30, pytest.param(400, marks=pytest.mark.slow)])
def test_reassignments_break_nothing_whatever_happens(examples: int) -> None:
    run_state_machine_as_test(Quorum, settings=settings(TRIED, max_examples=examples))


FOUND: dict[Mutant, str] = {
    "voters-change-when-committed": "log_says_who_votes",
    "voters-kept-after-truncation": "log_says_who_votes",
    "voters-changed-before-own-record": "leader_commits_a_record_of_its_own_before_it_changes_the_voters",
    "reassignment-acknowledged-early": "acknowledged_requests_hold_on_later_leaders",
}
"""The mutants of reassignments, and the invariant that each of them breaks."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_the_state_machine_finds_a_mutant(name: Mutant) -> None:
    class Mutated(Quorum):
        mutant = name

    tried = settings(TRIED, max_examples=200, phases=[Phase.generate])
    with pytest.raises(AssertionError) as broken:
        run_state_machine_as_test(Mutated, settings=tried)
    assert FOUND[name] in {entry.name for entry in broken.traceback}
