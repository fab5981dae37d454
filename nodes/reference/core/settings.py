"""The settings of a node: Kafka's timeouts, switches for the KIPs' fixes, and the chosen mutant.

Contains plain values and what can be computed from them alone. What each mutant breaks is in mutants.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from nodes.reference.core.controller.settings import ControllerSettings
from nodes.reference.core.messages import ReplicaKey, VoterNode
from nodes.reference.core.mutants import Mutant

ReadMode = Literal["lease", "read-index", "local"]
Counted = Literal["requests", "responses"]
CandidateBackoff = Literal["remaining", "exponential"]
ProspectiveFollows = Literal["any-response", "unknown-leader", "begin-quorum"]
LeaderWithoutMajority = Literal["resigns", "new-election", "asks"]
VoterChanges = Literal["none", "kip-642", "kip-853"]
NonVoterVotes = Literal["grant", "campaign", "reject"]
Promotion = Literal["caught-up-first", "in-order", "observer-based"]
VoterAddresses = Literal["configured", "discovered"]
ConfiguredVoters = Literal["at-once", "fallback", "ignored"]

READ_MODES: tuple[str, ...] = get_args(ReadMode)
COUNTED: tuple[str, ...] = get_args(Counted)
CANDIDATE_BACKOFFS: tuple[str, ...] = get_args(CandidateBackoff)
PROSPECTIVE_FOLLOWS: tuple[str, ...] = get_args(ProspectiveFollows)
LEADERS_WITHOUT_MAJORITY: tuple[str, ...] = get_args(LeaderWithoutMajority)
VOTER_CHANGES: tuple[str, ...] = get_args(VoterChanges)
NON_VOTER_VOTES: tuple[str, ...] = get_args(NonVoterVotes)
PROMOTIONS: tuple[str, ...] = get_args(Promotion)
VOTER_ADDRESSES: tuple[str, ...] = get_args(VoterAddresses)
CONFIGURED_VOTERS: tuple[str, ...] = get_args(ConfiguredVoters)

READINGS: Mapping[str, Mapping[str, Any]] = {
    "kip": {
        "candidate_backoff": "exponential",
        "check_quorum_counts": "responses",
        "leader_without_majority": "resigns",
        "not_leader_names_leader": True,
        "prospective_follows": "any-response",
    },
    "kafka": {
        "candidate_backoff": "remaining",
        "check_quorum_counts": "requests",
        "leader_without_majority": "resigns",
        "not_leader_names_leader": False,
        "prospective_follows": "unknown-leader",
    },
}
"""The switches on which KIP-595 and KIP-996 differ from Kafka 4.3.1. Of two KIPs the later counts: a leader resigns.

The KIPs' reading is the default.
"""

FETCH_TIMEOUT_MS = 2000
"""Kafka's default of controller.quorum.fetch.timeout.ms."""

