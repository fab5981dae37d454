"""Kafka's versions: their order, their capabilities, and the logging library that each needs.

Sources: the KIPs and KAFKA issues named at each property.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.model import BadInput
from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from harness.model.transition_rules import TransitionRules

OLDEST = (3, 3)
"""The first release in which KRaft is production-ready."""


@dataclass(frozen=True, slots=True, order=True)
class KafkaVersion:
    """A released version, e.g. KafkaVersion(3, 9, 1)."""

    major: int
    minor: int
    patch: int

    @staticmethod
    def parse(text: str) -> KafkaVersion:
        """The version MAJOR.MINOR.PATCH. Raises BadInput for other text and for versions before 3.3."""
        match = re.fullmatch(r"([0-9]+)\.([0-9]+)\.([0-9]+)", text)
        if not match:
            raise BadInput(f"Kafka version {text!r}: expected MAJOR.MINOR.PATCH, e.g. 3.9.1, or newest")
        version = KafkaVersion(*(int(part) for part in match.groups()))
        if (version.major, version.minor) < OLDEST:
            raise BadInput(f"Kafka version {text!r}: expected 3.3.0 or later, the first with production-ready KRaft")
        return version

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def has_pre_vote(self) -> bool:
        """KIP-996, KAFKA-17641."""
        return self >= KafkaVersion(4, 0, 0)

    @property
    def has_check_quorum(self) -> bool:
        """KAFKA-15489."""
        return self >= KafkaVersion(3, 7, 0)

    @property
    def controllers_answer_admin_clients(self) -> bool:
        """KIP-919: --bootstrap-controller, and DescribeConfigs requests to controllers."""
        return self >= KafkaVersion(3, 7, 0)

    @property
    def advertises_controllers(self) -> bool:
        """KIP-853: advertised.listeners may include a controller listener."""
        return self >= KafkaVersion(3, 9, 0)

    @property
    def has_dynamic_quorum(self) -> bool:
        """KIP-853: voters that can be added and removed."""
        return self >= KafkaVersion(3, 9, 0)

    @property
    def has_zookeeper(self) -> bool:
        """Brokers can store their metadata in ZooKeeper, which KIP-500 removed in 4.0."""
        return self < KafkaVersion(4, 0, 0)

    @property
    def has_features(self) -> bool:
        """KIP-1022, KIP-890: features have levels, set when the storage is formatted."""
        return self >= KafkaVersion(4, 0, 0)

    @property
    def transition_rules(self) -> TransitionRules:
        """The transitions that a node may make."""
        return KIP_996_RULES if self.has_pre_vote else KIP_595_RULES

    @property
    def logs_with_log4j2(self) -> bool:
        """KIP-653."""
        return self >= KafkaVersion(4, 0, 0)
