"""Unclean recovery with what released Kafka has: its election tool, and the order of a partition's replicas.

The stories begin as in unclean_recovery.py: n3 and n4 have 100 committed records and die, n1 has 90 of them, n2 has 50.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, leads_partition, partition_offline
from harness.model.faults.membership import await_membership, reassign_partition
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.requests import create_partition
from harness.model.scenario import Scenario, Side, on
from harness.model.story import LEADER, Step, mark, wait_until
from harness.scenarios.one_partition import PARTITION, TOPIC, leads
from harness.scenarios.unclean_recovery import (
    UNCLEAN_RECOVERY,
    all_in_sync_die,
    all_return,
    elected,
    loses,
)

OFFLINE = (*all_in_sync_die(), wait_until(partition_offline(PARTITION)))


def elect_by_tool(*which: str, output: Sequence[str], exit_code: int = 0, kind: str = "unclean", name: str) -> Step:
    """Run kafka-leader-election for these partitions."""
    arguments = ["--bootstrap-server", "$n1_broker", "--election-type", kind, *which]
    return run_tool("kafka-leader-election", arguments, output=output, exit_code=exit_code, name=name)


ONE = ("--topic", TOPIC, "--partition", "0")

UR_06 = Scenario(
    id="UR-06",
    title="An operator forces an unclean election with Kafka's tool",
    question="Does the tool elect the first live replica, refuse a second election, and say what it did?",
    source=UNCLEAN_RECOVERY / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *OFFLINE,
        elect_by_tool(*ONE, kind="preferred", exit_code=1, output=["PreferredLeaderNotAvailable"], name="a clean one"),
        elect_by_tool(*ONE, output=[r"Successfully completed leader election \(UNCLEAN\).*t-0"], name="an election"),
        leads(2),
        elect_by_tool(*ONE, output=[r"Valid replica already elected for partitions t-0"], name="a second election"),
        elect_by_tool("--all-topic-partitions", output=[], name="an election of all"),
        *all_return(2),
    ),
    bad=loses(50),
)

UR_32 = Scenario(
    id="UR-32",
    title="Recovery on Kafka as it is: order the replicas by their logs, then elect",
    question="Is the longest live log elected if a reassignment puts it first while the partition is offline?",
    source=UNCLEAN_RECOVERY / "Proposed Changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*OFFLINE, *elected(2), *all_return(2)),
    bad=loses(50),
    good=loses(
        10,
        story=(
            *OFFLINE,
            mark("an operator orders the replicas by the ends of their logs"),
            reassign_partition(PARTITION, (1, 2, 4, 3)),
            *elected(1),
            *all_return(1),
            await_membership(),
        ),
    ),
)

UR_16 = Scenario(
    id="UR-16",
    title="A designated election replaces a leader that is online",
    question="Is an unclean election of a partition that has a leader refused, and the leader left alone?",
    source=UNCLEAN_RECOVERY,
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        wait_until(BROKERS_LIVE),
        create_partition(TOPIC, (2, 1)),
        wait_until(leads_partition(2, PARTITION)),
        ask(
            LEADER,
            43,
            2,
            {"election_type": 1, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout": 10_000},
            {"replica_election_results.0.partition_result.0.error_code": "election_not_needed"},
            listener="client",
            name="an unclean election of an online partition",
        ),
        wait_until(leads_partition(2, PARTITION)),
    ),
    good=Side(on(reference={}, kafka="newest 4")),
)

SCENARIOS = (UR_06, UR_16, UR_32)