NEVER_MS = 2**62
"""A deadline that is never reached."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A node's settings; they do not change while it runs.

    voters are the configured members of the quorum, ordered by id, until the log says otherwise (core.voters); a node
    that is not among them is an observer. endpoints are their configured addresses, host:port by id.

    bootstrap_servers: where a node begins to look for others (roles.discovering); advertised is where it listens.

    candidate_backoff: what a rejected Candidate waits for before it becomes Prospective. "remaining" is the rest of its
    election timeout (KAFKA-18345); "exponential" is KIP-996's binary exponential back-off (PV-13). Without Pre-Vote it
    is always exponential.

    check_quorum_counts: what Check Quorum counts as a live follower. "requests" are fetch requests received, as in
    Kafka; "responses" are fetch responses known to have been received by the follower, as KIP-996 says (PV-38).

    configured_voters: what the configured voters mean to a node whose log has no assignment, where voters change
    (KIP-642, Bootstrapping Procedure, step 5). "at-once": they are the voters. "fallback": they are, but the node
    begins no election before every address that it knows was asked for a leader, nor once it knows of one. "ignored":
    nobody votes as far as it knows, so it waits until it finds a quorum: KIP-642's suggestion for nodes that start
    without the flag --bootstrap.

    directory_id: that of the node's log directory, new with a new disk; counts with voter_changes=kip-853 alone.

    initial_voters: the voters that the node was formatted with, until the log says otherwise; with
    voter_changes=kip-853 in place of voters, and none for a node that was formatted as an observer.

    deny_votes_within_fetch_timeout: KIP-996's rejected alternative to Pre-Vote (PV-31). A node that leads, or fetched
    from its leader within the fetch timeout, rejects standard votes and keeps its epoch.

    end_quorum_grants: a follower that received EndQuorumEpoch grants pre-votes, though it has fetched (KAFKA-20895,
    PV-39).

    leader_without_majority: "resigns" after one and a half fetch timeouts (KAFKA-15489, KIP-996), or starts a
    "new-election" after one, as KIP-595 says (LP-02). The latter is from before KIP-996 and needs pre_vote=False.
    "asks": after one it asks the other nodes who leads, and leads until it learns of another leader (KIP-642, RA-32).

    new_disk_votes: false is KIP-996's proposal for lost disks (PV-32). A voter that starts with an empty disk grants
    no vote to a log with records until it has caught up with a leader. A restart forgets this.

    non_voter_votes: what a voter does with a vote request of a node that does not vote according to its own log, where
    voters change (RA-14). "grant" ignores that, as Raft does; "campaign" rejects it and starts an election, as KIP-642
    says; "reject" only rejects it.

    not_leader_names_leader: the error response to DescribeQuorum names the leader and its epoch (KIP-595, DQ-01).

    promotion: which new voter a reassignment adds first (RA-02). "caught-up-first": any that has caught up. "in-order":
    the one with the lowest id, once it has. "observer-based": any that has nominated itself, since it knows that it has
    caught up (RA-17).

    prospective_follows: which messages of its own epoch return a Prospective to its leader (PV-37). "any-response" that
    names the leader (KIP-996); a granted vote is counted instead, or no failed leader could be replaced.
    "unknown-leader": any, but only if it knew no leader (Kafka 4.3.1). "begin-quorum": only the leader's own requests
    and its responses to fetches (KIP-996's rejected first solution).

    removed_voters_campaign: a voter that a record removes starts elections until it knows that the record is committed
    (Raft's thesis, 4.2.2). False is KIP-642's text.

    snapshot_bytes: how many bytes of records a node applies before it makes a snapshot (roles.snapshotting);
    snapshot_interval_ms: how long at most, if there are any. retention_bytes: how large the log may be that a snapshot
    covers. segment_bytes, segment_ms: how large a segment of the log on disk may be, and how old.

    starts_as_prospective: a voter that restarts with a vote for itself asks for pre-votes first (PV-41), where Kafka
    starts it as Candidate.

    voter_addresses: where a node has the voters' addresses from, where voters change. "configured": the property
    controller.quorum.voters. "discovered": the other nodes tell them (DiscoverBrokers), and a voter begins no election
    before it has found a majority of the voters (KIP-642, Bootstrapping Procedure, RA-25).

    voter_changes: "none" for a quorum whose voters are configured, or the way to change them: "kip-642" reassigns them
    as a whole (roles.reassigning), "kip-853" adds or removes one at a time, as Kafka does (roles.voter_changing).

    controller: the settings of the controller of brokers, on quorums that have them.

    mutant: a planted bug, one of MUTANTS; none by default.
    """

    node_id: int
    voters: tuple[int, ...]
    cluster_id: str
    endpoints: Mapping[int, str] = field(default_factory=dict)
    directory_id: uuid.UUID | None = None
    initial_voters: tuple[VoterNode, ...] = ()
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    advertised: tuple[str, int] | None = None
    pre_vote: bool = True
    check_quorum: bool = True
    check_quorum_counts: Counted = "responses"
    follower_denies_pre_vote: bool = True
    candidate_backoff: CandidateBackoff = "exponential"
    configured_voters: ConfiguredVoters = "at-once"
    deny_votes_within_fetch_timeout: bool = False
    end_quorum_grants: bool = False
    leader_without_majority: LeaderWithoutMajority = "resigns"
    new_disk_votes: bool = True
    non_voter_votes: NonVoterVotes = "grant"
    not_leader_names_leader: bool = True
    promotion: Promotion = "caught-up-first"
    prospective_follows: ProspectiveFollows = "any-response"
    removed_voters_campaign: bool = True
    starts_as_prospective: bool = False
    voter_addresses: VoterAddresses = "configured"
    voter_changes: VoterChanges = "none"
    fetch_timeout_ms: int = FETCH_TIMEOUT_MS
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 50
    fetch_wait_max_ms: int = 500
    append_linger_ms: int = 0
    max_idle_interval_ms: int = 500
    fetch_max_bytes: int = 8 << 20
    fetch_snapshot_max_bytes: int = 8 << 20
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000
    retention_bytes: int = 100 << 20
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    read_mode: ReadMode = "read-index"
    read_lease_ms: int = FETCH_TIMEOUT_MS * 3 // 4
    controller: ControllerSettings | None = None
    mutant: Mutant | None = None

    def __post_init__(self) -> None:
        starts_elections = self.leader_without_majority == "new-election"
        assert not (starts_elections and self.pre_vote), "with Pre-Vote, only a Prospective becomes Candidate"

    def has(self, mutant: Mutant) -> bool:
        """Whether this mutant is chosen."""
        return self.mutant == mutant

    @property
    def changes_voters(self) -> bool:
        """Whether the log says who votes."""
        return self.voter_changes != "none"

    @property
    def reassigns_voters(self) -> bool:
        """Whether the voters are reassigned as a whole."""
        return self.voter_changes == "kip-642"

    @property
    def has_directories(self) -> bool:
        """Whether voters are known by their directories, too."""
        return self.voter_changes == "kip-853"

    @property
    def key(self) -> ReplicaKey:
        """The replica that this node is."""
        return self.replica(self.node_id, self.directory_id)

    def replica(self, node_id: int, directory_id: uuid.UUID | None) -> ReplicaKey:
        """A replica as this quorum knows it: without its directory, unless voters are known by that."""
        return ReplicaKey(node_id, directory_id if self.has_directories else None)

    @property
    def check_quorum_timeout_ms(self) -> int:
        """KAFKA-15489: one and a half fetch timeouts, so that a leader survives one lost round of fetches."""
        halves = 3 if self.leader_without_majority == "resigns" else 2
        return self.fetch_timeout_ms * halves // 2

    @property
    def vote_promise_ms(self) -> int:
        """How long a voter that fetched from a leader grants no vote; 0 if no lease relies on it."""
        return self.fetch_timeout_ms if self.read_mode == "lease" else 0
