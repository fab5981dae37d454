"""The switches of a node: Kafka's timeouts under Kafka's names, the KIPs that can be turned off, and the mutants.

What may live here: plain values and what follows from them alone.
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
"""A deadline that does not come."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node is told at its start and never changes.

    voters are the quorum's members in order of id; a node whose id is not among them is an observer. endpoints
    (host:port by id) are for logs alone. check_quorum_counts says what Check Quorum takes for a sign of life: fetch
    requests that came in, as Kafka does, or fetch responses known to have been received, as KIP-996 has it (PV-38).

    new_disk_votes=false is KIP-996's remedy for lost disks (PV-32): a voter that starts with nothing grants no vote to
    a log that holds anything until it has caught up with a leader; it does not remember this over a restart.

    Mutants, and the catalogue rows that catch them: vote-forgotten-on-restart (PV-15), half-is-a-majority (every row's
    single leader), no-truncation (LD-01), pre-vote-counted-as-vote (PV-26), pre-vote-without-fallback (PV-25).
    """

    node_id: int
    voters: tuple[int, ...]
    cluster_id: str
    endpoints: Mapping[int, str] = field(default_factory=dict)
    pre_vote: bool = True
    check_quorum: bool = True
    check_quorum_counts: Counted = "requests"
    follower_denies_pre_vote: bool = True
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
        """The voters besides this node."""
        return tuple(voter for voter in self.voters if voter != self.node_id)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        half = len(self.voters) // 2
        return half if self.mutant == "half-is-a-majority" else half + 1

    @property
    def check_quorum_timeout_ms(self) -> int:
        """KAFKA-15489: one and a half fetch timeouts, so that a round lost on the way does not cost the leader."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def vote_promise_ms(self) -> int:
        """How long a voter that fetched from a leader votes for nobody else; 0 where no lease relies on it."""
        return self.fetch_timeout_ms if self.read_mode == "lease" else 0
