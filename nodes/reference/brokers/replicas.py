"""The shell of a broker's partitions: logs on disk, connections to other brokers and the controller, and a timer.

    replicas = Replicas(settings, place, controller, note)
    replicas.metadata_changed()                    # the node has applied more of the metadata
    response = await replicas.respond(request)     # to a client's or a replica's request

Passes events to the core (nodes/reference/core/partitions) and carries out its effects in order. Contains no protocol
decisions.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.model import PeerFailure
from nodes.reference.brokers.cleaning import Cleaning, Intervals
from nodes.reference.brokers.log_store import LogStore
from nodes.reference.brokers.partition_apis import replica_request, replica_response, version_of
from nodes.reference.core.controller import messages as of_controller
from nodes.reference.core.controller.settings import MIN_ISR
from nodes.reference.core.partitions import events, messages
from nodes.reference.core.partitions.broker import Broker
from nodes.reference.core.partitions.log_config import CLEANUP
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.reference.core.partitions.replica import NEVER_MS
from nodes.reference.core.partitions.settings import PartitionSettings
from nodes.reference.core.records.image import Image, Partition
from nodes.wire import codec
from nodes.wire.batches import Record, records
from nodes.wire.connection import WireConnection

Endpoint = tuple[str, int]


class ControllerAccess(Protocol):
    """Asks the active controller."""

    async def alter_partition(
        self, changes: tuple[of_controller.IsrChange, ...]
    ) -> of_controller.AlterPartitionResponse | None:
        """The controller's response to changes of ISRs; None if there is none."""


@dataclass(frozen=True, slots=True)
class _TopicConfigs:
    """The configs of a topic that the core knows: see messages.Assignment."""

    min_isr: int
    is_only_compacted: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker's partitions are: the metadata as it is now, its logs, the listener of brokers for each other,
    defaults of topics' configs, and how often high watermarks are stored and logs cleaned."""

    image: Callable[[], Image]
    logs: LogStore
    listener: str
    topic_defaults: Mapping[str, str]
    checkpoint_interval_ms: int = 5000
    cleaning: Intervals = field(default_factory=Intervals)

    def config(self, topic: str, name: str) -> str:
        """A config of a topic, as the metadata has it now."""
        return self.image().config(topic, name, self.topic_defaults)


