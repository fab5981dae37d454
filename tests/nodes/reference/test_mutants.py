"""What each mutant breaks, and that the same story is right without it.

The first nine are in test_elections.py, test_kip_996_scenarios.py, test_policies.py and test_replication.py.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from kio.schema.errors import ErrorCode

from harness.model.quorum_states import State
from nodes.reference.core.events import Election
from nodes.reference.core.messages import DescribeQuorumRequest, FetchRequest, VoteRequest
from nodes.reference.core.mutants import MUTANTS, Mutant
from tests.support.nodes.mutant_cases import log_of, with_and_without
from tests.support.nodes.quorum_simulation import Operation, Simulation, is_ok, value_of

SOURCES = Path(__file__).parents[3] / "nodes" / "reference"
IN_TWO_FILES = {
    "pre-vote-counted-as-vote",
    "resigned-keeps-its-epoch",
    "candidate-retries-in-its-epoch",
    "unattached-ends-at-leaders-response",
    "own-vote-restored-before-leader",
}
"""The mutants that need a row of the transition table, a first state, a request or a count of votes as well."""


def test_every_mutant_has_a_branch_in_one_file() -> None:
    files = Counter(
        name
        for path in SOURCES.rglob("*.py")
        if not {"controller", "partitions"} & {*path.relative_to(SOURCES).parts}  # they have mutants of their own
        for name in set(re.findall(r'\bhas\(\s*"([a-z0-9-]+)"', path.read_text()))
    )
    assert dict(files) == {name: 2 if name in IN_TWO_FILES else 1 for name in get_args(Mutant)}


def test_every_mutant_is_described_once() -> None:
    assert tuple(MUTANTS) == get_args(Mutant)
    assert len({info.effect for info in MUTANTS.values()}) == len(MUTANTS)
    assert all(info.effect.endswith(".") and info.source for info in MUTANTS.values())


def test_every_mutant_has_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in MUTANTS if f'"{name}"' not in tests] == []


def with_disks(logs: dict[int, bytes], epoch: int, **switches: Any) -> Simulation:
    """Three voters that start in the epoch with these logs."""
    quorum = Simulation(started=[], **switches)
    for node, member in quorum.members.items():
        member.election, member.log = Election(epoch), bytearray(logs[node])
        quorum.restart(node)
    return quorum


def votes(quorum: Simulation, candidate: int, epoch: int, last_epoch: int = 0, end_offset: int = 0) -> bool:
    """Whether voter 1 grants its vote."""
    request = VoteRequest("test", 1, candidate, epoch, last_epoch, end_offset)
    return bool(quorum.invoke(1, request).response.granted)


def led(mutant: str | None, size: int = 3, **switches: Any) -> tuple[Simulation, int, list[int]]:
    """A quorum whose nodes all follow a leader, the leader, and the other voters."""
    quorum = Simulation(seed=6, size=size, mutant=mutant, **switches)
    leader = quorum.elect()
    quorum.run(1_000)
    return quorum, leader, [node for node in range(1, size + 1) if node != leader]


def completed(quorum: Simulation, operation: Operation) -> Operation:
    """The operation once it has a response without an error."""
    quorum.run_until(lambda: operation.response is not None)
    assert is_ok(operation), operation.response
    return operation


def value_at_new_leader(quorum: Simulation) -> str | None:
    """The value of register k at the next leader that has committed."""
    return value_of(completed(quorum, quorum.read(quorum.elect(), "k")), "k")


# Elections: one voter.


@pytest.mark.parametrize("is_planted", [False, True], ids=["without", "with"])
@pytest.mark.parametrize(
    ("mutant", "last_epoch", "end_offset"),
    [
        ("vote-ignores-log", 1, 1),
        ("vote-compares-length-only", 1, 9),
        ("vote-compares-epoch-only", 2, 1),
        ("vote-compares-committed-only", 1, 2),
    ],
)
def test_candidate_whose_log_is_behind_gets_no_vote(
    mutant: Mutant, last_epoch: int, end_offset: int, is_planted: bool
) -> None:
    """The voter's log ends at 3 with a record of epoch 2, and no high watermark is known."""
    quorum = Simulation(started=[], mutant=mutant if is_planted else None)
    quorum.members[1].log += log_of(1, 2, 2)
    quorum.restart(1)
    assert votes(quorum, 2, 5, last_epoch, end_offset) is is_planted
    assert votes(quorum, 2, 6, last_epoch=2, end_offset=3)


@with_and_without("second-vote-in-an-epoch")
def test_second_candidate_of_an_epoch_gets_no_vote(mutant: Mutant | None) -> None:
    quorum = Simulation(started=[1], mutant=mutant)
    assert votes(quorum, 2, 5)
    assert votes(quorum, 3, 5) is (mutant is not None)
    assert quorum.members[1].election == Election(5, None, 3 if mutant else 2)


