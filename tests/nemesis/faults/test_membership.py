"""Membership changes: what is requested, what is pending, what is verified, and how failures are reported."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest

from harness import plugins
from harness.model import BadInput, PeerFailure
from harness.model.faults.membership import (
    MembershipView,
    Reassignment,
    Refused,
    Replicas,
    VoterChange,
    add_voter,
    await_membership,
    elect,
    reassign,
    reassign_partition,
    remove_voter,
)
from harness.model.session import NoAnswer
from nemesis import voter_answers
from nemesis.faults import membership
from nemesis.faults.membership import FAULT
from nemesis.session import refuse_unavailable

LOG_0, LOG_1 = ("log", 0), ("log", 1)


class FakeQuorum:
    """A quorum that applies one request per view, the first after `delay_views` views; it can refuse or not respond."""

    def __init__(self):
        self.now = MembershipView((1, 2, 3), (4,), {LOG_0: placed(1, 2), LOG_1: placed(2, 3)})
        self.later = []
        self.delay_views = 0
        self.fails_with = None
        self.failures_left = sys.maxsize
        self.has_majority = True
        self.elections = []
        self.ignores_elections = False

    async def view(self, with_partitions=True):  # noqa: ARG002
        if self.delay_views:
            self.delay_views -= 1
        elif self.later:
            self.now = self.later.pop(0)(self.now)
        return self.now

    async def elect(self, partitions, how):
        self._respond()
        self.elections.append((partitions, how))
        for partition in [] if self.ignores_elections else partitions:
            self.later.append(lambda view, partition=partition: led_by_first_replica(view, partition))

    async def change_voter(self, change):
        self._respond()
        joined = tuple(sorted({*self.now.voters, change.node} if change.joins else {*self.now.voters} - {change.node}))
        self.later.append(lambda view: replace(view, voters=joined))
        if not self.has_majority:
            await asyncio.Event().wait()

    async def reassign(self, moves):
        self._respond()
        for move in moves:
            self.later.append(
                lambda view, move=move: replace(
                    view, partitions={**view.partitions, move.partition: placed(*move.replicas)}
                )
            )

    def _respond(self):
        if self.fails_with is not None and self.failures_left:
            self.failures_left -= 1
            raise self.fails_with


def placed(*nodes):
    return Replicas(nodes, nodes, nodes[0])


def led_by_first_replica(view, partition):
    replicas = view.partitions[partition]
    return replace(view, partitions={**view.partitions, partition: replace(replicas, leader=replicas.replicas[0])})


@pytest.fixture
def quorum(context, monkeypatch):
    monkeypatch.setattr(membership, "POLL_SECONDS", 0.001)
    context.nodes = (1, 2, 3, 4)
    context.processes.states[4] = "running"
    context.membership = FakeQuorum()
    return context.membership


def inject(context, step):
    value = FAULT.actions[step.f].complete(step.value)
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, value)))


def test_await_membership_and_heal_wait_until_voters_have_left_and_joined(context, quorum):
    quorum.delay_views = 3
    assert inject(context, remove_voter("n3"))["changes"] == ["n3 is no longer a voter"]
    assert inject(context, await_membership(5))["label"] == "membership changes done: 1"
    assert quorum.now.voters == (1, 2)
    inject(context, add_voter("n4"))
    asyncio.run(FAULT.heal(context))
    assert quorum.now.voters == (1, 2, 4)
    assert context.pending == {}


def test_a_quorum_of_two_keeps_its_voters_and_no_voter_is_added_twice(context, quorum):
    quorum.now = replace(quorum.now, voters=(1, 2))
    assert inject(context, remove_voter("all"))["label"] == "remove_voter: no node to change"
    assert inject(context, add_voter("n1"))["label"] == "add_voter: no node to change"
    quorum.fails_with = NoAnswer("it takes too long")
    done = inject(context, remove_voter("n1", is_answered=False))
    assert done["changes"] == ["n1 is no longer a voter"], "a story may remove any voter if no answer is expected"


@pytest.mark.usefixtures("quorum")
def test_a_moved_partition_keeps_its_number_of_replicas(context):
    done = inject(context, reassign(2))
    assert len(done["changes"]) in (1, 2)  # the same partition may be chosen twice
    assert all(len(change.replicas) == 2 for change in context.pending.values())
    inject(context, await_membership(5))
    assert context.pending == {}


def test_a_change_that_is_not_done_in_time_is_reported_once_with_its_state(context, quorum):
    inject(context, reassign(1))
    quorum.later.clear()
    stuck = replace(quorum.now.partitions[LOG_1], adding=(4,), in_sync=(2,))
    quorum.now = replace(quorum.now, partitions={LOG_0: stuck, LOG_1: stuck})
    with pytest.raises(PeerFailure, match=r"moves to .*: replicas \[2, 3\], in sync \[2\], led by n2, adding \[4\]"):
        inject(context, await_membership(0.01))
    assert context.pending == {}, "the next heal does not report it again"


def test_a_change_that_need_not_be_done_is_reported_and_forgotten(context, quorum):
    inject(context, remove_voter("n3"))
    quorum.later.clear()
    done = inject(context, await_membership(0.01, is_required=False))
    assert done["label"].startswith("membership changes not done after 0.01 s: n3 is no longer a voter: ")
    assert context.pending == {}


def test_a_refused_change_is_not_pending(context, quorum):
    quorum.fails_with = PeerFailure("requesting that n3 is no longer a voter: INVALID_REQUEST")
    with pytest.raises(PeerFailure, match="INVALID_REQUEST"):
        inject(context, remove_voter("n3"))
    assert context.pending == {}


TIMED_OUT = Refused("requesting that n4 becomes a voter: request_timed_out", "REQUEST_TIMED_OUT")


def test_a_change_that_timed_out_is_requested_again(context, quorum):
    quorum.fails_with, quorum.failures_left = TIMED_OUT, 3
    assert inject(context, add_voter("n4"))["changes"] == ["n4 becomes a voter"]
    inject(context, await_membership(5))
    assert quorum.now.voters == (1, 2, 3, 4)


def test_a_change_that_timed_out_and_was_appended_is_pending(context, quorum):
    quorum.fails_with, quorum.delay_views = TIMED_OUT, 1
    quorum.later.append(lambda view: replace(view, voters=(1, 2, 3, 4)))
    assert inject(context, add_voter("n4"))["changes"] == ["n4 becomes a voter"]
    assert context.pending == {"n4": VoterChange(4, True)}


def test_a_change_that_always_times_out_fails(context, quorum, monkeypatch):
    monkeypatch.setattr(membership, "LEADER_SECONDS", 0.02)
    quorum.fails_with = TIMED_OUT
    with pytest.raises(Refused):
        inject(context, add_voter("n4"))
    assert context.pending == {}


def test_a_change_without_response_stays_pending_for_a_while_and_then_counts_as_not_carried_out(
    context, quorum, monkeypatch
):
    quorum.fails_with = NoAnswer("waiting for 10.77.0.1:9093: no response within 10000 ms")
    with pytest.raises(NoAnswer):
        inject(context, remove_voter("n3"))
    assert context.unanswered == {"n3"}
    monkeypatch.setattr(membership, "UNANSWERED_SECONDS", 0.01)
    assert inject(context, await_membership(5))["label"] == "membership changes done: 0, without response or effect: 1"
    assert (context.pending, context.unanswered) == ({}, set())


def answer_of(done):
    (compared,) = done["compared"]
    assert compared["field"] == "answer"
    return compared["expected"], compared["found"], compared["holds"]


DUPLICATE = Refused("requesting that n3 becomes a voter: duplicate_voter", "DUPLICATE_VOTER")


def test_an_expected_refusal_is_compared_and_not_pending(context, quorum):
    quorum.fails_with = DUPLICATE
    done = inject(context, add_voter("n3", refused="DUPLICATE_VOTER"))
    assert answer_of(done) == ("DUPLICATE_VOTER", "DUPLICATE_VOTER", True)
    assert (done["nodes"], done["label"]) == ([3], "n3 becomes a voter: DUPLICATE_VOTER")
    assert done["message"] == str(DUPLICATE)
    assert context.pending == {}


def test_another_error_than_the_expected_one_is_a_difference(context, quorum):
    quorum.fails_with = Refused("requesting that n4 is no longer a voter: voter_not_found", "VOTER_NOT_FOUND")
    done = inject(context, remove_voter("n4", refused="REQUEST_TIMED_OUT"))
    assert answer_of(done) == ("REQUEST_TIMED_OUT", "VOTER_NOT_FOUND", False)


def test_an_accepted_change_is_a_difference_and_pending_although_a_refusal_was_expected(context, quorum):
    assert answer_of(inject(context, add_voter("n4", refused="REQUEST_TIMED_OUT"))) == (
        "REQUEST_TIMED_OUT",
        "accepted",
        False,
    )
    assert (context.pending, context.unanswered) == ({"n4": VoterChange(4, True)}, set())
    inject(context, await_membership(5))
    assert quorum.now.voters == (1, 2, 3, 4)


def test_no_answer_to_an_expected_refusal_is_a_failure(context, quorum):
    quorum.fails_with = NoAnswer("waiting for 10.77.0.1:9093: timed out")
    with pytest.raises(NoAnswer):
        inject(context, add_voter("n4", refused="REQUEST_TIMED_OUT"))


def test_a_change_that_is_appended_and_not_answered_is_pending_without_an_answer(context, quorum, monkeypatch):
    monkeypatch.setattr(voter_answers, "ANSWER_SECONDS", 0.01)
    quorum.has_majority, quorum.delay_views = False, 3
    done = inject(context, add_voter("n4", is_answered=False))
    assert answer_of(done) == ("no answer", "no answer", True)
    assert quorum.now.voters == (1, 2, 3, 4), "it ends as soon as the leader has appended the change, not before"
    assert (context.pending, context.unanswered) == ({"n4": VoterChange(4, True)}, {"n4"})


def test_await_membership_waits_until_the_high_watermark_passes_the_change(context, quorum, monkeypatch):
    monkeypatch.setattr(voter_answers, "ANSWER_SECONDS", 0.01)
    quorum.has_majority = False
    quorum.now = replace(quorum.now, log_end=70, high_watermark=60)
    inject(context, add_voter("n4", is_answered=False))
    quorum.later.append(lambda view: replace(view, high_watermark=69))
    quorum.later += [lambda view: replace(view, log_end=90)] * 3
    quorum.later.append(lambda view: replace(view, high_watermark=70))
    assert inject(context, await_membership(5))["label"] == "membership changes done: 1"
    assert (quorum.now.high_watermark, context.pending) == (70, {})


def test_a_change_that_is_appended_and_truncated_counts_as_not_carried_out(context, quorum, monkeypatch):
    monkeypatch.setattr(voter_answers, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(membership, "UNANSWERED_SECONDS", 0.05)
    quorum.has_majority = False
    quorum.now = replace(quorum.now, log_end=70, high_watermark=60)
    inject(context, add_voter("n4", is_answered=False))
    quorum.later.append(lambda view: replace(view, voters=(1, 2, 3), high_watermark=80))
    assert inject(context, await_membership(5))["label"] == "membership changes done: 0, without response or effect: 1"


@pytest.mark.parametrize("has_majority", [True, False])
def test_nothing_may_be_expected_of_the_answer(context, quorum, monkeypatch, has_majority):
    monkeypatch.setattr(voter_answers, "ANSWER_SECONDS", 0.01)
    quorum.has_majority = has_majority
    quorum.now = replace(quorum.now, voters=(1, 2), observers=(3, 4))
    done = inject(context, remove_voter("n2", is_answered="any"))
    assert (done["changes"], done["compared"]) == (["n2 is no longer a voter"], [])
    assert done["label"].endswith(": accepted" if has_majority else ": no answer")


@pytest.mark.parametrize(("fails_with", "found"), [(None, "accepted"), (DUPLICATE, "DUPLICATE_VOTER")])
def test_an_answer_where_none_is_expected_is_a_difference(context, quorum, fails_with, found):
    quorum.fails_with = fails_with
    done = inject(context, add_voter("n4", is_answered=False))
    assert answer_of(done) == ("no answer", found, False)
    assert context.unanswered == set()


def test_a_change_that_is_neither_appended_nor_answered_is_a_failure(context, quorum, monkeypatch):
    monkeypatch.setattr(voter_answers, "APPEND_SECONDS", 0.01)
    quorum.has_majority, quorum.delay_views = False, 1000
    with pytest.raises(PeerFailure, match=r"n4 becomes a voter: not appended after 0\.01 s: voters \[1, 2, 3\]"):
        inject(context, add_voter("n4", is_answered=False))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"refused": "DUPLICATED"}, "DUPLICATE_VOTER"),
        ({"refused": "VOTER_NOT_FOUND", "is_answered": False}, "refused: expected no error, since is_answered"),
        ({"refused": "VOTER_NOT_FOUND", "is_answered": "any"}, "refused: expected no error, since is_answered"),
        ({"is_answered": "maybe"}, "is_answered"),
    ],
    ids=["unknown error", "an error and no answer", "an error and any answer", "neither"],
)
def test_expectations_that_make_no_sense_are_refused(value, problem):
    with pytest.raises(ValueError, match=problem):
        FAULT.actions["add_voter"].complete({"who": "n4", **value})


def test_a_change_replaces_a_pending_one_of_the_same_voter(context, quorum):
    inject(context, remove_voter("n3"))
    quorum.now = replace(quorum.now, voters=(1, 2), observers=(3, 4))
    quorum.later.clear()
    inject(context, add_voter("n3"))
    assert context.pending == {"n3": VoterChange(3, True)}


def test_preferred_elections_wait_until_every_preferred_replica_leads(context, quorum):
    quorum.now = with_partitions(quorum, {LOG_0: led(2), LOG_1: led(2)})
    quorum.delay_views = 2
    assert inject(context, elect())["label"] == "preferred elections"
    assert quorum.elections == [([LOG_0, LOG_1], "preferred")]
    assert [each.leader for each in quorum.now.partitions.values()] == [1, 1]


def test_preferred_elections_without_effect_are_reported_by_partition(context, quorum, monkeypatch):
    monkeypatch.setattr(membership, "LEADER_SECONDS", 0.01)
    quorum.now = with_partitions(quorum, {LOG_0: led(1), LOG_1: led(2)})
    quorum.ignores_elections = True
    with pytest.raises(PeerFailure) as raised:
        inject(context, elect())
    assert str(raised.value) == (
        "verifying preferred elections: not effective after 0.01 s: "
        "log-1: expected its preferred replica n1 to lead, found replicas [1, 2], in sync [1, 2], led by n2"
    )


def test_a_preferred_replica_that_is_not_in_sync_need_not_lead(context, quorum):
    quorum.now = with_partitions(quorum, {LOG_0: led(2), LOG_1: led(2, in_sync=(2,))})
    inject(context, elect())
    assert quorum.elections == [([LOG_0], "preferred")]
    assert [each.leader for each in quorum.now.partitions.values()] == [1, 2]


def test_a_preferred_replica_that_falls_out_of_sync_after_the_request_need_not_lead(context, quorum):
    quorum.now = with_partitions(quorum, {LOG_0: led(2)})
    quorum.ignores_elections, quorum.delay_views = True, 2
    quorum.later.append(lambda view: replace(view, partitions={LOG_0: led(2, in_sync=(2,))}))
    inject(context, elect())
    assert quorum.elections == [([LOG_0], "preferred")]


def test_unclean_elections_wait_until_every_partition_has_a_leader(context, quorum):
    quorum.now = with_partitions(quorum, {LOG_0: led(None, in_sync=(2,)), LOG_1: led(2)})
    assert inject(context, elect("unclean"))["label"] == "unclean elections"
    assert quorum.elections == [([LOG_0], "unclean")]
    assert [each.leader for each in quorum.now.partitions.values()] == [1, 2]


def test_unclean_elections_without_effect_are_reported_by_partition(context, quorum, monkeypatch):
    monkeypatch.setattr(membership, "LEADER_SECONDS", 0.01)
    quorum.now = with_partitions(quorum, {LOG_0: led(None, in_sync=(2,)), LOG_1: led(2)})
    quorum.ignores_elections = True
    with pytest.raises(PeerFailure, match=r"0\.01 s: log-0: expected a leader, found .*, no leader$"):
        inject(context, elect("unclean"))


def test_one_partition_is_elected_and_its_leader_reported(context, quorum):
    quorum.now = with_partitions(quorum, {LOG_0: led(None, in_sync=(2,)), LOG_1: led(None, in_sync=(2,))})
    assert inject(context, elect("unclean", "log-1"))["label"] == "unclean election of log-1: n1 leads"
    assert quorum.elections == [([LOG_1], "unclean")]


@pytest.mark.parametrize(
    ("how", "partition", "found"),
    [
        ("unclean", "log-0", r"replicas \[1, 2\], in sync \[1, 2\], led by n1"),
        ("preferred", "log-1", r"replicas \[1, 2\], in sync \[2\], led by n2"),
        ("preferred", "log-2", "no such partition"),
    ],
    ids=["it has a leader", "its preferred replica is not in sync", "unknown"],
)
def test_one_partition_that_cannot_be_elected_is_a_failure(context, quorum, how, partition, found):
    quorum.now = with_partitions(quorum, {LOG_0: led(1), LOG_1: led(2, in_sync=(2,))})
    with pytest.raises(PeerFailure, match=f"{how} election of {partition}: expected one that .*, found {found}$"):
        inject(context, elect(how, partition))
    assert quorum.elections == []


def test_one_partition_is_reassigned_and_pending_until_all_its_replicas_are_in_sync(context, quorum):
    quorum.delay_views = 2
    done = inject(context, reassign_partition("log-0", (3, 1)))
    assert done == {"changes": ["log-0 moves to n3, n1"], "nodes": [3, 1], "label": "log-0 moves to n3, n1"}
    assert context.pending == {"log-0": Reassignment(LOG_0, (3, 1))}
    inject(context, await_membership(5))
    assert context.pending == {}


def test_reassignment_of_one_partition_without_effect_is_a_failure(context, quorum, monkeypatch):
    monkeypatch.setattr(membership, "LEADER_SECONDS", 0.01)
    quorum.delay_views = 1000
    with pytest.raises(PeerFailure, match=r"log-0 moves to n3, n1: not effective after 0\.01 s: replicas \[1, 2\]"):
        inject(context, reassign_partition("log-0", (3, 1)))


def led(leader, in_sync=(1, 2)):
    return Replicas((1, 2), in_sync, leader)


def with_partitions(quorum, partitions):
    return replace(quorum.now, partitions=partitions)


@pytest.mark.parametrize(
    ("found", "done"),
    [
        (placed(1, 2), True),
        (Replicas((2, 1), (1, 2), 2), True),
        (Replicas((1, 2), (1,), 1), False),
        (Replicas((1, 2, 3), (1, 2, 3), 1, removing=(3,)), False),
        (placed(1, 3), False),
    ],
    ids=["done", "another order", "one not in sync", "one still being removed", "other nodes"],
)
def test_a_reassignment_is_done_when_its_replicas_are_in_sync_and_none_is_added_or_removed(found, done):
    view = MembershipView((1, 2, 3), (), {LOG_0: found})
    assert Reassignment(LOG_0, (1, 2)).is_done(view) is done
    assert not Reassignment(LOG_1, (1, 2)).is_done(view)


@pytest.mark.usefixtures("quorum")
@pytest.mark.parametrize("action", ["add_voter", "remove_voter"])
def test_a_static_quorum_refuses_voter_changes_but_not_reassignments(context, action):
    context.unavailable = {"voters": "they never change"}
    refuse_unavailable(["sleep", "reassign", "elect", "await_membership"], context, plugins.actions())
    with pytest.raises(BadInput, match=f"story: action {action}: they never change"):
        refuse_unavailable(["reassign", action], context, plugins.actions())