class Replicas:
    """The partitions of one broker, from its start until it stops."""

    def __init__(
        self,
        settings: PartitionSettings,
        place: Place,
        controller: ControllerAccess,
        note: Callable[[events.Note], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._settings, self._place, self._controller = settings, place, controller
        self._note, self._fail = note, fail
        self._broker = Broker(settings, place.logs, _now_ms())
        self._seen: dict[TopicPartition, tuple[Partition, _TopicConfigs]] = {}  # what the core was told of
        self._waiting: dict[int, asyncio.Future[messages.Response | None]] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._connections: dict[int, tuple[Endpoint, WireConnection]] = {}
        self._ids = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._checkpoint_ms = _now_ms() + place.checkpoint_interval_ms
        self._cleaning = Cleaning(place.logs, place.cleaning, self._start_at, fail)

    def registered(self, broker_epoch: int) -> None:
        """The controller has registered the broker."""
        self._step(events.Registered(broker_epoch))

    def metadata_changed(self) -> None:
        """Tell the core what the metadata says of this broker's partitions, as far as it has changed."""
        image = self._place.image()
        mine = {
            TopicPartition(each.topic, each.index): (each, self._configs(each.topic))
            for each in image.partitions()
            if self._settings.node_id in each.replicas
        }
        self._place.logs.configs_changed()
        if mine == self._seen:
            return
        gone = tuple(
            partition for partition, (each, _) in self._seen.items() if not _is_same(each, mine.get(partition))
        )
        changed = [each for partition, each in mine.items() if self._seen.get(partition) != each]
        self._seen = mine
        if gone:
            self._step(events.Remove(gone))
            for partition in gone:
                self._place.logs.remove(partition)
        if changed:
            self._step(events.Assign(tuple(_assignment(*each) for each in changed)))

    def _configs(self, topic: str) -> _TopicConfigs:
        is_only_compacted = self._place.config(topic, CLEANUP) == "compact"
        return _TopicConfigs(int(self._place.config(topic, MIN_ISR)), is_only_compacted)

    def _start_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._step(events.StartAt(offsets))

    async def respond(self, request: messages.Request) -> messages.Response | None:
        """The response to a request; None for a Produce with acks=0. Raises PeerFailure if one of those failed."""
        request_id = next(self._ids)
        future: asyncio.Future[messages.Response | None] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        try:
            self._step(events.Arrived(request_id, request))
            if isinstance(request, messages.ProduceRequest) and request.acks == 0 and not future.done():
                return None
            return await future
        finally:
            self._waiting.pop(request_id, None)

    def records(self, partition: TopicPartition) -> Iterator[Record]:
        """All records that a partition's log has, those that are not committed included."""
        log = self._broker.replicas[partition].log
        for data, head in log.batches(log.start_offset):
            yield from records(data, head)

    def log_ends(self) -> Mapping[TopicPartition, tuple[int, int, int]]:
        """By partition: the leader epoch that this broker knows, its log's end, and the epoch of its last record."""
        return {
            partition: (replica.assignment.leader_epoch, replica.log.end_offset, replica.log.epochs.latest)
            for partition, replica in self._broker.replicas.items()
        }

    def log_sizes(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """By partition: the bytes of its log, and how many of its records are not known to be committed."""
        sizes = self._place.logs.sizes()
        return {
            partition: (sizes[partition], max(0, replica.log.end_offset - replica.high_watermark))
            for partition, replica in self._broker.replicas.items()
        }

    async def close(self) -> None:
        """Store the high watermarks, close the logs and all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for task in (*self._sending.values(), *self._asking):
            task.cancel()
        for _, connection in self._connections.values():
            await connection.close()
        await self._cleaning.close()
        self._place.logs.store_high_watermarks(self._broker.high_watermarks())
        self._place.logs.close()

    def _step(self, event: events.Event) -> None:
        """Pass one event to the core and carry out its effects; a failure ends the node."""
        try:
            for effect in self._broker.handle(event, _now_ms()):
                self._carry_out(effect)
            self._checkpoint()
            self._cleaning.begin(self._broker.high_watermarks())
            self._set_timer()
        except Exception as failure:  # noqa: BLE001 - a broker that went on would be half dead
            self._fail(failure)

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.Send():
                self._send(effect)
            case events.AskController():
                task = asyncio.create_task(self._ask(effect))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            case events.Reply(request_id, response):
                self._resolve(request_id, response)
            case events.Disconnect(request_id):
                self._refuse(request_id)
            case events.StoreHighWatermarks(high_watermarks):
                self._place.logs.store_high_watermarks(high_watermarks)
            case events.Note():
                self._note(effect)

    def _resolve(self, request_id: int, response: messages.Response) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def _refuse(self, request_id: int) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(PeerFailure("a Produce with acks=0 failed: its connection is closed"))

    def _checkpoint(self) -> None:
        if _now_ms() >= self._checkpoint_ms:
            self._place.logs.store_high_watermarks(self._broker.high_watermarks())
            self._place.logs.store_start_offsets()
            self._checkpoint_ms = _now_ms() + self._place.checkpoint_interval_ms

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = min(self._broker.deadline_ms, self._checkpoint_ms, self._cleaning.deadline_ms)
        if deadline_ms < NEVER_MS:
            delay_s = max(0, deadline_ms - _now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._step, events.Tick())

    def _send(self, effect: events.Send) -> None:
        """Send a request to a broker; one that is under way to it is abandoned, and its connection closed."""
        previous = self._sending.pop(effect.peer, None)
        if previous is not None and not previous.done():
            previous.cancel()
            if effect.peer in self._connections:
                self._connections[effect.peer][1].abort()
        self._sending[effect.peer] = asyncio.create_task(self._exchange(effect))

    async def _exchange(self, effect: events.Send) -> None:
        outcome = await self._outcome(effect)
        self._sending.pop(effect.peer, None)  # before the core gets the outcome, since it may send at once
        self._step(outcome)

    async def _outcome(self, effect: events.Send) -> events.Event:
        image = self._place.image()
        connection = await self._connection(effect.peer, image)
        if connection is None:
            return events.Failed(effect.peer, effect.request_id)
        api_key, values = replica_request(effect.request, image)
        try:
            response = await self._response(connection, version_of(effect.request), api_key, values)
        except PeerFailure:
            return events.Failed(effect.peer, effect.request_id)
        answer = replica_response(effect.request, response, self._place.image())
        return events.Answered(effect.peer, effect.request_id, answer)

    async def _response(
        self, connection: WireConnection, version: int | None, api_key: int, values: Mapping[str, Any]
    ) -> Any:
        timeout_ms = self._settings.request_timeout_ms
        if version is None:
            return await connection.call_latest(api_key, values, timeout_ms)
        return await connection.call(codec.build(api_key, version, "request", values), timeout_ms)

    async def _connection(self, peer: int, image: Image) -> WireConnection | None:
        """The connection to a broker at the address that it has registered; None if it has not."""
        broker = image.brokers.get(peer)
        found = [each for each in (broker.endpoints if broker else ()) if each.name == self._place.listener]
        if not found:
            return None
        endpoint = found[0].host, found[0].port
        if peer in self._connections and self._connections[peer][0] != endpoint:
            await self._connections.pop(peer)[1].close()
        if peer not in self._connections:
            client_id = f"broker-{self._settings.node_id}-fetcher-0"
            self._connections[peer] = endpoint, WireConnection(*endpoint, client_id)
        return self._connections[peer][1]

    async def _ask(self, effect: events.AskController) -> None:
        image = self._place.image()
        known = [each for each in effect.request.proposals if each.partition.topic in image.topics]
        changes = tuple(_isr_change(each, image) for each in known)
        response = await self._controller.alter_partition(changes)
        answer = None if response is None else _isr_response(response, self._place.image())
        self._step(events.ControllerAnswered(effect.request_id, answer))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _is_same(before: Partition, now: tuple[Partition, _TopicConfigs] | None) -> bool:
    """Whether a partition is still of the topic that it was of: one of the same name may have been created anew."""
    return now is not None and now[0].topic_id == before.topic_id


def _assignment(partition: Partition, configs: _TopicConfigs) -> messages.Assignment:
    return messages.Assignment(
        TopicPartition(partition.topic, partition.index),
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.replicas,
        partition.partition_epoch,
        partition.is_recovering,
        configs.min_isr,
        configs.is_only_compacted,
    )


def _isr_change(proposal: messages.IsrProposal, image: Image) -> of_controller.IsrChange:
    topic, index = proposal.partition
    return of_controller.IsrChange(
        image.topics[topic].topic_id,
        index,
        proposal.leader_epoch,
        proposal.partition_epoch,
        proposal.isr,
        proposal.has_recovered,
    )


def _isr_response(response: of_controller.AlterPartitionResponse, image: Image) -> messages.IsrResponse:
    results = []
    for each in response.results:
        topic = image.topic(each.topic_id)
        if topic is not None:
            partition = TopicPartition(topic.name, each.index)
            epochs = each.leader_epoch, each.partition_epoch
            results.append(
                messages.IsrResult(partition, each.error, each.leader, *epochs, each.isr, each.is_recovering)
            )
    return messages.IsrResponse(response.error, tuple(results))
