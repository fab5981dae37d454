"""Changes of membership: what is asked of whom, what is pending, and what is told of a change that does not end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from harness import plugins
from harness.model import BadInput, PeerFailure
from harness.model.faults.membership import MembershipView, Reassignment, Replicas, VoterChange
from harness.model.session import NoAnswer
from nemesis.faults import membership
from nemesis.faults.membership import FAULT, add_voter, reassign, remove_voter, settle
from nemesis.session import refuse_unavailable

LOG_0, LOG_1 = ("log", 0), ("log", 1)


class FakeQuorum:
    """A quorum that does what it is asked after so many looks; refuses, or leaves without an answer, when told to."""

    def __init__(self):
        self.now = MembershipView((1, 2, 3), (4,), {LOG_0: placed(1, 2), LOG_1: placed(2, 3)})
        self.later = []
        self.looks = 0
        self.fails_with = None

    async def view(self):
        if self.looks:
            self.looks -= 1
        elif self.later:
            self.now = self.later.pop(0)(self.now)
        return self.now

    async def change_voter(self, change):
        self._answer()
        joined = tuple(sorted({*self.now.voters, change.node} if change.joins else {*self.now.voters} - {change.node}))
        self.later.append(lambda view: replace(view, voters=joined))

    async def reassign(self, moves):
        self._answer()
        for move in moves:
            self.later.append(
                lambda view, move=move: replace(
                    view, partitions={**view.partitions, move.partition: placed(*move.replicas)}
                )
            )

    def _answer(self):
        if self.fails_with is not None:
            raise self.fails_with


def placed(*nodes):
    return Replicas(nodes, nodes, nodes[0])


@pytest.fixture
def quorum(context, monkeypatch):
    monkeypatch.setattr(membership, "POLL_SECONDS", 0.001)
    context.nodes = (1, 2, 3, 4)
    context.processes.states[4] = "running"
    context.membership = FakeQuorum()
    return context.membership


def sequence(context, step):
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, step.value)))


def test_a_voter_leaves_and_joins_and_settling_waits_for_both(context, quorum):
    quorum.looks = 3
    assert sequence(context, remove_voter("n3"))["changes"] == ["n3 is no longer a voter"]
    assert sequence(context, settle(5))["label"] == "1 changes of membership are as asked"
    assert quorum.now.voters == (1, 2)
    sequence(context, add_voter("n4"))
    asyncio.run(FAULT.heal(context))
    assert quorum.now.voters == (1, 2, 4)
    assert context.pending == {}


def test_a_quorum_of_two_keeps_its_voters_and_a_voter_is_not_added_twice(context, quorum):
    quorum.now = replace(quorum.now, voters=(1, 2))
    assert sequence(context, remove_voter("all"))["label"] == "remove_voter: nobody to ask it of"
    assert sequence(context, add_voter("n1"))["label"] == "add_voter: nobody to ask it of"


@pytest.mark.usefixtures("quorum")
def test_partitions_move_to_as_many_nodes_as_they_have_copies(context):
    done = sequence(context, reassign(2))
    assert len(done["changes"]) in (1, 2)  # the same partition may be drawn twice
    assert all(len(change.replicas) == 2 for change in context.pending.values())
    sequence(context, settle(5))
    assert context.pending == {}


def test_a_change_that_does_not_end_is_told_with_the_state_it_is_stuck_in(context, quorum):
    sequence(context, reassign(1))
    quorum.later.clear()
    stuck = replace(quorum.now.partitions[LOG_1], adding=(4,), in_sync=(2,))
    quorum.now = replace(quorum.now, partitions={LOG_0: stuck, LOG_1: stuck})
    with pytest.raises(PeerFailure, match=r"moves to .*: replicas \[2, 3\], in sync \[2\], led by n2, adding \[4\]"):
        sequence(context, settle(0.01))
    assert context.pending == {}, "it would only be told again"


def test_a_refused_change_is_not_pending(context, quorum):
    quorum.fails_with = PeerFailure("asking that n3 is no longer a voter: INVALID_REQUEST")
    with pytest.raises(PeerFailure, match="INVALID_REQUEST"):
        sequence(context, remove_voter("n3"))
    assert context.pending == {}


def test_a_change_without_an_answer_is_pending_for_a_while_and_then_counts_as_never_asked(context, quorum, monkeypatch):
    quorum.fails_with = NoAnswer("waiting for 10.77.0.1:9093: no answer in 10000 ms")
    with pytest.raises(NoAnswer):
        sequence(context, remove_voter("n3"))
    assert context.unanswered == {"n3"}
    monkeypatch.setattr(membership, "UNANSWERED_SECONDS", 0.01)
    assert sequence(context, settle(5))["label"] == "0 changes of membership are as asked, 1 were never answered"
    assert (context.pending, context.unanswered) == ({}, set())


def test_a_later_change_of_the_same_subject_takes_the_earlier_one_s_place(context, quorum):
    sequence(context, remove_voter("n3"))
    quorum.now = replace(quorum.now, voters=(1, 2), observers=(3, 4))
    quorum.later.clear()
    sequence(context, add_voter("n3"))
    assert context.pending == {"n3": VoterChange(3, True)}


@pytest.mark.parametrize(
    ("found", "done"),
    [
        (placed(1, 2), True),
        (Replicas((2, 1), (1, 2), 2), True),
        (Replicas((1, 2), (1,), 1), False),
        (Replicas((1, 2, 3), (1, 2, 3), 1, removing=(3,)), False),
        (placed(1, 3), False),
    ],
    ids=["there", "in another order", "one not in sync", "still leaving", "elsewhere"],
)
def test_a_move_is_done_when_all_copies_are_there_in_sync_and_nothing_is_under_way(found, done):
    view = MembershipView((1, 2, 3), (), {LOG_0: found})
    assert Reassignment(LOG_0, (1, 2)).is_done(view) is done
    assert not Reassignment(LOG_1, (1, 2)).is_done(view)


@pytest.mark.usefixtures("quorum")
@pytest.mark.parametrize("action", ["add_voter", "remove_voter"])
def test_voters_of_a_static_quorum_cannot_change_though_its_partitions_move(context, action):
    context.unavailable = {"voters": "they never change"}
    refuse_unavailable(["sleep", "reassign", "elect", "await_membership"], context, plugins.actions())
    with pytest.raises(BadInput, match=f"story: action {action}: they never change"):
        refuse_unavailable(["reassign", action], context, plugins.actions())
