"""What brokers last reported of their partitions, and the conditions of partitions and brokers that follow from it.

Brokers learn of changes one after another, so their views differ for a time. A change of leader has a new leader epoch,
one of the in-sync replicas alone does not: those are as the leader reports them, or, of a partition without a leader,
as in the last leader epoch.

Contains values and pure functions. metadata_watch.py polls the brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from harness.model.conditions import Condition
from nodes.observe.brokers.metadata import BrokerMetadata, PartitionState


@dataclass(frozen=True, slots=True)
class PartitionsView:
    """The brokers' partitions as last seen.

    nodes are the brokers. metadata has those that responded to the last request. failed are, by broker, the partitions
    in which its fetcher failed since it started; stored are, by broker, the high watermarks above 0 in its checkpoint,
    compacted those whose log it has compacted up to the active segment.
    """

    metadata: Mapping[int, BrokerMetadata] = field(default_factory=dict)
    nodes: Collection[int] = ()
    failed: Mapping[int, frozenset[str]] = field(default_factory=dict)
    stored: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    compacted: Mapping[int, Collection[str]] = field(default_factory=dict)

    def state(self, partition: str) -> PartitionState | None:
        """The partition in the last leader epoch that any broker knows, as its leader reports it if it has one.

        None if no broker knows the partition, or its leader does not respond as such.
        """
        seen = [
            (node, known.partitions[partition])
            for node, known in self.metadata.items()
            if partition in known.partitions
        ]
        last_epoch = max((state.epoch for _, state in seen), default=-1)
        own = (state for node, state in seen if state.epoch == last_epoch and state.leader in (node, None))
        return next(own, None)


def is_fenced(node: int, view: PartitionsView) -> bool:
    """Another broker responds, and none that responds lists this one among the live brokers.

    What this one says itself does not count: it may be cut off, and know no better.
    """
    others = [known for other, known in view.metadata.items() if other != node]
    return bool(others) and all(node not in known.brokers for known in others)


def is_live(node: int, view: PartitionsView) -> bool:
    """This broker responds, and every broker that responds takes it for live."""
    return node in view.metadata and all(node in known.brokers for known in view.metadata.values())


def all_live(view: PartitionsView) -> bool:
    """There are brokers; every one responds, and takes all for live."""
    nodes = view.nodes
    return bool(nodes) and all(view.metadata.get(node, BrokerMetadata()).brokers.issuperset(nodes) for node in nodes)


def holds(condition: Condition, view: PartitionsView) -> bool:
    """Whether a condition of a partition, or that a broker is live, holds; False for other conditions."""
    if condition.name == "broker_live":
        assert condition.node is not None
        return is_live(condition.node, view)
    if condition.name in ("stored_high_watermark", "compacted"):
        assert condition.node is not None
        assert condition.partition is not None
        stored = view.stored.get(condition.node, {}).get(condition.partition, 0)
        is_compacted = condition.partition in view.compacted.get(condition.node, ())
        return is_compacted if condition.name == "compacted" else stored >= (condition.offset or 1)
    state = view.state(condition.partition) if condition.partition is not None else None
    is_in_sync = state is not None and condition.node in state.in_sync
    if condition.name == "replication_settled":
        assert condition.node is not None
        return is_in_sync or condition.partition in view.failed.get(condition.node, frozenset())
    if state is None:
        return False
    return {
        "leads_partition": state.leader is not None and state.leader == condition.node,
        "in_sync": is_in_sync,
        "not_in_sync": not is_in_sync,
        "partition_online": state.leader is not None,
        "partition_offline": state.leader is None,
    }.get(condition.name, False)
