"""Replication and client requests in virtual time: commits, truncation, reads and DescribeQuorum."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nodes.reference.core.events import Election
from nodes.reference.core.messages import DescribeQuorumRequest
from nodes.reference.core.settings import NodeSettings
from nodes.wire.batches import Record, encode_batch
from tests.support.nodes.quorum_simulation import Simulation, is_ok, value_of


def test_acknowledged_write_survives_the_crash_of_its_leader() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    write = quorum.write(leader, "k", "1")
    quorum.run_until(lambda: write.response is not None)
    assert is_ok(write)
    quorum.crash(leader)
    read = quorum.read(quorum.elect(), "k")
    quorum.run_until(lambda: read.response is not None)
    assert value_of(read, "k") == "1"
    assert quorum.violations == []


def test_write_is_acknowledged_only_once_a_majority_has_it() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    quorum.isolate(leader)
    write = quorum.write(leader, "k", "1")
    quorum.run(1_000)
    assert write.response is None
    quorum.run_until(lambda: write.response is not None)
    assert (write.response.error.name, write.response.reason) == (
        "not_controller",
        "No controller appears to be active.",
    )


def test_write_at_a_follower_is_rejected_with_the_active_controller() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    quorum.run(100)
    write = quorum.write(next(node for node in quorum.members if node != leader), "k", "1")
    assert write.response.reason == f"The active controller appears to be node {leader}."


def run_divergence(mutant: str | None) -> Simulation:
    """LD-01: an isolated leader appends records, a new leader appends others, and the partition heals."""
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


def test_diverged_follower_truncates_to_the_common_prefix() -> None:
    quorum = run_divergence(None)
    logs = {bytes(member.log) for member in quorum.members.values()}
    shortest = min(map(len, logs))
    assert len({log[:shortest] for log in logs}) == 1
    assert quorum.violations == []


def test_truncated_follower_takes_nothing_as_committed_before_its_log_is_the_leaders() -> None:
    """Several truncations are needed if the leader's log has an epoch that the follower's lacks. After the first, the
    follower still has records that the leader does not have, below the leader's high watermark."""
    quorum = Simulation(seed=1, started=())
    logs = {1: {1: 7, 3: 1}, 2: {1: 3, 2: 3, 4: 2}, 3: {1: 3, 2: 3, 4: 2}}
    for node, epochs in logs.items():
        of_records = (epoch for epoch, count in epochs.items() for _ in range(count))
        batches = (encode_batch([Record(None, b"%d" % epoch)], at, epoch, 0) for at, epoch in enumerate(of_records))
        quorum.members[node].log += b"".join(batches)
        quorum.members[node].election = Election(epoch=4)
    quorum.restart(2)
    quorum.restart(3)
    leader = quorum.elect()
    quorum.restart(1)
    quorum.run_until(lambda: quorum.node(1).log.end_offset == quorum.node(leader).log.end_offset)
    truncations = [effect for effect in quorum.members[1].effects if effect == "TruncateLog"]
    assert (len(truncations), quorum.violations) == (2, [])


def test_follower_that_does_not_truncate_commits_different_records() -> None:
    quorum = run_divergence("no-truncation")
    assert any("committed records differ" in violation for violation in quorum.violations)


def test_half_of_the_voters_as_a_majority_elects_two_leaders_in_one_epoch() -> None:
    """Each half of a partitioned quorum elects a leader in the same epoch."""
    quorum = Simulation(seed=1, size=4, mutant="half-is-a-majority")
    quorum.cut((1, 3), (1, 4), (2, 3), (2, 4))
    quorum.run(20_000)
    assert any("two leaders" in violation for violation in quorum.violations)


def stale_reads(**switches: object) -> int:
    """Isolate the leader, write at the new one, and count the stale reads at the old one, over twelve seeds."""
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
        stale += sum(is_ok(read) and read.invoked_ms >= written_ms and value_of(read, "k") is None for read in reads)
        assert quorum.violations == []
    return stale


@pytest.mark.parametrize("mode", ["lease", "read-index"])
def test_reads_are_never_stale(mode: str) -> None:
    assert stale_reads(read_mode=mode) == 0


def test_reads_are_stale_with_a_lease_longer_than_the_fetch_timeout() -> None:
    """The lease that Check Quorum alone would allow: 1.5 fetch timeouts."""
    assert stale_reads(read_mode="lease", read_lease_ms=3_000) > 0


def test_local_reads_are_stale() -> None:
    assert stale_reads(read_mode="local") > 0


def test_reads_of_an_idle_quorum_do_not_wait_for_the_next_record() -> None:
    """The followers' fetches are parked, or on their way back to the leader, when a read arrives."""
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    quorum.run(1_000)
    for gap_ms in range(12):
        quorum.run(gap_ms)
        read = quorum.read(leader, "key")
        quorum.run(100)
        assert read.completed_ms is not None
        assert read.completed_ms - read.invoked_ms < 50


@pytest.mark.parametrize(("mode", "is_immediate"), [("lease", True), ("read-index", False)])
def test_lease_read_is_immediate_and_read_index_takes_a_round_trip(mode: str, is_immediate: bool) -> None:
    quorum = Simulation(seed=1, read_mode=mode)
    leader = quorum.elect()
    quorum.run(2_000)
    read = quorum.read(leader, "k")
    assert (read.response is not None) is is_immediate
    quorum.run(50)
    assert is_ok(read)


def test_high_watermark_advances_without_load() -> None:
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    high_watermarks = []
    for _ in range(5):
        high_watermarks.append(quorum.invoke(leader, DescribeQuorumRequest()).response.high_watermark)
        quorum.run(600)
    assert all(earlier < later for earlier, later in pairwise(high_watermarks))


def test_leader_describes_each_voters_log_end_and_followers_refuse() -> None:
    """DQ-01 and DQ-02."""
    quorum = Simulation(seed=1)
    leader = quorum.elect()
    lagging, other = [node for node in quorum.members if node != leader]
    quorum.run(1_000)
    quorum.isolate(lagging)
    quorum.run(1_500)
    response = quorum.invoke(leader, DescribeQuorumRequest()).response
    ends = {view.replica_id: view.end_offset for view in response.voters}
    assert ends[lagging] < response.high_watermark <= ends[other] <= ends[leader]
    assert quorum.invoke(other, DescribeQuorumRequest()).response.error.name == "not_leader_or_follower"


def stale_reads_after_candidate_restart(**switches: object) -> int:
    """PV-41: a voter restarts as the candidate of a later epoch; 1 if a read at the old leader is stale then."""
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


def test_lease_holds_against_a_candidate_left_over_from_an_earlier_election() -> None:
    assert stale_reads_after_candidate_restart(read_mode="lease") == 0


def test_lease_without_vote_promises_fails_against_a_left_over_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-996 alone: the follower that fetched adopts the later epoch and votes, though a lease relies on it."""
    monkeypatch.setattr(NodeSettings, "vote_promise_ms", property(lambda _: 0))
    assert stale_reads_after_candidate_restart(read_mode="lease") == 1
