"""KIP-279's rows about designs that no release of Kafka has, on the reference system: each design is a switch.

The stories are those of kip_279_kraft.py, with other rules of truncation and other controllers.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.conditions import in_sync, partition_offline, replication_settled
from harness.model.faults.membership import elect
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import CLOSE, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, heal, kill, start, wait_until
from harness.scenarios.expectations import committed_lost, logs_equal
from harness.scenarios.kip_279_kraft import (
    NEVER_STORED,
    REPLICATION,
    TRUNCATION,
    unclean_leader_changes,
)
from harness.scenarios.one_partition import KIP_279, PARTITION, QUORUM_LED_BY_N1, SHORT_SESSIONS, TOPIC, dies, leads
from harness.scenarios.unclean_recovery import LOSS

HIGH_WATERMARK_LAGS = {"replica.fetch.wait.max.ms": "10000", "replica.high.watermark.checkpoint.interval.ms": "200"}
"""A follower learns the high watermark by its next response, and a leader without new records waits so long with it.

The leader stores it at once, so that the run records what was committed.
"""

N3_DOES_NOT_ANSWER_N2 = RpcRule(
    "responses of n3 to n2, which replicates",
    RpcMatch((Api.FETCH, Api.OFFSET_FOR_LEADER_EPOCH), "response", sources=(3,), targets=(2,)),
    CLOSE,
)


def of_rule(rule: str, others: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The reference's switches for a rule of truncation."""
    return {**SHORT_SESSIONS, TRUNCATION: rule, **(others or {})}


LD_11 = Scenario(
    id="LD-11",
    title="A follower truncates committed records when its OffsetForLeaderEpoch request fails",
    question="Does n2 keep its 11 committed records if its leader does not respond?",
    source=KIP_279 / "Proposed Changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (3, 4, 2), {"min.insync.replicas": "1"}),
        leads(3),
        *dies(3),
        leads(4),
        start("n3"),
        wait_until(in_sync(3, PARTITION)),
        produce("n4", PARTITION, 11, acks="all"),
        intercept(N3_DOES_NOT_ANSWER_N2),
        elect("preferred", PARTITION),
        leads(3),
        *dies(4),
        *dies(3),
        leads(2),
        produce("n2", PARTITION, 1),
        heal(),
        wait_until(replication_settled(3, PARTITION)),
        wait_until(replication_settled(4, PARTITION)),
    ),
    bad=Side(
        on(reference=of_rule("kip-279", {**HIGH_WATERMARK_LAGS, "reference.truncation_error": "high-watermark"})),
        shows=(logs_equal, committed_lost(11)),
        breaks=LOSS,
    ),
    good=Side(
        on(reference=of_rule("kip-279", HIGH_WATERMARK_LAGS)),
        shows=(logs_equal,),
        never=(committed_lost(1),),
    ),
)


def old_leader_may_not_lead(n: int) -> tuple[Step, ...]:
    """Scenario 1, but n3 left the ISR at the preferred election: when n4 dies, nobody leads until it returns."""
    return (
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (4, 3), {"min.insync.replicas": "1"}),
        leads(4),
        *dies(4),
        leads(3),
        start("n4"),
        wait_until(in_sync(4, PARTITION)),
        produce("n3", PARTITION, 11, acks="all"),
        intercept(REPLICATION),
        produce("n3", PARTITION, 10),
        elect("preferred", PARTITION),
        leads(4),
        produce("n4", PARTITION, n - 10),
        kill("n4"),
        wait_until(partition_offline(PARTITION)),
        heal(),
        leads(4),
        wait_until(replication_settled(3, PARTITION)),
    )


PUSHED_OUT = of_rule("kip-101", {**NEVER_STORED, "reference.pushes_out_old_leader": "true"})

LD_18 = Scenario(
    id="LD-18",
    title="Rejected alternative: the old leader leaves the in-sync replicas",
    question="With KIP-101's rule, are logs equal after clean elections and after unclean elections?",
    source=KIP_279 / "Alternatives that address clean leader election only, 2",
    nodes=4,
    voters=3,
    layout="combined",
    story=old_leader_may_not_lead(20),
    bad=Side(on(reference=PUSHED_OUT), breaks=("diverged-logs",), story=unclean_leader_changes(4)),
    good=Side(on(reference=PUSHED_OUT), shows=(logs_equal,)),
)

SCENARIOS = (LD_11, LD_18)
