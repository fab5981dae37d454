"""Changes of a partition: its leader, its in-sync and eligible replicas, and the end of a reassignment.

    change = Change(partition, may_lead=image.is_active, min_isr=2)
    change.record(isr=(2, 3))           # None if nothing changes
    change.record(Election.UNCLEAN)     # elects a leader as well

A partition never loses its last in-sync replica: without a live one that may lead, it keeps them and has no leader.
With eligible leader replicas it may lose all of them, if all were shut down uncleanly. Then its last leader leads again
when it returns, and recovers: it may have lost what was committed, but nobody has more.

Contains which leader follows from a partition and from who may lead. Who may ask is decided in the other modules.
Sources: KIP-631, KIP-704 (recovery after an unclean election), KIP-966 (eligible leader replicas), KIP-455
(reassignment).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import itemgetter

from nodes.reference.core.records.entities import KEPT, NO_LEADER, PartitionChangeRecord
from nodes.reference.core.records.image import Partition

MayLead = Callable[[int], bool]
"""Whether a broker may lead: it is registered, not fenced, and not shutting down."""


class Election(Enum):
    """How a leader is elected.

    ONLINE keeps the leader if it may lead, and else elects a clean one. PREFERRED elects the first replica if that is
    clean. UNCLEAN takes any live replica if there is no clean one; DESIGNATED that which is named (KAFKA-20098).
    """

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"
    DESIGNATED = "designated"


@dataclass(frozen=True, slots=True)
class Change:
    """What may become of a partition.

    min_isr is its min.insync.replicas, or 0 where replicas are not eligible beyond the ISR. unclean_shutdown: brokers
    that may have lost what they had. choose: which of the live replicas an unclean election takes. keeps_last: the last
    in-sync replica stays in the ISR.
    """

    partition: Partition
    may_lead: MayLead
    min_isr: int = 0
    unclean_shutdown: frozenset[int] = frozenset()
    choose: Callable[[Sequence[int]], int] = itemgetter(0)
    keeps_last: bool = True

    def record(
        self,
        election: Election = Election.ONLINE,
        isr: Sequence[int] | None = None,
        designated: int = NO_LEADER,
        has_recovered: bool = False,
    ) -> PartitionChangeRecord | None:
        """The record that sets the in-sync replicas, if given, and elects a leader; None if it would change nothing."""
        before = self.partition
        after = before if isr is None else replace(before, isr=tuple(isr))
        after = self._completed(after)
        after = self._with_leader(self._with_elr(after), election, designated)
        if has_recovered and after.leader == before.leader:
            after = replace(after, is_recovering=False)
        # Replicas that left must no longer be counted, so their leader begins an epoch without them.
        is_smaller = not set(before.replicas) <= set(after.replicas)
        return difference(before, after, new_epoch=is_smaller)

    def reassigned(self, after: Partition) -> PartitionChangeRecord | None:
        """The record that begins or cancels a reassignment: after has other replicas, adding and removing."""
        isr = tuple(node for node in after.isr if node in after.replicas)
        changed = self._completed(replace(after, isr=isr))
        is_smaller = not set(self.partition.replicas) <= set(changed.replicas)
        return difference(self.partition, self._with_leader(self._with_elr(changed), Election.ONLINE), is_smaller)

    def _completed(self, partition: Partition) -> Partition:
        """The end of the reassignment, if there is one: all replicas of its target are in sync."""
        target = tuple(node for node in partition.replicas if node not in partition.removing)
        if not partition.is_reassigning or not set(target) <= set(partition.isr):
            return partition
        isr = tuple(node for node in partition.isr if node in target)
        elr = tuple(node for node in partition.elr if node in target)
        return replace(partition, replicas=target, isr=isr, elr=elr, adding=(), removing=())

    def _with_elr(self, partition: Partition) -> Partition:
        """Replicas that leave an ISR which is too small stay eligible; none are once it is large enough again."""
        if not self.min_isr:
            return partition
        isr = tuple(node for node in partition.isr if node not in self.unclean_shutdown)
        partition = replace(partition, isr=isr)
        if len(isr) >= min(self.min_isr, len(partition.replicas)):
            return replace(partition, elr=(), last_known_elr=())
        left = dict.fromkeys((*self.partition.elr, *self.partition.isr))
        candidates = [node for node in left if node in partition.replicas and node not in isr]
        return replace(partition, elr=tuple(node for node in candidates if node not in self.unclean_shutdown))

    def _with_leader(self, partition: Partition, election: Election, designated: int = NO_LEADER) -> Partition:
        """The partition with the leader that this election gives; with none, and all its replicas, if it gives none."""
        leader = self._elected(partition, election, designated)
        if leader == NO_LEADER:
            return self._without_leader(partition)
        is_clean = leader in (*partition.isr, *partition.elr)
        if is_clean and leader in partition.isr:
            return replace(partition, leader=leader)
        elr = tuple(node for node in partition.elr if node != leader) if is_clean else ()
        is_recovering = partition.is_recovering or not is_clean
        return replace(partition, leader=leader, isr=(leader,), elr=elr, last_known_elr=(), is_recovering=is_recovering)

    def _without_leader(self, partition: Partition) -> Partition:
        """Nobody leads: either the ISR stays, or the last leader is remembered."""
        if not partition.isr and not self.min_isr and self.keeps_last:
            partition = replace(partition, isr=self.partition.isr)
        elif self.min_isr and not partition.isr and partition.has_leader:
            partition = replace(partition, last_known_elr=(partition.leader,))
        return replace(partition, leader=NO_LEADER)

    def _elected(self, partition: Partition, election: Election, designated: int) -> int:
        if election is Election.DESIGNATED:
            return designated
        clean = [node for node in partition.replicas if node in (*partition.isr, *partition.elr)]
        live = [node for node in clean if self.may_lead(node)]
        if election is Election.PREFERRED and live[:1] == list(partition.replicas[:1]):
            return live[0]
        if partition.leader in live and partition.leader in partition.isr:
            return partition.leader
        if live:
            # A member of the ISR is up to date; one that is only eligible is complete, but may be behind.
            return next((node for node in live if node in partition.isr), live[0])
        if self.min_isr and not clean and any(map(self.may_lead, partition.last_known_elr)):
            return partition.last_known_elr[0]  # no better replica can return
        any_live = [node for node in partition.replicas if self.may_lead(node)]
        return self.choose(any_live) if any_live and election is Election.UNCLEAN else NO_LEADER


def difference(before: Partition, after: Partition, new_epoch: bool = False) -> PartitionChangeRecord | None:
    """The record that turns one state of a partition into another; None if they are the same.

    new_epoch: a leader that stays begins a new leader epoch.
    """
    if before == after:
        return None
    changes_leader = before.leader != after.leader or (new_epoch and after.leader != NO_LEADER)
    return PartitionChangeRecord(
        partition_id=before.index,
        topic_id=before.topic_id,
        isr=_changed(before.isr, after.isr),
        leader=after.leader if changes_leader else KEPT,
        replicas=_changed(before.replicas, after.replicas),
        removing_replicas=_changed(before.removing, after.removing),
        adding_replicas=_changed(before.adding, after.adding),
        leader_recovery_state=int(after.is_recovering) if before.is_recovering != after.is_recovering else -1,
        eligible_leader_replicas=_changed(before.elr, after.elr),
        last_known_elr=_changed(before.last_known_elr, after.last_known_elr),
    )


def _changed(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if before == after else after
