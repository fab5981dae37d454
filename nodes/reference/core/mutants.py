"""The mutants of the reference quorum: bugs of consensus protocols, each in one visible branch that is off by default.

Contains their names and what each breaks. The branches are where the bug would be: in the core, or in the disk for what
is stored. They read NodeSettings.has.

A mutant is a bug that faults, load and checks can reveal: it changes what clients, other nodes or a restart see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Mutant = Literal[
    "vote-forgotten-on-restart",
    "half-is-a-majority",
    "no-truncation",
    "pre-vote-counted-as-vote",
    "pre-vote-without-fallback",
    "followers-always-deny-pre-vote",
    "resigned-keeps-its-epoch",
    "vote-forgotten-by-follower",
    "prospective-never-fetches",
    "second-vote-in-an-epoch",
    "vote-ignores-log",
    "vote-compares-length-only",
    "vote-compares-epoch-only",
    "vote-compares-committed-only",
    "rejected-vote-counted",
    "own-vote-not-counted",
    "candidate-retries-in-its-epoch",
    "vote-kept-in-next-epoch",
    "vote-forgotten-by-prospective",
    "election-not-persisted",
    "leader-resumes-after-restart",
    "observer-campaigns",
    "fetch-timeout-ignored",
    "new-leader-discards-uncommitted",
    "leader-commits-alone",
    "one-follower-commits",
    "earlier-epoch-commits-by-counting",
    "observer-counts-for-commit",
    "sent-counts-as-replicated",
    "quorum-shrinks-to-live-voters",
    "leader-not-counted-for-commit",
    "divergence-ignores-epochs",
    "truncation-off-by-one",
    "high-watermark-beyond-log",
    "uncommitted-high-watermark-sent",
    "check-quorum-counts-one-follower",
    "acknowledged-when-appended",
    "acknowledged-one-record-early",
    "pending-writes-acknowledged",
    "pending-writes-rejected",
    "reads-unconfirmed",
    "read-confirmed-by-one-follower",
    "pending-reads-answered",
    "resigned-leader-answers-reads",
    "uncommitted-records-visible",
    "log-not-synced",
    "quorum-state-not-synced",
    "restart-loses-last-batch",
    "checksums-not-verified",
    "torn-tail-kept",
    "log-end-committed-on-restart",
    "log-not-replayed-on-restart",
    "voters-change-when-committed",
    "voters-kept-after-truncation",
    "voters-below-former-end-ignored",
    "removed-voter-ends-leader",
    "own-vote-restored-before-leader",
    "unattached-ends-at-leaders-response",
    "voters-changed-before-own-record",
    "reassignment-acknowledged-early",
    "gossip-of-any-age",
    "election-before-discovery",
    "addresses-from-responses-alone",
    "configured-voters-not-written",
    "snapshot-of-uncommitted-records",
    "voters-of-snapshot-ignored",
]


@dataclass(frozen=True, slots=True)
class MutantInfo:
    """What a mutant does, where the bug is known from, and the rows of the catalogue whose scenarios find it."""

    effect: str
    source: str
    found_by: str = ""


MUTANTS: Mapping[Mutant, MutantInfo] = {
    # The KIPs' own defects and the first planted bugs.
    "vote-forgotten-on-restart": MutantInfo(
        "A voter that restarts has forgotten its vote and may vote for another candidate of the epoch.",
        "Raft, figure 2: votedFor is persistent",
        "PV-15",
    ),
    "half-is-a-majority": MutantInfo(
        "Half of the voters elect a leader and commit records.",
        "a known off-by-one error of majorities",
        "any scenario with an election",
    ),
    "no-truncation": MutantInfo(
        "A follower neither asks where its log diverges from the leader's nor truncates it.",
        "KIP-595, log reconciliation; Raft, 5.3",
        "LD-01",
    ),
    "pre-vote-counted-as-vote": MutantInfo(
        "A Candidate counts pre-votes that arrive late as votes.", "KIP-996, pre-vote responses", "PV-26"
    ),
    "pre-vote-without-fallback": MutantInfo(
        "A Prospective among voters of an earlier release never becomes Candidate.", "KIP-996, compatibility", "PV-25"
    ),
    "followers-always-deny-pre-vote": MutantInfo(
        "A follower denies pre-votes even if it has never fetched from its leader.",
        "KIP-996, pre-vote requests",
        "PV-23",
    ),
    "resigned-keeps-its-epoch": MutantInfo(
        "A leader that resigned keeps its epoch and may follow itself.", "KIP-996, ResignedState changes", "PV-16"
    ),
    "vote-forgotten-by-follower": MutantInfo(
        "A voter that becomes a follower forgets its vote of the epoch.", "KIP-996, FollowerState changes", "PV-15"
    ),
    "prospective-never-fetches": MutantInfo(
        "A Prospective that lost repeats its pre-votes and does not look for the leader.",
        "KIP-996, rejected alternatives",
        "PV-24",
    ),
    # Elections.
    "second-vote-in-an-epoch": MutantInfo(
        "A voter that has voted grants its vote to another candidate of the epoch too.",
        "Raft, 5.2: one vote per term",
    ),
    "vote-ignores-log": MutantInfo(
        "A voter grants its vote to a candidate whose log lacks committed records.",
        "Raft, 5.4.1: the election restriction",
    ),
    "vote-compares-length-only": MutantInfo(
        "A voter compares the lengths of the logs and not the epochs of their last records.",
        "Raft, 5.4.1: a known misreading of the election restriction",
    ),
    "vote-compares-epoch-only": MutantInfo(
        "A voter compares the epochs of the last records and not the lengths of the logs.",
        "Raft, 5.4.1: a known misreading of the election restriction",
    ),
    "vote-compares-committed-only": MutantInfo(
        "A voter compares a candidate's log with its own high watermark, which may be behind what is committed.",
        "Raft, 5.4.1: a known misreading of the election restriction",
    ),
    "rejected-vote-counted": MutantInfo(
        "A Prospective or Candidate counts every response as a granted vote.",
        "Raft, figure 2: voteGranted; a known implementation error",
    ),
    "own-vote-not-counted": MutantInfo(
        "A Candidate needs the votes of a majority besides its own, so one failed voter of three prevents elections.",
        "Raft, 5.2: a candidate votes for itself",
    ),
    "candidate-retries-in-its-epoch": MutantInfo(
        "With Pre-Vote, a Candidate that was not elected asks again in the same epoch, so a split vote is final.",
        "Raft, 5.2: a new election has a new term",
    ),
    "vote-kept-in-next-epoch": MutantInfo(
        "A voter keeps its vote when it adopts a higher epoch, and so rejects the candidates of that epoch.",
        "Students' Guide to Raft: adopting a term resets votedFor",
    ),
    "vote-forgotten-by-prospective": MutantInfo(
        "A Prospective has no vote in its epoch, whatever it granted before.",
        "KIP-996, ProspectiveState: the vote is kept",
    ),
    "election-not-persisted": MutantInfo(
        "The epoch and the vote are not written until the epoch's leader is known; a restart goes back.",
        "Raft, figure 2: currentTerm and votedFor are persistent",
    ),
    "leader-resumes-after-restart": MutantInfo(
        "A leader that restarts leads its epoch again, without an election.",
        "Kafka's QuorumState.initialize: a restarted leader starts as Resigned",
    ),
    "observer-campaigns": MutantInfo(
        "An observer whose fetch timeout expires starts an election and may win it.",
        "KIP-595 and KIP-996: observers do not take part in elections",
    ),
    "fetch-timeout-ignored": MutantInfo(
        "A follower keeps waiting for a leader that has failed, so no election replaces it.",
        "KIP-595, quorum.fetch.timeout.ms",
    ),
    "new-leader-discards-uncommitted": MutantInfo(
        "A new leader removes the records that it does not know to be committed, though a majority may hold them.",
        "Raft, 5.3: a leader never deletes entries of its log",
    ),
    # Replication.
    "leader-commits-alone": MutantInfo(
        "The leader's high watermark is the end of its own log.", "Raft, 5.3: committed once a majority has it"
    ),
    "one-follower-commits": MutantInfo(
        "A record is committed once the leader and one follower have it; differs with five voters or more.",
        "a known off-by-one error of majorities that tests with three nodes do not show",
    ),
    "earlier-epoch-commits-by-counting": MutantInfo(
        "A leader commits records of earlier epochs before a record of its own.", "Raft, 5.4.2 and figure 8"
    ),
    "observer-counts-for-commit": MutantInfo(
        "A leader counts observers as voters when it advances the high watermark.",
        "Raft thesis, 4.2.1: non-voting servers do not count for commitment",
    ),
    "sent-counts-as-replicated": MutantInfo(
        "A leader counts records as replicated when it sends them, not when the follower fetches after them.",
        "Students' Guide to Raft: matchIndex is not nextIndex - 1",
    ),
    "quorum-shrinks-to-live-voters": MutantInfo(
        "A leader counts a majority of the voters that fetch, so a leader that is cut off commits alone.",
        "the in-sync replicas of Kafka's partitions, which a majority quorum does not have",
    ),
    "leader-not-counted-for-commit": MutantInfo(
        "A record needs a majority of voters besides the leader, so one failed voter of three stops all writes.",
        "Raft, 5.3: the leader's own copy counts",
    ),
    "divergence-ignores-epochs": MutantInfo(
        "A leader reports divergence only to followers whose logs are longer than its own, and not by epochs.",
        "KIP-101 and KIP-279: epochs, not offsets, tell where logs diverge",
    ),
    "truncation-off-by-one": MutantInfo(
        "A follower truncates one record more than it has to, and halts if that record is committed.",
        "a known off-by-one error: an exclusive end offset taken as inclusive",
    ),
    "high-watermark-beyond-log": MutantInfo(
        "A follower takes the leader's high watermark though its own log ends before, and never applies what follows.",
        "Raft, figure 2: commitIndex = min(leaderCommit, index of last new entry)",
    ),
    "uncommitted-high-watermark-sent": MutantInfo(
        "A leader sends the end of its log to followers as the high watermark, so they take all records as committed.",
        "Raft, figure 2: leaderCommit is the commit index",
    ),
    "check-quorum-counts-one-follower": MutantInfo(
        "One follower that fetches is enough for Check Quorum; differs with five voters or more.",
        "KAFKA-15489: a leader without a majority resigns",
    ),
    # Clients.
    "acknowledged-when-appended": MutantInfo(
        "A leader acknowledges writes when it has appended them.",
        "the guarantee of acks=1, where a quorum promises acks=all",
    ),
    "acknowledged-one-record-early": MutantInfo(
        "A leader acknowledges a write once the record before it is committed.",
        "a known off-by-one error: an exclusive high watermark taken as inclusive",
    ),
    "pending-writes-acknowledged": MutantInfo(
        "A leader that loses leadership acknowledges the writes that it has appended but not committed.",
        "Raft, 8: a response follows only from commitment",
    ),
    "pending-writes-rejected": MutantInfo(
        "A leader that loses leadership rejects appended writes as if they had not been started; some are committed.",
        "Jepsen: an indeterminate operation reported as failed",
    ),
    "reads-unconfirmed": MutantInfo(
        "A leader answers reads without asking whether it has been replaced.",
        "Raft, 8; Jepsen's analysis of etcd and Consul (2014)",
    ),
    "read-confirmed-by-one-follower": MutantInfo(
        "One follower confirms a read; differs with five voters or more.",
        "Raft thesis, 6.4: a majority confirms the read index",
    ),
    "pending-reads-answered": MutantInfo(
        "A leader that loses leadership answers its unconfirmed reads with values instead of an error.",
        "Raft thesis, 6.4: a majority confirms the read index",
    ),
    "resigned-leader-answers-reads": MutantInfo(
        "A leader that has resigned goes on answering reads.", "Raft thesis, 6.2 and 6.4: a leader that steps down"
    ),
    "uncommitted-records-visible": MutantInfo(
        "A leader applies records when it appends them and does not undo them if they are truncated.",
        "Raft, 5.3: only committed entries are applied",
    ),
    # Storage and restarts.
    "log-not-synced": MutantInfo(
        "Records are acknowledged before they are on disk.", "Raft thesis, 3.8: entries are persistent before responses"
    ),
    "quorum-state-not-synced": MutantInfo(
        "Votes and epochs are not on disk when they are revealed.",
        "Raft, figure 2: updated on stable storage before responding",
    ),
    "restart-loses-last-batch": MutantInfo(
        "A restart drops the last batch of the log, which may be committed.",
        "a known off-by-one error in the recovery of logs",
    ),
    "checksums-not-verified": MutantInfo(
        "A restart keeps batches whose checksum is wrong.",
        "Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018)",
    ),
    "torn-tail-kept": MutantInfo(
        "A restart ignores a torn tail but leaves it in the file, so later batches cannot be read after it.",
        "All File Systems Are Not Created Equal (OSDI 2014): the tails of logs after a crash",
    ),
    "log-end-committed-on-restart": MutantInfo(
        "A restart takes the whole log as committed.",
        "Raft, figure 2: commitIndex is volatile and starts at 0",
    ),
    "log-not-replayed-on-restart": MutantInfo(
        "A restart takes the log as applied, but the registers are empty.",
        "etcd's postmortem of the data inconsistency in 3.5: an applied index without its data",
    ),
    "voters-change-when-committed": MutantInfo(
        "A node acts on a voter assignment once it is committed, not once it is in its log.",
        "KIP-642, Reassignment Algorithm, step 4; etcd's Raft applies changes of members so",
        "RA-11",
    ),
    "voters-kept-after-truncation": MutantInfo(
        "A node that truncates a voter assignment keeps its voters.",
        "KIP-642, Reassignment Algorithm; Kafka 3.9 to 4.3 (docs/findings)",
    ),
    "voters-below-former-end-ignored": MutantInfo(
        "A node whose log was truncated ignores voters that are written below the former end, until it restarts.",
        "Kafka 3.9 to 4.3 (docs/findings/stale-voters.md)",
    ),
    "removed-voter-ends-leader": MutantInfo(
        "A leader ends when a voter that was removed answers a BeginQuorumEpoch request.",
        "Kafka 3.9 to 4.3 (docs/findings/leader-exits.md)",
    ),
    "own-vote-restored-before-leader": MutantInfo(
        "A node that voted for itself starts as a Candidate, though it knows the leader; if it votes alone, it wins.",
        "Kafka 4.0 to 4.3 (docs/findings/second-leader.md)",
        "EX-04",
    ),
    "unattached-ends-at-leaders-response": MutantInfo(
        "A node whose leader is no voter of its log starts as Unattached, and ends when that leader answers its fetch.",
        "Kafka 3.9 to 4.3 (docs/findings/restarted-voter.md)",
        "EX-07",
    ),
    "voters-changed-before-own-record": MutantInfo(
        "A new leader changes the voters before it has committed a record of its epoch.",
        "Ongaro's correction of single-server changes, raft-dev, July 2015",
        "RA-18",
    ),
    "reassignment-acknowledged-early": MutantInfo(
        "A reassignment is acknowledged when it is appended.",
        "KIP-642, AlterPartitionReassignments Request Handling, step 4",
        "RA-07",
    ),
    "gossip-of-any-age": MutantInfo(
        "A node takes over an address of a node that started earlier than the one it knows.",
        "KIP-642, Quorum Bootstrapping: brokers only accept monotonically increasing updates",
        "RA-26",
    ),
    "election-before-discovery": MutantInfo(
        "A voter begins an election although it has not found a majority of the voters.",
        "KIP-642, Bootstrapping Procedure, step 6",
        "RA-25",
    ),
    "addresses-from-responses-alone": MutantInfo(
        "A node does not take over the addresses in the requests of others, only those in responses to its own.",
        "KIP-642, Quorum Bootstrapping: a node tells where it listens, and all brokers learn it",
        "RA-23",
    ),
    "configured-voters-not-written": MutantInfo(
        "The first leader of a cluster does not write the configured voters to the log.",
        "KIP-642, Quorum Bootstrapping: the first leader writes the VoterAssignment",
        "RA-27",
    ),
    "snapshot-of-uncommitted-records": MutantInfo(
        "A snapshot covers the whole log, though the records at its end may not be committed.",
        "KIP-630, When to Snapshot: only committed records; Raft's thesis, 5.1",
    ),
    "voters-of-snapshot-ignored": MutantInfo(
        "A node that fetches a snapshot keeps the voters of the log that the snapshot replaces.",
        "KIP-853, Snapshots: the voters are in the snapshot; Raft's thesis, 5.1",
    ),
}
"""What each mutant does, by name; the order is that of Mutant."""
