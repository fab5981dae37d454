"""The settings of a node: Kafka's timeouts, switches for the KIPs' fixes, and mutants.

Contains plain values and what can be computed from them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

ReadMode = Literal["lease", "read-index", "local"]
Mutant = Literal[
    "vote-forgotten-on-restart",
    "half-is-a-majority",
    "no-truncation",
    "pre-vote-counted-as-vote",
    "pre-vote-without-fallback",
]
Counted = Literal["requests", "responses"]

READ_MODES: tuple[str, ...] = get_args(ReadMode)
MUTANTS: tuple[str, ...] = get_args(Mutant)
COUNTED: tuple[str, ...] = get_args(Counted)

FETCH_TIMEOUT_MS = 2000
"""Kafka's default of controller.quorum.fetch.timeout.ms."""

NEVER_MS = 2**62
"""A deadline that is never reached."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """A node's settings; they do not change while it runs.

    voters are the members of the quorum, ordered by id; a node that is not among them is an observer. endpoints
    (host:port by id) are used in log lines only.

    check_quorum_counts: what Check Quorum counts as a live follower. "requests" are fetch requests received, as in
    Kafka; "responses" are fetch responses known to have been received by the follower, as KIP-996 says (PV-38).

    prospective_follows_known_leader: a Prospective that knows its leader becomes Follower again on any message of its
    epoch that names the leader (KIP-996). A granted vote is counted instead, or no failed leader could be replaced. If
    false, it stays Prospective, as Kafka 4.3.1 does.

    new_disk_votes: false is KIP-996's proposal for lost disks (PV-32). A voter that starts with an empty disk grants
    no vote to a log with records until it has caught up with a leader. A restart forgets this.

    Mutants, and the scenarios that find them: vote-forgotten-on-restart (PV-15), half-is-a-majority (any scenario with
    an election), no-truncation (LD-01), pre-vote-counted-as-vote (PV-26), pre-vote-without-fallback (PV-25).
    """

    node_id: int
    voters: tuple[int, ...]
    cluster_id: str
    endpoints: Mapping[int, str] = field(default_factory=dict)
    pre_vote: bool = True
    check_quorum: bool = True
    check_quorum_counts: Counted = "requests"
    follower_denies_pre_vote: bool = True
    prospective_follows_known_leader: bool = True
    new_disk_votes: bool = True
    fetch_timeout_ms: int = FETCH_TIMEOUT_MS
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 50
    fetch_wait_max_ms: int = 500
    append_linger_ms: int = 0
    max_idle_interval_ms: int = 500
    read_mode: ReadMode = "read-index"
    read_lease_ms: int = FETCH_TIMEOUT_MS * 3 // 4
    mutant: Mutant | None = None

    @property
    def is_voter(self) -> bool:
        """Whether this node may vote and lead."""
        return self.node_id in self.voters

    @property
    def others(self) -> tuple[int, ...]:
        """The other voters."""
        return tuple(voter for voter in self.voters if voter != self.node_id)

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        half = len(self.voters) // 2
        return half if self.mutant == "half-is-a-majority" else half + 1

    @property
    def check_quorum_timeout_ms(self) -> int:
        """KAFKA-15489: one and a half fetch timeouts, so that a leader survives one lost round of fetches."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def vote_promise_ms(self) -> int:
        """How long a voter that fetched from a leader grants no vote; 0 if no lease relies on it."""
        return self.fetch_timeout_ms if self.read_mode == "lease" else 0
