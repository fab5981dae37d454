"""Messages that kio does not have, declared as kio declares its own: most of them are in no release of Kafka.

Kafka's proposal KAFKA-20098, unclean recovery, needs two of them: GetReplicaLogInfo, which was merged into Kafka's
trunk in 2025 and reverted before a release, and version 3 of ElectLeaders, with designated leaders. nodes.wire.codec
looks messages up here and in kio alike; nothing else has to know the difference.

The proposal prints no API key for GetReplicaLogInfo; 93 is the one that Kafka's trunk had. Kafka 4.4 uses 93 for
StreamsGroupTopologyDescriptionUpdate. So 93 in a broker's ApiVersions does not prove that the broker has
GetReplicaLogInfo: `has_replica_log_info` does, since no release of Kafka has ElectLeaders version 3.

KIP-279 needs three forms of OffsetForLeaderEpoch: versions 0 and 1, which Kafka has removed, and version 4 with a
tagged field for its rejected alternative 2.

KIP-642, quorum reassignment, needs DiscoverBrokers, for which it gives no API key (642 here), and the target of a
reassignment in DescribeQuorum version 0; and NominateVoter (643) for its observer-based promotion.

To add another message: a module with its classes, and its rows in API_NAMES and MODULES.

Contains the declarations. Does not contain encoding, or what the messages mean to a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

OFFSET_FOR_LEADER_EPOCH: Final = 23
ELECT_LEADERS: Final = 43
DESCRIBE_QUORUM: Final = 55
GET_REPLICA_LOG_INFO: Final = 93
DISCOVER_BROKERS: Final = 642
NOMINATE_VOTER: Final = 643
DESIGNATED_LEADERS_FROM: Final = 3
"""The first version of ElectLeaders with designated leaders."""

API_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        GET_REPLICA_LOG_INFO: "get_replica_log_info",
        DISCOVER_BROKERS: "discover_brokers",
        NOMINATE_VOTER: "nominate_voter",
    }
)
"""The names of APIs that kio does not have, in its form."""

MODULES: Final[Mapping[int, Mapping[int, str]]] = MappingProxyType(
    {
        OFFSET_FOR_LEADER_EPOCH: {version: f"offset_for_leader_epoch_v{version}" for version in (0, 1, 4)},
        ELECT_LEADERS: {3: "elect_leaders_v3"},
        DESCRIBE_QUORUM: {0: "describe_quorum_v0"},
        GET_REPLICA_LOG_INFO: {0: "get_replica_log_info_v0", 1: "get_replica_log_info_v1"},
        DISCOVER_BROKERS: {0: "discover_brokers_v0"},
        NOMINATE_VOTER: {0: "nominate_voter_v0"},
    }
)
"""For each API its versions that are declared here, and the modules with request and response."""


def has_replica_log_info(ranges: Mapping[int, range]) -> bool:
    """Whether a broker with these versions, by API key, has GetReplicaLogInfo, and not another API of that key."""
    return GET_REPLICA_LOG_INFO in ranges and DESIGNATED_LEADERS_FROM in ranges.get(ELECT_LEADERS, range(0))
