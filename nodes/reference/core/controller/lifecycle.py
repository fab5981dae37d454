"""A broker's life as its controller sees it: registration, heartbeats and controlled shutdown (KIP-631).

    lifecycle = Lifecycle(settings, now_ms)
    request = lifecycle.next_request(applied_offset, now_ms)     # None if none is due; send it to the active controller
    lifecycle.answered(response, now_ms)                         # or failed(now_ms)

There is one request at a time. What the broker leads and follows is not decided here, but by the metadata.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.messages import (
    Heartbeat,
    HeartbeatResponse,
    NotController,
    RegisterBroker,
    RegisterBrokerResponse,
)
from nodes.reference.core.records.entities import BrokerEndpoint
from nodes.reference.core.settings import NEVER_MS

SOON_MS = 50
"""How long to wait where Kafka does not wait for a whole interval: after an error, and while something is under way."""


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """A broker's identity, and its broker.heartbeat.interval.ms.

    incarnation is new at each start. previous_epoch is the broker epoch before a clean shutdown, else -1 (KIP-966).
    """

    broker_id: int
    cluster_id: str
    incarnation: uuid.UUID
    endpoints: tuple[BrokerEndpoint, ...] = ()
    directories: tuple[uuid.UUID, ...] = ()
    previous_epoch: int = -1
    heartbeat_interval_ms: int = 2000


class Lifecycle:
    """The requests of one broker, from its start to its end."""

    def __init__(self, settings: LifecycleSettings, now_ms: int) -> None:
        self._settings = settings
        self._due_ms = now_ms
        self._is_waiting = False  # for a response
        self._is_stopping = False
        self.epoch = -1  # the broker epoch; -1 before the registration
        self.is_fenced = True
        self.may_end = False  # the controlled shutdown is complete

    @property
    def deadline_ms(self) -> int:
        """When next_request is due."""
        return NEVER_MS if self._is_waiting or self.may_end else self._due_ms

    def stop(self, now_ms: int) -> None:
        """Ask for a controlled shutdown; a broker that is not registered may end at once."""
        self._is_stopping, self.may_end = True, self.epoch < 0
        self._due_ms = now_ms

    def next_request(self, applied_offset: int, now_ms: int) -> RegisterBroker | Heartbeat | None:
        """The request that is due; applied_offset is the highest offset of the metadata that the broker has applied."""
        if now_ms < self.deadline_ms:
            return None
        self._is_waiting = True
        settings = self._settings
        if self.epoch >= 0:
            return Heartbeat(settings.broker_id, self.epoch, applied_offset, wants_shutdown=self._is_stopping)
        return RegisterBroker(
            settings.broker_id,
            settings.cluster_id,
            settings.incarnation,
            settings.endpoints,
            directories=settings.directories,
            previous_epoch=settings.previous_epoch,
        )

    def answered(self, response: RegisterBrokerResponse | HeartbeatResponse | NotController, now_ms: int) -> None:
        """The controller has responded."""
        self._is_waiting = False
        match response:
            case RegisterBrokerResponse(ErrorCode.none, epoch):
                self.epoch, self._due_ms = epoch, now_ms
            case HeartbeatResponse(ErrorCode.none):
                self._heartbeat_answered(response, now_ms)
            case _:
                self._due_ms = now_ms + SOON_MS

    def failed(self, now_ms: int) -> None:
        """There was no response, or no controller to ask."""
        self._is_waiting, self._due_ms = False, now_ms + SOON_MS

    def _heartbeat_answered(self, response: HeartbeatResponse, now_ms: int) -> None:
        self.is_fenced = response.is_fenced
        self.may_end = self._is_stopping and response.should_shut_down
        is_under_way = self._is_stopping or not response.is_caught_up
        self._due_ms = now_ms + (SOON_MS if is_under_way else self._settings.heartbeat_interval_ms)
