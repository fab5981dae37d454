"""The shell of a broker's group coordinator: the records in its partitions of the offsets' topic, and a timer.

    groups = Groups(settings, node_id, partitions, create_topic, note, fail)
    groups.metadata_changed(image)                                  # the node has applied more of the metadata
    values = await groups.values(frame, "PLAINTEXT", host, image)   # the response to a client

Passes events to the core (nodes/reference/core/groups) and carries out its effects in order. Contains no protocol
decisions.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from nodes.reference.brokers import group_apis
from nodes.reference.core.groups import events, messages
from nodes.reference.core.groups.context import NEVER_MS
from nodes.reference.core.groups.coordinator import GroupCoordinator
from nodes.reference.core.groups.settings import OFFSETS_TOPIC, GroupSettings
from nodes.reference.core.partitions import events as events_of_partitions
from nodes.reference.core.partitions import messages as messages_of_partitions
from nodes.reference.core.partitions.leading import ALL
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.reference.core.records.image import Image
from nodes.wire import codec
from nodes.wire.batches import Record, encode_batch


class Partitions(Protocol):
    """The broker's partitions, of which some are the offsets' topic's."""

    async def respond(self, request: messages_of_partitions.Request) -> messages_of_partitions.Response | None:
        """The response to a request."""

    def records(self, partition: TopicPartition) -> Iterable[Record]:
        """All records that a partition's log has."""


CreateTopic = Callable[[Mapping[str, Any]], Awaitable[object]]
"""Ask the controller to create a topic, by the values of CreateTopics."""


class Groups:
    """The groups that one broker coordinates, from its start until it stops."""

    def __init__(
        self,
        settings: GroupSettings,
        node_id: int,
        partitions: Partitions,
        create_topic: CreateTopic,
        note: Callable[[events_of_partitions.Note], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._settings, self._id, self._partitions = settings, node_id, partitions
        self._create_topic, self._note, self._fail = create_topic, note, fail
        self._coordinator = GroupCoordinator(settings, lambda: str(uuid.uuid4()), _now_ms())
        self._led: dict[int, tuple[uuid.UUID, int]] = {}  # topic id and leader epoch of each partition that is led here
        self._waiting: dict[int, asyncio.Future[messages.Response]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._creating: asyncio.Task[None] | None = None
        self._ids = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def metadata_changed(self, image: Image) -> None:
        """Tell the core which partitions of the offsets' topic this broker leads, as far as that has changed."""
        topic = image.topics.get(OFFSETS_TOPIC)
        partitions = topic.partitions.values() if topic else ()
        led = {each.index: (each.topic_id, each.leader_epoch) for each in partitions if each.leader == self._id}
        before, self._led = self._led, led
        for index in before.keys() - led.keys():
            self._step(events.Resigned(index))
        for index, term in sorted(led.items()):
            if before.get(index) != term:
                records = self._partitions.records(TopicPartition(OFFSETS_TOPIC, index))
                self._step(events.Elected(index, len(partitions), records))

    async def values(
        self, frame: codec.RequestFrame, listener: str, client_host: str, image: Image
    ) -> Mapping[str, Any]:
        """The values of the response to a client's request."""
        if frame.api_key == codec.FIND_COORDINATOR:
            if OFFSETS_TOPIC not in image.topics:
                self._create_offsets_topic()
            return group_apis.coordinators(frame.request, image, listener)
        requests = group_apis.incoming(frame, client_host, image, time.time_ns() // 1_000_000)
        responses = await asyncio.gather(*(self._respond(each) for each in requests))
        return group_apis.outgoing(frame, list(zip(requests, responses, strict=True)))

    async def close(self) -> None:
        """End the timer and what is under way."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    async def _respond(self, request: messages.Request) -> messages.Response:
        request_id = next(self._ids)
        future: asyncio.Future[messages.Response] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        try:
            self._step(events.Arrived(request_id, request))
            return await future
        finally:
            self._waiting.pop(request_id, None)

    def _create_offsets_topic(self) -> None:
        """Ask the controller for the topic, unless that is under way; clients ask again until it is there."""
        if self._creating is None or self._creating.done():
            self._creating = self._start(self._ask_for_offsets_topic())

    async def _ask_for_offsets_topic(self) -> None:
        topic = {
            "name": OFFSETS_TOPIC,
            "num_partitions": self._settings.partitions,
            "replication_factor": self._settings.replication_factor,
            "assignments": [],
            "configs": [{"name": "cleanup.policy", "value": "compact"}],
        }
        await self._create_topic({"topics": [topic], "timeout": 10_000, "validate_only": False})

    def _start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _step(self, event: events.Event) -> None:
        """Pass one event to the core and carry out its effects; a failure ends the node."""
        try:
            for effect in self._coordinator.handle(event, _now_ms()):
                self._carry_out(effect)
            self._set_timer()
        except Exception as failure:  # noqa: BLE001 - a broker that went on would be half dead
            self._fail(failure)

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.Append():
                self._start(self._append(effect))
            case events.Reply(request_id, response):
                waiting = self._waiting.pop(request_id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(response)
            case events.Note(text):
                self._note(events_of_partitions.Note(text, "GroupCoordinator"))

    async def _append(self, effect: events.Append) -> None:
        partition = TopicPartition(OFFSETS_TOPIC, effect.partition)
        batch = encode_batch(effect.records, 0, -1, time.time_ns() // 1_000_000)
        request = messages_of_partitions.ProduceRequest(ALL, self._settings.commit_timeout_ms, {partition: batch})
        response = await self._partitions.respond(request)
        assert isinstance(response, messages_of_partitions.ProduceResponse), "a Produce with acks=all has a response"
        self._step(events.Appended(effect.append_id, response.results[partition].error))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self._coordinator.deadline_ms
        if deadline_ms < NEVER_MS:
            delay_s = max(0, deadline_ms - _now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._step, events.Tick())


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
