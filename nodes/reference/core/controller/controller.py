"""The active controller: takes requests and the time, returns the records to append and the response.

    decision = controller.handle(request, offset, now_ms)
    decision = controller.expire(offset, now_ms)     # when deadline_ms has passed: sessions end, elections are due
    decision = controller.reported(question, ends, offset, now_ms)    # the answer to a decision's question

Contains the dispatch, producer ids, and nothing else; acls.py, brokers.py, configs.py, partitions.py, recovery.py
and topics.py decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.acls import Acls
from nodes.reference.core.controller.brokers import Brokers
from nodes.reference.core.controller.configs import Configs
from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterConfigs,
    AlterPartition,
    ControllerRequest,
    ControllerResponse,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ElectLeaders,
    Heartbeat,
    LogEnd,
    LogQuestion,
    Reassign,
    RegisterBroker,
    UnregisterBroker,
)
from nodes.reference.core.controller.partitions import Partitions
from nodes.reference.core.controller.recovery import Recovery, Where
from nodes.reference.core.controller.settings import PRODUCER_IDS_AT_ONCE, ControllerSettings
from nodes.reference.core.controller.topics import Topics
from nodes.reference.core.events import Draw
from nodes.reference.core.records.entities import MetadataRecord, ProducerIdsRecord
from nodes.reference.core.records.image import Image

Handler = Callable[[Any], ControllerResponse]
"""Takes one kind of request, and returns the response."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to append as one batch, the response to send once they are committed (None if nobody asked), and
    questions to brokers."""

    records: Sequence[MetadataRecord]
    response: ControllerResponse | None = None
    questions: Sequence[LogQuestion] = ()


class Controller:
    """One term of the active controller. Its image is that of all records before, and changes with its decisions."""

    def __init__(self, image: Image, settings: ControllerSettings, draw: Draw, now_ms: int) -> None:
        self._draft = Draft(image, settings, draw, now_ms)
        self._brokers = Brokers(self._draft)
        self._partitions = Partitions(self._draft)
        self._recovery = Recovery(self._draft)
        self.deadline_ms = self._due_ms()  # when expire is due; only decisions change it
        self._handlers = self._by_request(Topics(self._draft), Configs(self._draft), Acls(self._draft))

    def _by_request(self, topics: Topics, configs: Configs, acls: Acls) -> Mapping[type, Handler]:
        """What handles each kind of request."""
        return {
            RegisterBroker: self._brokers.register,
            Heartbeat: self._brokers.heartbeat,
            UnregisterBroker: self._brokers.unregister,
            AlterPartition: self._partitions.alter,
            ElectLeaders: self._partitions.elect,
            CreateTopics: topics.create,
            DeleteTopics: topics.delete,
            CreatePartitions: topics.add_partitions,
            Reassign: topics.reassign,
            AlterConfigs: configs.alter,
            CreateAcls: acls.create,
            DeleteAcls: acls.delete,
            AllocateProducerIds: self._allocate_producer_ids,
        }

    @property
    def image(self) -> Image:
        """The metadata with all decisions, for reading."""
        return self._draft.image

    def _due_ms(self) -> int:
        return min(self._brokers.deadline_ms, self._partitions.deadline_ms, self._recovery.deadline_ms)

    def handle(self, request: ControllerRequest, offset: int, now_ms: int) -> Decision:
        """The decision on a request; its first record will have this offset."""
        self._begin(offset, now_ms)
        response = self._handlers[type(request)](request)
        return self._decision(response)

    def expire(self, offset: int, now_ms: int) -> Decision:
        """What is due at this time."""
        self._begin(offset, now_ms)
        self._brokers.expire()
        self._partitions.expire()
        self._recovery.expire()
        return self._decision(questions=self._recovery.take_questions())

    def reported(self, question: LogQuestion, ends: Mapping[Where, LogEnd], offset: int, now_ms: int) -> Decision:
        """What follows from a broker's answer to a question; ends is empty if it did not answer."""
        self._begin(offset, now_ms)
        self._recovery.reported(question, ends)
        return self._decision()

    def _begin(self, offset: int, now_ms: int) -> None:
        assert not self._draft.records, "the records of the last decision were taken"
        self._draft.offset, self._draft.now_ms = offset, max(now_ms, self._draft.now_ms)

    def _decision(self, response: ControllerResponse | None = None, questions: Sequence[LogQuestion] = ()) -> Decision:
        self.deadline_ms = self._due_ms()
        return Decision(self._draft.take_records(), response, questions)

    def _allocate_producer_ids(self, request: AllocateProducerIds) -> AllocateProducerIdsResponse:
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AllocateProducerIdsResponse(ErrorCode.stale_broker_epoch)
        first = self.image.next_producer_id
        self._draft.write(
            ProducerIdsRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.epoch,
                next_producer_id=first + PRODUCER_IDS_AT_ONCE,
            )
        )
        return AllocateProducerIdsResponse(ErrorCode.none, first, PRODUCER_IDS_AT_ONCE)
