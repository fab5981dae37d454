"""Brokers: registration, heartbeats, fencing and controlled shutdown (KIP-631, KIP-841, KIP-966).

A broker is fenced from its registration until it has applied the metadata up to it, and again when its heartbeats have
stopped for the session timeout. A fenced broker leads no partition and leaves every ISR, unless it is the last in it.
One that shuts down is relieved first: it ends when it leads nothing, and all other brokers have applied that.

Contains the sessions, which exist on the active controller only: a new one gives every broker a whole session.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.changes import Election
from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import (
    Heartbeat,
    HeartbeatResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
    UnregisterBrokerResponse,
)
from nodes.reference.core.records.entities import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from nodes.reference.core.records.image import Broker
from nodes.reference.core.settings import NEVER_MS

FENCED, UNFENCED, STOPPING = 1, -1, 1
"""Values of BrokerRegistrationChangeRecord."""


class Brokers:
    """The brokers of the active controller."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        # By broker: when it was heard last. Fenced brokers have no session that could end.
        self._heard_ms = {node: draft.now_ms for node, broker in draft.image.brokers.items() if not broker.is_fenced}
        self._applied: dict[int, int] = {}  # by broker: the metadata offset of its last heartbeat
        self._stops_at: dict[int, int] = {}  # by broker that shuts down: the offset of the records that relieved it

    @property
    def deadline_ms(self) -> int:
        """When the next session ends."""
        return min(self._heard_ms.values(), default=NEVER_MS) + self._draft.settings.session_timeout_ms

    def register(self, request: RegisterBroker) -> RegisterBrokerResponse:
        """Handle a registration; the broker's epoch is the offset of its record."""
        draft = self._draft
        before = draft.image.brokers.get(request.broker_id)
        if request.cluster_id != draft.settings.cluster_id:
            return RegisterBrokerResponse(ErrorCode.inconsistent_cluster_id)
        is_same = before is not None and before.incarnation == request.incarnation
        if before is not None and not is_same and not before.is_stopping and self._has_session(request.broker_id):
            return RegisterBrokerResponse(ErrorCode.duplicate_broker_registration)
        if before is not None and not is_same and request.previous_epoch != before.epoch:
            self._lost_disk(request.broker_id)
        broker_epoch = draft.next_offset
        draft.write(
            RegisterBrokerRecord(
                broker_id=request.broker_id,
                incarnation_id=request.incarnation,
                broker_epoch=broker_epoch,
                end_points=request.endpoints,
                features=request.features,
                rack=request.rack,
                fenced=not (is_same and before is not None and not before.is_fenced),
                log_dirs=request.directories,
            )
        )
        if not is_same:
            self._heard_ms.pop(request.broker_id, None)
            self._leave(request.broker_id)
        return RegisterBrokerResponse(ErrorCode.none, broker_epoch)

    def heartbeat(self, request: Heartbeat) -> HeartbeatResponse:
        """Handle a heartbeat: the broker is heard, and is fenced, unfenced or shut down as it wants to."""
        broker = self._draft.image.brokers.get(request.broker_id)
        if broker is None:
            return HeartbeatResponse(ErrorCode.broker_id_not_registered)
        if request.broker_epoch != broker.epoch:
            return HeartbeatResponse(ErrorCode.stale_broker_epoch)
        self._applied[broker.broker_id] = request.metadata_offset
        is_caught_up = request.metadata_offset >= broker.epoch
        if broker.is_fenced and is_caught_up and not request.wants_fence and not request.wants_shutdown:
            self._unfence(broker)
        elif not broker.is_fenced and request.wants_fence:
            self.fence(broker)
        elif not broker.is_fenced:
            self._heard_ms[broker.broker_id] = self._draft.now_ms
            if request.wants_shutdown and not broker.is_stopping:
                self._stop(broker)
        may_stop = request.wants_shutdown and self._is_relieved(broker.broker_id)
        if may_stop and not self._draft.image.brokers[broker.broker_id].is_fenced:
            self.fence(broker)
        is_fenced = self._draft.image.brokers[broker.broker_id].is_fenced
        return HeartbeatResponse(ErrorCode.none, is_caught_up, is_fenced, may_stop)

    def unregister(self, request: UnregisterBroker) -> UnregisterBrokerResponse:
        """Handle the removal of a broker."""
        broker = self._draft.image.brokers.get(request.broker_id)
        if broker is None:
            reason = f"Broker ID {request.broker_id} is not currently registered"
            return UnregisterBrokerResponse(ErrorCode.broker_id_not_registered, reason)
        self._heard_ms.pop(broker.broker_id, None)
        self._draft.write(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch))
        self._leave(broker.broker_id)
        return UnregisterBrokerResponse(ErrorCode.none)

    def expire(self) -> None:
        """Fence the brokers whose session has ended."""
        ended_ms = self._draft.now_ms - self._draft.settings.session_timeout_ms
        for node in [node for node, heard_ms in self._heard_ms.items() if heard_ms <= ended_ms]:
            self.fence(self._draft.image.brokers[node])

    def fence(self, broker: Broker) -> None:
        """The broker no longer leads any partition, and leaves the ISRs."""
        self._heard_ms.pop(broker.broker_id, None)
        self._stops_at.pop(broker.broker_id, None)
        self._draft.write(_changed(broker, fenced=FENCED))
        self._leave(broker.broker_id)

    def _unfence(self, broker: Broker) -> None:
        """The broker may lead: partitions without a leader that it has completely get it."""
        self._heard_ms[broker.broker_id] = self._draft.now_ms
        self._draft.write(_changed(broker, fenced=UNFENCED))
        for partition in self._draft.image.partitions():
            if not partition.has_leader and broker.broker_id in partition.replicas:
                election = Election.UNCLEAN if self._draft.allows_unclean(partition.topic) else Election.ONLINE
                self._draft.write(self._draft.change_of(partition).record(election))

    def _stop(self, broker: Broker) -> None:
        self._draft.write(_changed(broker, in_controlled_shutdown=STOPPING))
        self._leave(broker.broker_id)
        self._stops_at[broker.broker_id] = self._draft.next_offset - 1

    def _leave(self, node: int) -> None:
        """Remove a broker from the ISRs, with elections where it led."""
        if self._draft.settings.has("fenced-broker-stays-in-isr"):
            return
        for partition in self._draft.image.partitions():
            if node in partition.isr or partition.leader == node:
                isr = tuple(each for each in partition.isr if each != node)
                election = Election.UNCLEAN if self._draft.allows_unclean(partition.topic) else Election.ONLINE
                self._draft.write(self._draft.change_of(partition).record(election, isr))

    def _lost_disk(self, node: int) -> None:
        """The broker may have lost what it had: it is eligible nowhere (KIP-966). Without ELR nobody knows."""
        settings = self._draft.settings
        if not settings.eligible_leader_replicas or settings.has("lost-disk-stays-eligible"):
            return
        for partition in self._draft.image.partitions():
            if node in (*partition.isr, *partition.elr):
                isr = tuple(each for each in partition.isr if each != node)
                self._draft.write(self._draft.change_of(partition, frozenset({node})).record(isr=isr))

    def _has_session(self, node: int) -> bool:
        heard_ms = self._heard_ms.get(node)
        return heard_ms is not None and heard_ms > self._draft.now_ms - self._draft.settings.session_timeout_ms

    def _is_relieved(self, node: int) -> bool:
        """Whether the broker may end: it leads nothing, and all others know."""
        if any(partition.leader == node for partition in self._draft.image.partitions()):
            return False
        offset = self._stops_at.get(node, -1)
        return all(self._applied.get(other, -1) >= offset for other in self._heard_ms if other != node)


def _changed(broker: Broker, fenced: int = 0, in_controlled_shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
