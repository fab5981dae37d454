"""Unclean recovery: what real Kafka does with a partition whose in-sync replicas are all down.

All four nodes are brokers, three of them voters. n3 and n4 have all records, n2 and n1 lag; n3 and n4 die. n1 leads the
quorum, and n1 and n2 are its majority, so the quorum lives on. An operator without the KIP's tool has two means: an
unclean election, which takes the first live replica in the order of the assignment, and a reassignment, which changes
that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.conditions import (
    broker_live,
    in_sync,
    not_in_sync,
    partition_offline,
    partition_online,
)
from harness.model.faults.membership import await_membership, elect, reassign_partition
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import CLOSE, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import Step, heal, mark, seconds, sleep, start, wait_until
from harness.scenarios.expectations import committed_lost, log_end, logs_equal, offline
from harness.scenarios.one_partition import PARTITION, QUORUM_LED_BY_N1, SHORT_SESSIONS, TOPIC, dies, leads

UNCLEAN_RECOVERY = Source("Unclean Recovery")

BROKERS = {
    **SHORT_SESSIONS,
    "replica.lag.time.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "unclean.leader.election.interval.ms": "2000",
}
"""A broker's death or lag is noticed soon, its high watermark is known soon, and automatic elections come soon."""

LOSS = ("truncated-below-high-watermark",)


def loses(exactly: int, story: Sequence[Step] = ()) -> Side:
    """All replicas are equal in the end, and this many committed records are lost."""
    is_lost = (committed_lost(exactly),) if exactly else ()
    return Side(
        on(reference=BROKERS, kafka="newest 4", kafka_switches=BROKERS),
        shows=(logs_equal, *is_lost),
        never=(committed_lost(exactly + 1),),
        breaks=LOSS if exactly else (),
        story=tuple(story),
    )


def fetches_nothing(*followers: int) -> Step:
    """These replicas no longer get records of n4, which leads the partition; their fetches from the quorum pass."""
    return intercept(
        RpcRule(
            f"records of n4 for {' and '.join(f'n{node}' for node in followers)}",
            RpcMatch((Api.FETCH,), "response", sources=(4,), targets=followers),
            CLOSE,
        )
    )


def lags(*followers: int, behind: int) -> list[Step]:
    """These replicas stop fetching; n4 writes records, which are committed once the last of them is out of sync."""
    wait = wait_until(not_in_sync(followers[-1], PARTITION))
    return [fetches_nothing(*followers), produce("n4", PARTITION, behind, acks="all"), wait]


def written(replicas: Sequence[int], configs: Mapping[str, str]) -> list[Step]:
    """n1 leads the quorum, n4 the partition, and all replicas have 50 records."""
    return [
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, replicas, {"min.insync.replicas": "1", **configs}),
        leads(4),
        *(wait_until(in_sync(node, PARTITION)) for node in replicas),
        produce("n4", PARTITION, 50, acks="all"),
    ]


def all_in_sync_die(is_unclean: bool = False) -> list[Step]:
    """n3 and n4 have 100 committed records and die; n1 has 90 of them and n2 has 50. n4 is in sync to the end."""
    return [
        *written((4, 3, 2, 1), {"unclean.leader.election.enable": str(is_unclean).lower()}),
        *lags(2, behind=40),
        *lags(2, 1, behind=10),
        *dies(3),
        *dies(4),
    ]


def elected(node: int) -> list[Step]:
    """An operator requests an unclean election, and this node becomes the leader."""
    return [elect("unclean", PARTITION), leads(node)]


def all_return(leader: int, replicas: Sequence[int] = (4, 3, 2, 1)) -> list[Step]:
    """The replicas that were down start again, and all follow this leader."""
    return [heal(), leads(leader), *(wait_until(in_sync(node, PARTITION)) for node in replicas)]


STAYS_OFFLINE = (
    wait_until(partition_offline(PARTITION)),
    sleep(seconds(6)),  # three times the interval of automatic unclean elections
    wait_until(partition_offline(PARTITION), within=1),
)

UR_01 = Scenario(
    id="UR-01",
    title="A partition whose in-sync replicas are all down remains without a leader",
    question="Does the controller elect one of the two live replicas, which lack committed records?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*all_in_sync_die(), *STAYS_OFFLINE, *all_return(4)),
    good=loses(0),
)

