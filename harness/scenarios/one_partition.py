"""Parts of the stories about one partition with chosen replicas, t-0.

On a KRaft cluster all four nodes are brokers and n1 to n3 are voters; n1 leads the quorum, so n3 and n4 can die without
an election in the quorum, and nobody fetches its log from them.
"""

from __future__ import annotations

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    all_follow,
    leads_partition,
    session_lost,
)
from harness.model.scenario import Source
from harness.model.story import Step, kill, lead, wait_until

KIP_279 = Source("KIP-279")

TOPIC, PARTITION = "t", "t-0"

SHORT_SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""The controller of a KRaft quorum fences a dead broker after 3 s instead of 9 s."""

QUORUM_LED_BY_N1 = (
    wait_until(ALL_FOLLOW_LEADER),
    lead("n1"),
    wait_until(all_follow(1)),
    wait_until(BROKERS_LIVE),
)


def dies(node: int) -> list[Step]:
    """Kill the broker, and wait until its session has ended."""
    return [kill(f"n{node}"), wait_until(session_lost(node))]


def leads(node: int) -> Step:
    """Wait until the broker leads the partition."""
    return wait_until(leads_partition(node, PARTITION))
