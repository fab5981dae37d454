"""Recoveries of scripted clusters, for the tests of `unclean-recovery`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.unclean_recovery.access import AccessSettings
from harness.unclean_recovery.files import Listing
from harness.unclean_recovery.options import RecoveryOptions
from harness.unclean_recovery.partitions import TopicPartition
from harness.unclean_recovery.recover import Report, recover
from tests.support.nodes.scripted_brokers import FAST, Partition, ScriptedCluster, Silent

ALL = RecoveryOptions(None, shows_replicas=True, output=None, elects=True)
SHOW = RecoveryOptions(None, shows_replicas=True, output=None, elects=False)
T_0 = TopicPartition("t", 0)


def offline(**logs: tuple[int, ...]) -> dict[tuple[str, int], Partition]:
    """Partition t-0 without a leader; n1=(epoch, log end) is broker 1's log."""
    return {("t", 0): Partition(tuple(int(name[1:]) for name in logs), None, {int(k[1:]): v for k, v in logs.items()})}


def duration(milliseconds: int) -> RecoveryOptions:
    """Elect leaders of all offline partitions; brokers may take this long."""
    return RecoveryOptions(None, shows_replicas=True, output=None, elects=True, duration_ms=milliseconds)


def recovered(
    cluster: Callable[[], ScriptedCluster],
    options: RecoveryOptions = ALL,
    listing: Listing | None = None,
    access: AccessSettings = FAST,
) -> tuple[Report, ScriptedCluster]:
    """Recover the partitions of a cluster, which is made in the event loop."""

    async def scenario() -> tuple[Report, ScriptedCluster]:
        async with cluster() as made:
            report = await recover(options, listing, made.addresses, access, Silent())
            return report, made

    return asyncio.run(scenario())


def error_of(report: Report, broker: int) -> str:
    """Why nothing is known of the log of this broker's only replica; "" if it is known."""
    (row,) = [row for row in report.replicas if row.broker == broker]
    return row.log.error