@with_and_without("vote-kept-in-next-epoch")
def test_vote_ends_with_its_epoch(mutant: Mutant | None) -> None:
    quorum = Simulation(started=[1], mutant=mutant)
    assert votes(quorum, 2, 5)
    assert votes(quorum, 3, 6) is (mutant is None)


@with_and_without("vote-forgotten-by-prospective")
def test_prospective_keeps_its_vote(mutant: Mutant | None) -> None:
    quorum = Simulation(started=[1], mutant=mutant)
    assert votes(quorum, 2, 5)
    quorum.run_until(lambda: quorum.node(1).state.kind is State.PROSPECTIVE)
    assert votes(quorum, 3, 5) is (mutant is not None)


@with_and_without("election-not-persisted")
def test_epoch_and_vote_survive_a_restart(mutant: Mutant | None) -> None:
    quorum = Simulation(started=[1], mutant=mutant)
    assert votes(quorum, 2, 5)
    quorum.crash(1)
    quorum.restart(1)
    assert quorum.epochs()[1] == (0 if mutant else 5)
    assert votes(quorum, 3, 5) is (mutant is not None)


# Elections: the quorum.


@with_and_without("rejected-vote-counted")
def test_candidate_that_is_rejected_does_not_lead(mutant: Mutant | None) -> None:
    """Only n1 starts elections, and its log is behind."""
    per_node = {node: {"election_timeout_ms": 10**6} for node in (2, 3)}
    quorum = with_disks({1: log_of(1), 2: log_of(1, 1), 3: log_of(1, 1)}, 1, mutant=mutant, per_node=per_node)
    quorum.run(10_000)
    assert quorum.leader() == (1 if mutant else None)


@with_and_without("own-vote-not-counted")
def test_two_voters_of_three_elect_a_leader(mutant: Mutant | None) -> None:
    quorum = Simulation(seed=1, started=[1, 2], mutant=mutant)
    quorum.run(20_000)
    assert (quorum.leader() is None) is (mutant is not None)


@with_and_without("candidate-retries-in-its-epoch")
def test_split_vote_is_resolved_in_a_later_epoch(mutant: Mutant | None) -> None:
    """Each node has voted for itself in epoch 5."""
    quorum = Simulation(started=[], mutant=mutant)
    for node, member in quorum.members.items():
        member.election = Election(5, None, node)
        quorum.restart(node)
    quorum.run(30_000)
    assert (quorum.leader() is None) is (mutant is not None)
    assert (set(quorum.epochs().values()) == {5}) is (mutant is not None)


