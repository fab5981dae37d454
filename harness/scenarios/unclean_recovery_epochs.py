"""Which of two live logs the recovery tool prefers, on the reference system: the longer one, or that of a later epoch.

n5 and n4 lead one after the other and die. Of the live replicas n1 has 40 records, the last 15 of epoch 0, which were
never committed; n2 has 30 and n3 has 35, the last of them of epoch 1. 40 records were committed, in epoch 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.conditions import in_sync, not_in_sync, partition_offline, stored_high_watermark
from harness.model.faults.probe import ask
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import CLOSE, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, mark, wait_until
from harness.scenarios.expectations import committed_lost, log_end, logs_equal
from harness.scenarios.one_partition import PARTITION, QUORUM_LED_BY_N1, TOPIC, dies, leads
from harness.scenarios.unclean_recovery import BROKERS, LOSS, UNCLEAN_RECOVERY, all_return
from harness.scenarios.unclean_recovery_operator import elect_by_hand
from harness.scenarios.unclean_recovery_tool import recover

REPLICAS = (5, 4, 3, 2, 1)
DESCRIBE_LOG_DIRS = 35


def get_nothing(followers: Sequence[int], leaders: Sequence[int]) -> Step:
    """These replicas get no answer from these leaders."""
    name = f"answers for {' and '.join(f'n{node}' for node in followers)}"
    match = RpcMatch((Api.FETCH,), "response", sources=tuple(leaders), targets=tuple(followers))
    return intercept(RpcRule(name, match, CLOSE, may_be_idle=True))


def has_uncommitted(node: int, records: int) -> Step:
    """Wait until the node's log has this many records above its high watermark."""
    return ask(
        f"n{node}",
        DESCRIBE_LOG_DIRS,
        4,
        {"topics": [{"topic": TOPIC, "partitions": [0]}]},
        {"results.0.topics.0.partitions.0.offset_lag": records},
        listener="client",
        until_expected=True,
        name=f"the log of n{node}",
    )


def only_n4_has_more(*behind: int) -> list[Step]:
    """n4 writes five records, which are committed once these replicas are out of sync."""
    last = wait_until(not_in_sync(behind[-1], PARTITION))
    return [get_nothing(behind, (4,)), produce("n4", PARTITION, 5, acks="all"), last]


AN_OLDER_LOG_IS_LONGER = (
    *QUORUM_LED_BY_N1,
    create_partition(TOPIC, REPLICAS, {"min.insync.replicas": "1"}),
    leads(5),
    *(wait_until(in_sync(node, PARTITION)) for node in REPLICAS),
    produce("n5", PARTITION, 25, acks="all"),
    mark("n1 alone gets 15 more records of n5"),
    get_nothing((4, 3, 2), (5,)),
    produce("n5", PARTITION, 15),
    has_uncommitted(1, 15),
    get_nothing((1,), (4,)),
    *dies(5),
    leads(4),
    *only_n4_has_more(1),
    *only_n4_has_more(1, 2),
    *only_n4_has_more(1, 2, 3),
    wait_until(stored_high_watermark(4, PARTITION, 40)),
    *dies(4),
    wait_until(partition_offline(PARTITION)),
)


def recovered_by(node: int) -> tuple[Step, ...]:
    """The tool elects this node, and all others follow it."""
    elects = recover(
        "--automated-recovery", output=[rf"t\s+0\s+elected\s+{node}"], name=f"a recovery that elects n{node}"
    )
    return (*AN_OLDER_LOG_IS_LONGER, elects, leads(node), *all_return(node, REPLICAS))


def takes_the_longest(story: Sequence[Step], switches: Mapping[str, str] = BROKERS) -> Side:
    """n1 is elected, whose last records are of the older epoch; 15 committed records of the later one are lost."""
    return Side(
        on(reference=switches),
        shows=(logs_equal, log_end(40), committed_lost(15)),
        never=(committed_lost(16),),
        breaks=LOSS,
        story=tuple(story),
    )


LATER_EPOCH = Side(
    on(reference=BROKERS),
    shows=(logs_equal, committed_lost(5), log_end(35)),
    never=(committed_lost(6), log_end(36)),
    breaks=LOSS,
)

UR_07 = Scenario(
    id="UR-07",
    title="The tool prefers a longer log of an older epoch",
    question="Is n3 with 35 records elected, and not n1 with 40 records, the last of which is of an older epoch?",
    source=UNCLEAN_RECOVERY / "Proposed Changes",
    nodes=5,
    voters=3,
    layout="combined",
    story=recovered_by(3),
    bad=takes_the_longest(
        (
            *AN_OLDER_LOG_IS_LONGER,
            elect_by_hand(1, output=[r"t\s+0\s+elected\s+1"], name="an operator who compares lengths alone"),
            leads(1),
            *all_return(1, REPLICAS),
        )
    ),
    good=LATER_EPOCH,
)

UR_08 = Scenario(
    id="UR-08",
    title="A replica's current epoch hides that its last records are older",
    question="Does the tool elect n1 if brokers report the epoch that they know, not that of their last record?",
    source=UNCLEAN_RECOVERY / "GetReplicaLogInfo RPC",
    nodes=5,
    voters=3,
    layout="combined",
    story=recovered_by(3),
    bad=takes_the_longest(recovered_by(1), {**BROKERS, "reference.last_written_epochs": "false"}),
    good=LATER_EPOCH,
)

SCENARIOS = (UR_07, UR_08)