UR_02 = Scenario(
    id="UR-02",
    title="An unclean election chooses the shorter of two live logs",
    question="How many committed records does an unclean election lose if one live replica has 90 of 100 and one 50?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*all_in_sync_die(), wait_until(partition_offline(PARTITION)), *elected(2), *all_return(2)),
    bad=loses(50),
    good=loses(
        10,
        story=(
            *all_in_sync_die(),
            wait_until(partition_offline(PARTITION)),
            mark("an operator puts the longest log first"),
            reassign_partition(PARTITION, (4, 3, 1, 2)),
            *elected(1),
            *all_return(1),
            await_membership(),
        ),
    ),
)

ONE_LAGS = (
    *written((4, 3, 2), {"unclean.leader.election.enable": "false"}),
    *lags(2, behind=40),
    *dies(3),
    *dies(4),
    wait_until(partition_offline(PARTITION)),
)

UR_03 = Scenario(
    id="UR-03",
    title="A replica that was added while the partition was offline is elected, and all records are lost",
    question="Does an unclean election choose an empty replica, which was added last, over one with 50 of 90 records?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *ONE_LAGS,
        reassign_partition(PARTITION, (1, 4, 3, 2)),
        *elected(1),
        produce("n1", PARTITION, 1),  # of a partition without any record, nothing is compared
        *all_return(1),
        await_membership(),
    ),
    bad=loses(90),
    good=loses(40, story=(*ONE_LAGS, *elected(2), *all_return(2, replicas=(4, 3, 2)))),
)

UR_04 = Scenario(
    id="UR-04",
    title="unclean.leader.election.enable loses committed records without an operator",
    question="Are committed records lost without intervention if the only live replicas are not in sync?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*all_in_sync_die(is_unclean=True), leads(2), *all_return(2)),
    bad=loses(50),
    good=loses(0, story=(*all_in_sync_die(), *STAYS_OFFLINE, *all_return(4))),
)

UR_05 = Scenario(
    id="UR-05",
    title="A partition is offline until its last in-sync replica returns",
    question="Does the partition stay offline when a replica returns that left the ISR before the last one?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *all_in_sync_die(),
        start("n3"),
        wait_until(broker_live(3)),
        *STAYS_OFFLINE,
        *all_return(4),
    ),
    good=loses(0),
)

UR_27 = Scenario(
    id="UR-27",
    title="Replicas that return truncate what the uncleanly elected leader lacks, and their logs become equal",
    question="Do two replicas with 100 committed records end with the 50 of the new leader and its 20 new ones?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *all_in_sync_die(),
        wait_until(partition_offline(PARTITION)),
        *elected(2),
        produce("n2", PARTITION, 20, acks="leader"),
        *all_return(2),
        produce("n2", PARTITION, 5, acks="all"),
    ),
    good=Side(
        on(reference=BROKERS, kafka="newest 4", kafka_switches=BROKERS),
        shows=(logs_equal, committed_lost(50), log_end(75)),
        never=(committed_lost(51), log_end(76)),
        breaks=LOSS,
    ),
)

ELIGIBLE = "eligible.leader.replicas.version"

NOBODY_FETCHES_FROM_N4 = RpcRule(
    "fetches of n2 and n3 from n4", RpcMatch((Api.FETCH,), "request", sources=(2, 3), targets=(4,)), CLOSE
)
"""n3 has all that is committed, so a single fetch that arrives brings it back into the in-sync replicas."""

UR_33 = Scenario(
    id="UR-33",
    title="A partition is offline although a live replica has all committed records",
    question="Is a replica elected that left the in-sync replicas while they were fewer than min.insync.replicas?",
    source=Source("KIP-966") / "Eligible Leader Replicas",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *written((4, 3, 2), {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}),
        *lags(2, behind=40),
        mark("n3 leaves the in-sync replicas; what n4 writes alone is not committed"),
        intercept(NOBODY_FETCHES_FROM_N4),
        produce("n4", PARTITION, 10, acks="leader"),
        wait_until(not_in_sync(3, PARTITION)),
        *dies(4),
        sleep(seconds(8)),
        heal(),
        wait_until(partition_online(PARTITION)),
        *(wait_until(in_sync(node, PARTITION)) for node in (2, 3, 4)),
    ),
    bad=Side(
        on(reference={**BROKERS, "reference.eligible_leader_replicas": "false"}, kafka="4.0.0", kafka_switches=BROKERS),
        shows=(logs_equal, offline(5000)),
        never=(committed_lost(1),),
    ),
    good=Side(
        on(reference=BROKERS, kafka="newest 4", kafka_switches=BROKERS),
        shows=(logs_equal,),
        never=(committed_lost(1), offline(5000)),
        needs_features={ELIGIBLE: 1},
    ),
)

SCENARIOS = (UR_01, UR_02, UR_03, UR_04, UR_05, UR_27, UR_33)
