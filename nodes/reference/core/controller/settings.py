"""The settings of a controller: Kafka's properties, the defaults of topics, and the switches of the KIPs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

from nodes.reference.core.controller.mutants import ControllerMutant

UncleanChoice = Literal["first-live", "random"]
UNCLEAN_CHOICES: tuple[str, ...] = get_args(UncleanChoice)

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
STRATEGY = "unclean.recovery.strategy"
NO_STRATEGY, BALANCED, AGGRESSIVE = STRATEGIES = ("None", "Balanced", "Aggressive")
TOPIC_DEFAULTS: Mapping[str, str] = MappingProxyType({MIN_ISR: "1", UNCLEAN: "false", STRATEGY: NO_STRATEGY})

ELECTIONS_MAX = 1000
"""KAFKA-20098: how many partitions a request for elections or for replicas' logs may name."""

PRODUCER_IDS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """A controller's settings; they do not change while it runs.

    session_timeout_ms: broker.session.timeout.ms, after which a silent broker is fenced. unclean_interval_ms:
    unclean.leader.election.interval.ms, how often partitions without a leader are looked at whose topic allows unclean
    elections, or has a strategy of KIP-966. recovery_timeout_ms: unclean.recovery.timeout.ms, how long such a strategy
    waits for the replicas' logs. topic_defaults: the configs of topics that have none of their own.

    eligible_leader_replicas: KIP-966's, as in Kafka from 4.1 on. A replica that left the ISR when that was as small as
    min.insync.replicas is still complete.

    unclean_choice: which live replica an unclean election takes. Kafka takes the first in the order of the assignment,
    although its documents say a random one (UR-02).

    pushes_out_old_leader: KIP-279's alternative 2 for clean elections (LD-18): a preferred election removes the old
    leader from the ISR, so that it cannot be elected before it has truncated.

    mutant: a planted bug, one of MUTANTS; none by default.
    """

    cluster_id: str
    session_timeout_ms: int = 9000
    unclean_interval_ms: int = 300_000
    recovery_timeout_ms: int = 300_000
    default_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: Mapping[str, str] = field(default_factory=lambda: dict(TOPIC_DEFAULTS))
    eligible_leader_replicas: bool = True
    unclean_choice: UncleanChoice = "first-live"
    pushes_out_old_leader: bool = False
    mutant: ControllerMutant | None = None

    def has(self, mutant: ControllerMutant) -> bool:
        """Whether this mutant is chosen."""
        return self.mutant == mutant
