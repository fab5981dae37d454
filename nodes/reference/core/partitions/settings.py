"""The settings of a broker's partitions: Kafka's properties and the switches of the KIPs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from nodes.reference.core.partitions.mutants import PartitionMutant
from nodes.reference.core.partitions.truncation import RULES, Truncation, TruncationRule

TruncationError = Literal["retry", "high-watermark"]
TRUNCATION_ERRORS: tuple[TruncationError, ...] = get_args(TruncationError)


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """A broker's settings; they do not change while it runs.

    replica_lag_time_max_ms: replica.lag.time.max.ms, after which a follower that has not caught up leaves the ISR.
    fetch_wait_max_ms, fetch_min_bytes, fetch_partition_bytes, fetch_response_bytes: replica.fetch.wait.max.ms,
    replica.fetch.min.bytes, replica.fetch.max.bytes, replica.fetch.response.max.bytes. fetch_backoff_ms:
    replica.fetch.backoff.ms, after an error. request_timeout_ms: replica.socket.timeout.ms. controller_backoff_ms:
    after a proposal to the controller failed.

    truncation: the rule of followers, and how leaders answer (truncation.RULES). truncation_error: what follows an
    error or a time-out of a rule's question. "retry" asks again, as Kafka does; "high-watermark" is what KIP-279 says,
    and loses committed records (LD-11).

    stores_high_watermark_at_leader_change: what KIP-279's alternative 1 for clean elections needs (LD-17).
    high_watermark_needs_min_isr: KIP-966, it advances only while min.insync.replicas are in sync.

    mutant: a planted bug, one of MUTANTS; none by default.
    """

    node_id: int
    truncation: Truncation = "on-fetch"
    truncation_error: TruncationError = "retry"
    stores_high_watermark_at_leader_change: bool = False
    high_watermark_needs_min_isr: bool = True
    replica_lag_time_max_ms: int = 30_000
    fetch_wait_max_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_partition_bytes: int = 1024 * 1024
    fetch_response_bytes: int = 10 * 1024 * 1024
    fetch_backoff_ms: int = 1000
    request_timeout_ms: int = 30_000
    controller_backoff_ms: int = 50
    mutant: PartitionMutant | None = None

    @property
    def rule(self) -> TruncationRule:
        """The rule of truncation."""
        return RULES[self.truncation]

    def has(self, mutant: PartitionMutant) -> bool:
        """Whether this mutant is chosen."""
        return self.mutant == mutant