@with_and_without("leader-resumes-after-restart")
def test_leader_that_restarts_does_not_lead_its_epoch_again(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    epoch = quorum.epochs()[leader]
    quorum.crash(leader)
    quorum.restart(leader)
    state = quorum.node(leader).state
    assert (state.kind, state.epoch) == (State.LEADER if mutant else State.RESIGNED, epoch)


@with_and_without("observer-campaigns")
def test_observer_without_a_leader_starts_no_election(mutant: Mutant | None) -> None:
    quorum, _, _ = led(mutant, observers=1)
    for node in (1, 2):
        quorum.crash(node)
    quorum.run(20_000)
    assert any(4 in leaders for leaders in quorum.leaders.values()) is (mutant is not None)


@with_and_without("fetch-timeout-ignored")
def test_failed_leader_is_replaced(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    quorum.crash(leader)
    quorum.run(20_000)
    assert (quorum.leader() is None) is (mutant is not None)


@with_and_without("new-leader-discards-uncommitted")
def test_new_leader_keeps_records_that_it_does_not_know_to_be_committed(mutant: Mutant | None) -> None:
    """The leader fails before a follower learns that the write is committed."""
    quorum, leader, _ = led(mutant)
    completed(quorum, quorum.write(leader, "k", "1"))
    quorum.isolate(leader)
    quorum.crash(leader)
    assert value_at_new_leader(quorum) == (None if mutant else "1")


# Replication: what is committed.


@pytest.mark.parametrize("is_planted", [False, True], ids=["without", "with"])
@pytest.mark.parametrize(
    "mutant",
    [
        "leader-commits-alone",
        "sent-counts-as-replicated",
        "quorum-shrinks-to-live-voters",
        "acknowledged-when-appended",
        "pending-writes-acknowledged",
    ],
)
def test_leader_that_reaches_no_follower_acknowledges_no_write(mutant: Mutant, is_planted: bool) -> None:
    """The followers' fetches arrive, but no response does."""
    quorum, leader, followers = led(mutant if is_planted else None)
    for follower in followers:
        quorum.cut_one_way(leader, follower)
    write = quorum.write(leader, "k", "1")
    quorum.run(10_000)
    assert is_ok(write) is is_planted
    assert value_at_new_leader(quorum) is None


@pytest.mark.parametrize("mutant", [None, "leader-commits-alone", "acknowledged-when-appended"])
def test_high_watermark_of_a_leader_that_is_cut_off_does_not_advance(mutant: Mutant | None) -> None:
    """An early acknowledgement alone leaves the high watermark right."""
    quorum, leader, _ = led(mutant)
    quorum.isolate(leader)
    quorum.write(leader, "k", "1")
    quorum.run(1_000)
    log = quorum.node(leader).log
    assert (log.high_watermark == log.end_offset) is (mutant == "leader-commits-alone")


def with_one_follower(mutant: str | None) -> tuple[Simulation, int]:
    """Five voters, of which one follower alone is connected to the leader."""
    quorum, leader, followers = led(mutant, size=5)
    quorum.cut(*((leader, follower) for follower in followers[1:]))
    quorum.run(100)
    return quorum, leader


@with_and_without("one-follower-commits")
def test_two_voters_of_five_do_not_commit(mutant: Mutant | None) -> None:
    quorum, leader = with_one_follower(mutant)
    write = quorum.write(leader, "k", "1")
    quorum.run(500)
    assert is_ok(write) is (mutant is not None)


@with_and_without("read-confirmed-by-one-follower")
def test_two_voters_of_five_do_not_confirm_a_read(mutant: Mutant | None) -> None:
    quorum, leader = with_one_follower(mutant)
    read = quorum.read(leader, "k")
    quorum.run(500)
    assert is_ok(read) is (mutant is not None)


@with_and_without("check-quorum-counts-one-follower")
def test_leader_of_two_voters_of_five_resigns(mutant: Mutant | None) -> None:
    """The follower does not reach the others either, so nobody deposes the leader."""
    quorum, leader, followers = led(mutant, size=5)
    quorum.cut(*((near, far) for near in (leader, followers[0]) for far in followers[1:]))
    quorum.run(10_000)
    assert (quorum.node(leader).state.kind is State.LEADER) is (mutant is not None)


@with_and_without("observer-counts-for-commit")
def test_observer_does_not_commit(mutant: Mutant | None) -> None:
    quorum, leader, followers = led(mutant, observers=1)
    quorum.cut(*((leader, follower) for follower in followers))
    write = quorum.write(leader, "k", "1")
    quorum.run(1_000)
    assert is_ok(write) is (mutant is not None)


@with_and_without("leader-not-counted-for-commit")
def test_two_voters_of_three_commit(mutant: Mutant | None) -> None:
    quorum, leader, followers = led(mutant)
    quorum.crash(followers[0])
    write = quorum.write(leader, "k", "1")
    quorum.run(1_000)
    assert is_ok(write) is (mutant is None)


@with_and_without("earlier-epoch-commits-by-counting")
def test_record_of_an_earlier_epoch_is_not_committed_alone(mutant: Mutant | None) -> None:
    """Raft, figure 8: two voters have three records of epoch 1; n1 leads a later epoch and cannot send."""
    per_node = {node: {"election_timeout_ms": 10**6} for node in (2, 3)}
    logs = {1: log_of(1, 1, 1), 2: log_of(1, 1, 1), 3: log_of(1)}
    quorum = with_disks(logs, 1, mutant=mutant, per_node=per_node)
    quorum.message_rule = lambda *message: None if isinstance(message[2], FetchRequest) and message[3] else 0
    quorum.run_until(lambda: quorum.leader() == 1)
    quorum.run(100)
    assert quorum.invoke(1, DescribeQuorumRequest()).response.high_watermark == (3 if mutant else -1)


@with_and_without("uncommitted-high-watermark-sent")
def test_leader_sends_no_high_watermark_above_its_own(mutant: Mutant | None) -> None:
    """The followers get the record, and the leader does not learn of it."""
    quorum, leader, followers = led(mutant)
    for follower in followers:
        quorum.cut_one_way(follower, leader)
    quorum.write(leader, "k", "1")
    quorum.run(20)
    own, highest = quorum.node(leader).log, max(quorum.node(follower).log.high_watermark for follower in followers)
    assert quorum.node(followers[0]).log.end_offset == own.end_offset > own.high_watermark
    assert highest == (own.end_offset if mutant else own.high_watermark)


# Replication: where logs diverge.


def returned(mutant: str | None, is_restarted: bool = False, **switches: Any) -> tuple[Simulation, int]:
    """An isolated leader appends three writes, a new leader commits another, and the old leader returns."""
    quorum, old, _ = led(mutant, **switches)
    quorum.isolate(old)
    for value in range(3):
        quorum.write(old, "k", f"lost-{value}")
    quorum.run_until(lambda: quorum.leader() not in (None, old))
    completed(quorum, quorum.write(quorum.elect(), "k", "kept"))
    quorum.run(3_000)
    if is_restarted:
        quorum.crash(old)
        quorum.restart(old)
    quorum.heal()
    quorum.run(10_000)
    return quorum, old


@with_and_without("divergence-ignores-epochs")
def test_log_that_diverges_below_the_leaders_end_is_truncated(mutant: Mutant | None) -> None:
    quorum, _ = returned(mutant)
    assert any("committed records differ" in each for each in quorum.violations) is (mutant is not None)


@with_and_without("truncation-off-by-one")
def test_truncation_spares_the_last_common_record(mutant: Mutant | None) -> None:
    quorum, old = returned(mutant)
    assert ("truncation" in (quorum.members[old].halted or "")) is (mutant is not None)


@with_and_without("log-end-committed-on-restart")
def test_restart_does_not_commit(mutant: Mutant | None) -> None:
    quorum, old = returned(mutant, is_restarted=True)
    assert ("truncation" in (quorum.members[old].halted or "")) is (mutant is not None)


@with_and_without("high-watermark-beyond-log")
def test_follower_applies_every_record(mutant: Mutant | None) -> None:
    quorum, old = returned(mutant, read_mode="local")
    assert value_of(quorum.read(old, "k"), "k") == (None if mutant else "kept")


# Clients.


@with_and_without("acknowledged-one-record-early")
def test_commit_of_a_record_does_not_acknowledge_the_next(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    first, second = quorum.write(leader, "k", "1"), quorum.write(leader, "k", "2")
    completed(quorum, first)
    quorum.isolate(leader)
    assert is_ok(second) is (mutant is not None)
    assert value_at_other_leader(quorum, leader) == "1"


def value_at_other_leader(quorum: Simulation, old: int) -> str | None:
    """The value of register k at the leader after this one."""
    quorum.run_until(lambda: quorum.leader() not in (None, old))
    return value_at_new_leader(quorum)


@with_and_without("pending-writes-rejected")
def test_write_that_may_be_committed_is_not_rejected(mutant: Mutant | None) -> None:
    """The followers get the write, but the leader loses leadership before it learns of that."""
    quorum, leader, followers = led(mutant)
    for follower in followers:
        quorum.cut_one_way(follower, leader)
    write = quorum.write(leader, "k", "1")
    quorum.run_until(lambda: write.response is not None)
    reason = f"The active controller appears to be node {leader}." if mutant else "No controller appears to be active."
    assert (write.response.error, write.response.reason) == (ErrorCode.not_controller, reason)
    assert value_at_other_leader(quorum, leader) == "1"


@with_and_without("reads-unconfirmed")
def test_leader_that_is_cut_off_answers_no_read(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    quorum.isolate(leader)
    assert is_ok(quorum.read(leader, "k")) is (mutant is not None)


@with_and_without("pending-reads-answered")
def test_leader_that_resigns_answers_unconfirmed_reads_with_an_error(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    quorum.isolate(leader)
    read = quorum.read(leader, "k")
    quorum.run_until(lambda: read.response is not None)
    assert quorum.node(leader).state.kind is State.RESIGNED
    assert is_ok(read) is (mutant is not None)


@with_and_without("resigned-leader-answers-reads")
def test_leader_that_has_resigned_answers_no_read(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    quorum.isolate(leader)
    quorum.run_until(lambda: quorum.node(leader).state.kind is State.RESIGNED)
    assert is_ok(quorum.read(leader, "k")) is (mutant is not None)


@with_and_without("uncommitted-records-visible")
def test_read_does_not_return_a_write_that_is_not_committed(mutant: Mutant | None) -> None:
    """The lease lets the leader answer reads for a while after it was cut off."""
    quorum, leader, _ = led(mutant, read_mode="lease")
    quorum.isolate(leader)
    quorum.write(leader, "k", "1")
    assert value_of(quorum.read(leader, "k"), "k") == ("1" if mutant else None)


@with_and_without("log-not-replayed-on-restart")
def test_registers_survive_a_restart(mutant: Mutant | None) -> None:
    quorum, leader, _ = led(mutant)
    completed(quorum, quorum.write(leader, "k", "1"))
    quorum.run(1_000)
    for node in quorum.members:
        quorum.crash(node)
    for node in quorum.members:
        quorum.restart(node)
    assert value_at_new_leader(quorum) == (None if mutant else "1")
