"""The log: what is committed, what is cut, and what clients may be told, on virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nodes.reference.core.events import Election
from nodes.reference.core.messages import DescribeQuorumRequest
from nodes.reference.core.settings import NodeSettings
from tests.support.nodes.quorum_simulation import Simulation, is_ok, value_of


def test_an_acknowledged_write_survives_its_leader() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    ticket = quorum.write(leader, "k", "1")
    quorum.run_until(lambda: ticket.response is not None)
    assert is_ok(ticket)
    quorum.crash(leader)
    read = quorum.read(quorum.elect(), "k")
    quorum.run_until(lambda: read.response is not None)
    assert value_of(read, "k") == "1"
    assert quorum.violations == []


def test_a_write_is_acknowledged_only_once_a_majority_has_it() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    quorum.isolate(leader)
    ticket = quorum.write(leader, "k", "1")
    quorum.run(1_000)
    assert ticket.response is None
    quorum.run_until(lambda: ticket.response is not None)
    assert (ticket.response.error.name, ticket.response.reason) == (
        "not_controller",
        "No controller appears to be active.",
    )


def test_a_write_refused_up_front_names_the_active_controller() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    quorum.run(100)
    ticket = quorum.write(next(node for node in quorum.members if node != leader), "k", "1")
    assert ticket.response.reason == f"The active controller appears to be node {leader}."


def diverged(mutant: str | None) -> Simulation:
    """LD-01: a leader cut off appends what nobody gets, another leader appends its own, and the link heals."""
    quorum = Simulation(seed=6, mutant=mutant)
    old = quorum.elect()
    quorum.run(1_000)
    quorum.isolate(old)
    for value in range(3):
        quorum.write(old, "k", f"lost-{value}")
    quorum.run_until(lambda: quorum.leader() not in (None, old))
    new = quorum.elect()
    quorum.write(new, "k", "kept")
    quorum.run(1_000)
    quorum.heal()
    quorum.run(10_000)
    return quorum


def test_a_diverged_follower_truncates_to_the_common_prefix() -> None:
    quorum = diverged(None)
    logs = {bytes(member.log) for member in quorum.members.values()}
    shortest = min(map(len, logs))
    assert len({log[:shortest] for log in logs}) == 1
    assert quorum.violations == []


def test_a_follower_that_does_not_truncate_ends_with_other_records_committed() -> None:
    quorum = diverged("no-truncation")
    assert any("committed records differ" in violation for violation in quorum.violations)


def test_half_as_a_majority_elects_two_leaders_in_one_epoch() -> None:
    """Both halves of a quorum cut in two elect a leader each, in the same epoch."""
    quorum = Simulation(seed=1, size=4, mutant="half-is-a-majority")
    quorum.cut((1, 3), (1, 4), (2, 3), (2, 4))
    quorum.run(20_000)
    assert any("two leaders" in violation for violation in quorum.violations)


def stale_reads(**switches: object) -> int:
    """Over many seeds: cut the leader off, write at the new one, and count reads at the old one that miss it."""
    stale = 0
    for seed in range(12):
        quorum = Simulation(seed=seed, size=3, **switches)
        old = quorum.elect()
        quorum.run(1_000)
        quorum.isolate(old)
        reads = []
        written_ms = None
        for _ in range(500):
            quorum.run(10)
            new = quorum.leader()
            if written_ms is None and new not in (None, old):
                write = quorum.write(new, "k", "new")
                quorum.run_until(lambda write=write: write.response is not None)
                written_ms = quorum.now_ms if is_ok(write) else None
            reads.append(quorum.read(old, "k"))
        assert written_ms is not None
        stale += sum(is_ok(read) and read.asked_ms >= written_ms and value_of(read, "k") is None for read in reads)
        assert quorum.violations == []
    return stale


@pytest.mark.parametrize("mode", ["lease", "read-index"])
def test_reads_are_never_stale(mode: str) -> None:
    assert stale_reads(read_mode=mode) == 0


def test_reads_are_stale_under_a_lease_longer_than_the_fetch_timeout() -> None:
    """What Check Quorum alone would give: 1.5 fetch timeouts."""
    assert stale_reads(read_mode="lease", read_lease_ms=3_000) > 0


def test_local_reads_are_stale() -> None:
    assert stale_reads(read_mode="local") > 0


def test_a_lease_answers_at_once_and_read_index_takes_a_round_trip() -> None:
    for mode, at_once in (("lease", True), ("read-index", False)):
        quorum = Simulation(seed=1, read_mode=mode)
        leader = quorum.elect()
        quorum.run(2_000)
        read = quorum.read(leader, "k")
        assert (read.response is not None) is at_once
        quorum.run(50)
        assert is_ok(read)


def test_the_high_watermark_moves_without_load() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    seen = []
    for _ in range(5):
        seen.append(quorum.ask(leader, DescribeQuorumRequest()).response.high_watermark)
        quorum.run(600)
    assert all(earlier < later for earlier, later in pairwise(seen))


def test_describe_quorum_tells_each_voters_log_end_and_refuses_elsewhere() -> None:
    """DQ-01 and DQ-02."""
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    lagging, other = [node for node in quorum.members if node != leader]
    quorum.run(1_000)
    quorum.isolate(lagging)
    quorum.run(1_500)
    response = quorum.ask(leader, DescribeQuorumRequest()).response
    ends = {view.replica_id: view.end_offset for view in response.voters}
    assert ends[lagging] < response.high_watermark <= ends[other] <= ends[leader]
    assert quorum.ask(other, DescribeQuorumRequest()).response.error.name == "not_leader_or_follower"


def left_over_candidate(**switches: object) -> int:
    """PV-41: a voter restarts as the candidate of a later epoch; whether a read at the old leader is stale for it."""
    quorum = Simulation(seed=1, max_idle_interval_ms=0, **switches)
    leader = quorum.elect()
    quorum.run(3_000)
    candidate = next(node for node in quorum.members if node != leader)
    quorum.crash(candidate)
    epoch = quorum.epochs()[leader]
    quorum.members[candidate].election = Election(epoch + 1, None, candidate)
    quorum.run(1_000)
    quorum.cut((leader, candidate))
    quorum.restart(candidate)
    quorum.run_until(lambda: max(quorum.leaders) > epoch)
    write = quorum.write(quorum.leader() or 0, "k", "new")
    quorum.run_until(lambda: write.response is not None)
    read = quorum.read(leader, "k")
    quorum.run(5_000)
    assert is_ok(write)
    assert quorum.violations == []
    return int(is_ok(read) and value_of(read, "k") is None)


def test_a_candidate_left_over_from_an_earlier_election_cannot_break_a_lease() -> None:
    assert left_over_candidate(read_mode="lease") == 0


def test_without_the_promise_of_voters_such_a_candidate_does_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-996 alone: the follower that fetched adopts the later epoch and votes, though a lease relies on it."""
    monkeypatch.setattr(NodeSettings, "vote_promise_ms", property(lambda _: 0))
    assert left_over_candidate(read_mode="lease") == 1
