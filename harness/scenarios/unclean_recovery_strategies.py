"""Unclean recovery by the controller, with the strategies of KIP-966 that KAFKA-20098 rejects, on the reference.

The disaster is that of unclean_recovery.py: n3 and n4 have 100 committed records and die, n1 has 90 of them, n2 has 50.
The topic allows unclean elections. `reproduce UR-30 --each unclean.recovery.strategy` compares all strategies: with
Balanced nobody is elected until n4 has returned, and nothing is lost.
"""

from __future__ import annotations

from harness.model.conditions import in_sync, partition_online
from harness.model.scenario import Scenario, Side, on
from harness.model.story import heal, mark, wait_until, when
from harness.scenarios.expectations import committed_lost, logs_equal
from harness.scenarios.one_partition import PARTITION
from harness.scenarios.unclean_recovery import BROKERS, LOSS, UNCLEAN_RECOVERY, all_in_sync_die

STRATEGY = "unclean.recovery.strategy"
ELECTED_SECONDS = 10
"""Five times the interval at which the controller looks at partitions without a leader."""


def loses_by(strategy: str, records: int) -> Side:
    """All replicas are equal in the end, and this many committed records are lost."""
    shows, never = (logs_equal, committed_lost(records)), (committed_lost(records + 1),)
    return Side(on(reference={**BROKERS, STRATEGY: strategy}), shows=shows, never=never, breaks=LOSS)


UR_30 = Scenario(
    id="UR-30",
    title="Rejected alternative: the controller elects the longest log by itself",
    question="Does the Aggressive strategy lose 10 records where an election of the first live replica loses 50?",
    source=UNCLEAN_RECOVERY / "Rejected Alternatives",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *all_in_sync_die(is_unclean=True),
        mark("the controller may elect n1 or n2"),
        when(partition_online(PARTITION), within=ELECTED_SECONDS),
        heal(),
        wait_until(partition_online(PARTITION)),
        *(wait_until(in_sync(node, PARTITION)) for node in (4, 3, 2, 1)),
    ),
    bad=loses_by("None", 50),
    good=loses_by("Aggressive", 10),
)

SCENARIOS = (UR_30,)
