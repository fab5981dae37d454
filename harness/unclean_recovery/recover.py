"""`unclean-recovery`: choose a leader for each offline partition, and have it elected or write it down.

The tool finds offline partitions in Metadata, asks every broker that has a replica of one of them for its log, and
chooses. It waits until all have answered or the duration is over, so a replica whose broker is down costs the whole
duration: that is what the proposal asks for, since a broker that comes back late may have the longest log.

Only brokers in a partition's replica set are asked and can be chosen. Whether the chosen one may lead (it is not
fenced, its disk is online, the partition is still offline) is for the controller to decide.

It can be repeated at any time: a partition that is online already is not changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.unclean_recovery.access import TOPIC_IDS_FROM, AccessSettings, Cluster
from harness.unclean_recovery.asking import Asking, Logs
from harness.unclean_recovery.choice import ReplicaLog, choose
from harness.unclean_recovery.electing import Electing
from harness.unclean_recovery.files import Listing, create, designations_text
from harness.unclean_recovery.options import Address, ElectionType, RecoveryOptions
from harness.unclean_recovery.outcomes import Outcome, Result, exit_code_of
from harness.unclean_recovery.partitions import (
    Targets,
    TopicPartition,
    offline_partitions,
    targets_of,
)
from harness.unclean_recovery.stopping import stop_on_signals, unless_stopped
from harness.unclean_recovery.watch import Watch
from nodes.wire.unreleased import DESIGNATED_LEADERS_FROM, ELECT_LEADERS, GET_REPLICA_LOG_INFO

NEEDED: Final = {ELECT_LEADERS: DESIGNATED_LEADERS_FROM, GET_REPLICA_LOG_INFO: 0}
"""What the tool needs of a broker, whatever its options: has_replica_log_info says why."""

INTERRUPTED: Final = Outcome(Result.NOT_DONE, reason="interrupted before every replica had answered")


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """What is known of one replica, and whether it was chosen."""

    partition: TopicPartition
    broker: int
    log: ReplicaLog
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a tool did: the outcome for each partition, and what is known of the replicas, if they were asked."""

    outcomes: Mapping[TopicPartition, Outcome]
    replicas: Sequence[ReplicaRow] = ()
    is_interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """0 if all succeeded, else 1."""
        return exit_code_of(self.outcomes.values(), self.is_interrupted)


async def recover(
    options: RecoveryOptions,
    listing: Listing | None,
    bootstrap: Sequence[Address],
    settings: AccessSettings,
    watch: Watch,
) -> Report:
    """Carry the options out; listing is the content of options.listed, None for all offline partitions."""
    async with Cluster(bootstrap, settings) as cluster:
        with stop_on_signals() as stop:
            return await _Recovery(cluster, settings, stop, watch).carry_out(options, listing)


class _Recovery:
    def __init__(self, cluster: Cluster, settings: AccessSettings, stop: asyncio.Event, watch: Watch) -> None:
        self._cluster, self._settings, self._stop, self._watch = cluster, settings, stop, watch
        self._targets = Targets({}, {})

    async def carry_out(self, options: RecoveryOptions, listing: Listing | None) -> Report:
        if not await unless_stopped(self._stop, self._find(listing)):
            return Report(dict.fromkeys(listing.partitions if listing else (), INTERRUPTED), is_interrupted=True)
        offline, outcomes = self._targets.offline, dict(self._targets.outcomes)
        asking = Asking(self._cluster, offline, self._settings, self._watch)
        if not await unless_stopped(self._stop, asking.ask_all(options.duration_ms)):
            rows = _rows(asking.logs("interrupted"), {})
            return Report(outcomes | dict.fromkeys(offline, INTERRUPTED), rows, is_interrupted=True)
        logs = asking.logs(f"no answer within {options.duration_ms:,} ms")
        chosen = {
            each: leader for each in offline if (leader := choose(offline[each].replicas, logs[each])) is not None
        }
        outcomes |= {each: _without_answer(logs[each]) for each in offline if each not in chosen}
        if options.elects:
            electing = Electing(self._cluster, self._settings, self._stop, self._watch)
            outcomes |= await electing.elect_all(ElectionType.DESIGNATED, chosen, options.retries)
        else:
            outcomes |= {partition: Outcome(Result.CHOSEN, leader) for partition, leader in chosen.items()}
        return Report(outcomes, _rows(logs, chosen), self._stop.is_set())

    async def _find(self, listing: Listing | None) -> None:
        """Find out which partitions are to be recovered, and where fenced brokers are."""
        self._watch.stage("reading the cluster's metadata", 1)
        topics = None if listing is None else {each.topic for each in listing.partitions}
        view = await self._cluster.view(topics, TOPIC_IDS_FROM)
        await self._cluster.require(NEEDED)
        await self._cluster.locate_brokers()
        listed = offline_partitions(view) if listing is None else listing.partitions
        self._targets = targets_of(listed, listing.repeated if listing else (), view)


def write_choice(report: Report, path: Path) -> int:
    """Create the file that elect-leaders reads; returns the number of its partitions. Raises BadInput."""
    leaders = {each: outcome.leader for each, outcome in report.outcomes.items() if outcome.result is Result.CHOSEN}
    create(path, designations_text({each: leader for each, leader in leaders.items() if leader is not None}))
    return len(leaders)


def _without_answer(logs: Mapping[int, ReplicaLog]) -> Outcome:
    """Says why, with the brokers that gave the same reason together."""
    brokers: dict[str, list[int]] = {}
    for broker, log in logs.items():
        brokers.setdefault(log.error or "no answer", []).append(broker)
    told = (
        f"broker{'' if len(each) == 1 else 's'} {', '.join(map(str, each))}: {reason}"
        for reason, each in brokers.items()
    )
    return Outcome(Result.FAILED, reason=f"no replica reported its log: {'; '.join(told)}")


def _rows(logs: Logs, chosen: Mapping[TopicPartition, int]) -> list[ReplicaRow]:
    return [
        ReplicaRow(partition, broker, log, chosen.get(partition) == broker)
        for partition in sorted(logs)
        for broker, log in logs[partition].items()
    ]
