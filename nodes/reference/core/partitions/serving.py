"""What a broker answers to requests: at once, or when records are committed or arrive, or when their time is over.

Contains requests that name many partitions, and fetches that wait (Kafka's purgatory for Fetch). Writes that wait are
in waiting_writes.py, deletions of records in deletions.py, what one partition answers is in leading.py. Consumers'
isolation levels, and fetches from followers (KIP-392), are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions.deletions import Deletions
from nodes.reference.core.partitions.epochs import NO_EPOCH
from nodes.reference.core.partitions.events import Arrived, Disconnect, Reply, RequestId
from nodes.reference.core.partitions.leading import ALL, Appended, Leading
from nodes.reference.core.partitions.messages import (
    NO_NODE,
    DeleteRecordsRequest,
    EpochQuestion,
    EpochRequest,
    EpochResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResult,
    OffsetAnswer,
    OffsetQuestion,
    OffsetsRequest,
    OffsetsResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    Response,
    TopicPartition,
)
from nodes.reference.core.partitions.questions import EpochAnswer
from nodes.reference.core.partitions.replica import Context, Replica
from nodes.reference.core.partitions.waiting_writes import WaitingWrites, Write, result_of

Role = tuple[Replica, Leading | None]
"""A replica of this broker, and its leadership if it leads."""

Find = Callable[[TopicPartition], Role | None]
"""The replica of a partition; None if this broker has none."""

ACKS = (0, 1, ALL)


@dataclass(slots=True)
class _ParkedFetch:
    """A fetch that waits for more bytes; seen is Context.changes when it was looked at last."""

    request_id: RequestId
    request: FetchRequest
    deadline_ms: int
    seen: int = -1


class Serving:
    """The requests that one broker serves."""

    def __init__(self, context: Context, find: Find) -> None:
        self._context, self._settings, self._find = context, context.settings, find
        self._writes = WaitingWrites(self._outcome)
        self._deletions = Deletions(self._leading, self._reply)
        self._fetches: list[_ParkedFetch] = []

    @property
    def deadline_ms(self) -> int:
        """When the time of a waiting request is over."""
        own = self._writes.deadline_ms, self._deletions.deadline_ms
        return min((*own, *(each.deadline_ms for each in self._fetches)))

    def handle(self, arrived: Arrived) -> None:
        """Handle a request; the reply follows now or later."""
        match arrived.request:
            case ProduceRequest() as request:
                self._produce(arrived.request_id, request)
            case FetchRequest() as request:
                self._count_fetch(request)
                deadline_ms = self._context.now_ms + request.max_wait_ms
                self._fetches.append(_ParkedFetch(arrived.request_id, request, deadline_ms))
            case EpochRequest(questions=questions):
                answers = {partition: self._epoch_answer(partition, each) for partition, each in questions.items()}
                self._reply(arrived.request_id, EpochResponse(answers))
            case DeleteRecordsRequest() as request:
                self._deletions.begin(arrived.request_id, request, self._context.now_ms)
            case OffsetsRequest(replica_id, asked):
                offsets = {partition: self._offset(partition, each, replica_id) for partition, each in asked.items()}
                self._reply(arrived.request_id, OffsetsResponse(offsets))

    def advance(self) -> None:
        """Answer the waiting requests that can be answered, or whose time is over."""
        for write in self._writes.settled(self._context.now_ms):
            self._reply(write.request_id, ProduceResponse(write.results))
        self._deletions.advance(self._context.now_ms)
        self._fetches = [fetch for fetch in self._fetches if not self._answer_fetch(fetch)]

    def _leading(
        self, partition: TopicPartition, epoch: int = NO_EPOCH, is_replica: bool = False
    ) -> Leading | ErrorCode:
        """The leadership that serves a request with this leader epoch, or the error (KIP-320)."""
        role = self._find(partition)
        if role is None:
            return ErrorCode.unknown_topic_or_partition
        replica, leading = role
        current, accepts = replica.assignment.leader_epoch, is_replica and self._settings.has("leader-epoch-not-fenced")
        if epoch not in (NO_EPOCH, current) and not accepts:
            return ErrorCode.fenced_leader_epoch if epoch < current else ErrorCode.unknown_leader_epoch
        return ErrorCode.not_leader_or_follower if leading is None else leading

    # Produce.

    def _produce(self, request_id: RequestId, request: ProduceRequest) -> None:
        write = Write(request_id, self._context.now_ms + request.timeout_ms)
        for partition, data in request.batches.items():
            self._append(write, partition, data, request.acks)
        if write.open:
            self._writes.add(write)
        elif request.acks == 0:
            if any(each.error is not ErrorCode.none for each in write.results.values()):
                self._context.emit(Disconnect(request_id))
        else:
            self._reply(request_id, ProduceResponse(write.results))

    def _append(self, write: Write, partition: TopicPartition, data: bytes, acks: int) -> None:
        leading = self._leading(partition)
        if acks not in ACKS:
            write.results[partition] = ProduceResult(ErrorCode.invalid_required_acks)
        elif isinstance(leading, ErrorCode):
            write.results[partition] = ProduceResult(leading)
        else:
            appended = leading.append(data, acks)
            if acks == ALL and appended.error is ErrorCode.none:
                write.open[partition] = leading, appended
            else:
                write.results[partition] = result_of(leading, appended, appended.error)

    def _outcome(self, partition: TopicPartition, leading: Leading, appended: Appended) -> ErrorCode | None:
        """An append of a term that has ended may be committed or not: the client has to find out."""
        role = self._find(partition)
        if role is None or role[1] is not leading:
            return ErrorCode.not_leader_or_follower
        return leading.outcome(appended.end_offset)

    # Fetch.

    def _count_fetch(self, request: FetchRequest) -> None:
        if request.replica_id == NO_NODE:
            return
        for partition, wanted in request.partitions.items():
            leading = self._leading(partition, wanted.leader_epoch, is_replica=True)
            if isinstance(leading, Leading) and leading.knows(request.replica_id):
                leading.fetched(request.replica_id, wanted, request.broker_epoch)

    def _answer_fetch(self, fetch: _ParkedFetch) -> bool:
        """Reply if there is enough to return, an error or a divergence, or if the time is over."""
        if fetch.seen == self._context.changes and fetch.deadline_ms > self._context.now_ms:
            return False
        fetch.seen = self._context.changes
        results = self._read(fetch.request)
        size = sum(len(each.data) for each in results.values())
        is_urgent = any(each.error is not ErrorCode.none or each.diverging is not None for each in results.values())
        is_due = fetch.deadline_ms <= self._context.now_ms
        if not (is_urgent or is_due or size >= fetch.request.min_bytes or not results):
            return False
        self._reply(fetch.request_id, FetchResponse(results))
        return True

    def _read(self, request: FetchRequest) -> dict[TopicPartition, FetchResult]:
        """What each partition returns. Only the first batch of all may exceed max_bytes (KIP-74)."""
        results, left = {}, request.max_bytes
        for partition, wanted in request.partitions.items():
            result = self._read_one(partition, wanted, request.replica_id, max(left, 0))
            if len(result.data) > left and left < request.max_bytes:
                result = FetchResult(result.error, result.high_watermark, result.start_offset)
            results[partition] = result
            left -= len(result.data)
        return results

    def _read_one(self, partition: TopicPartition, wanted: FetchPartition, node: int, max_bytes: int) -> FetchResult:
        leading = self._leading(partition, wanted.leader_epoch, is_replica=node != NO_NODE)
        if isinstance(leading, ErrorCode):
            return FetchResult(leading)
        if node != NO_NODE and not leading.knows(node):
            return FetchResult(ErrorCode.unknown_leader_epoch)  # the metadata with this replica is on its way
        return leading.read(wanted, node, max_bytes)

    # Questions.

    def _epoch_answer(self, partition: TopicPartition, asked: EpochQuestion) -> EpochAnswer:
        leading = self._leading(partition, asked.leader_epoch)
        return EpochAnswer(leading) if isinstance(leading, ErrorCode) else leading.answer(asked.question)

    def _offset(self, partition: TopicPartition, asked: OffsetQuestion, replica_id: int) -> OffsetAnswer:
        leading = self._leading(partition, asked.leader_epoch)
        return OffsetAnswer(leading) if isinstance(leading, ErrorCode) else leading.offset(asked, replica_id)

    def _reply(self, request_id: RequestId, response: Response) -> None:
        self._context.emit(Reply(request_id, response))
