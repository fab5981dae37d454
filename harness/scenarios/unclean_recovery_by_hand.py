"""Unclean recovery with what released Kafka has: its election tool, and the order of a partition's replicas.

The stories begin as in unclean_recovery.py: n3 and n4 have 100 committed records and die, n1 has 90 of them, n2 has 50.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.conditions import partition_offline
from harness.model.faults.membership import await_membership, reassign_partition
from harness.model.faults.probe import run_tool
from harness.model.scenario import Scenario
from harness.model.story import Step, mark, wait_until
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
    question="Does the tool elect the first live replica, refuse a second election, and report what it did?",
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
    title="Recovery with unmodified Kafka: order the replicas by their logs, then elect",
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

SCENARIOS = (UR_06, UR_32)
