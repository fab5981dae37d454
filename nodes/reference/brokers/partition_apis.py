"""The APIs of partitions on the wire, for clients and replicas: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and
DeleteRecords.

Contains pure functions between kio's entities and nodes.reference.core.partitions.messages. Topics that a request names
by their ids are looked up in the metadata; what cannot be found is answered here, the rest by the core.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions import messages
from nodes.reference.core.partitions.epochs import NO_EPOCH, NO_OFFSET
from nodes.reference.core.partitions.messages import NO_NODE, TopicPartition
from nodes.reference.core.partitions.questions import (
    UNKNOWN,
    EndOfEpoch,
    EpochAnswer,
    LargestEpoch,
    Lineage,
    Question,
)
from nodes.reference.core.records.entities import NO_ID
from nodes.reference.core.records.image import Image
from nodes.wire import codec

Values = dict[str, Any]

SERVED: Mapping[int, range] = {
    codec.PRODUCE: range(3, 12),
    codec.FETCH: range(4, 18),
    codec.LIST_OFFSETS: range(1, 9),
    codec.OFFSET_FOR_LEADER_EPOCH: range(5),
    codec.DELETE_RECORDS: range(3),
}
"""The supported versions by API key."""

FETCH_BY_ID_FROM = 13
"""The first version of Fetch that names topics by their ids (KIP-516)."""

KIP_101_VERSION = 0
"""The version of OffsetForLeaderEpoch that asks KIP-101's question."""

UNDEFINED_TIME_MS = -1


@dataclass(frozen=True, slots=True)
class Named:
    """A request for the core, and the partitions of topics that no metadata knows, each by the topic's id."""

    request: messages.Request
    unknown: tuple[tuple[uuid.UUID, int], ...] = ()


def incoming(api_key: int, request: Any, image: Image) -> Named:
    """The core's message for a request of a client or a replica."""
    match api_key:
        case codec.PRODUCE:
            return Named(_produce(request))
        case codec.FETCH:
            return _fetch(request, image)
        case codec.LIST_OFFSETS:
            return Named(_offsets(request))
        case codec.OFFSET_FOR_LEADER_EPOCH:
            return Named(_epochs(request))
        case codec.DELETE_RECORDS:
            return Named(_deletion(request))
    raise AssertionError(f"API {api_key} is not one of partitions")


def outgoing(response: messages.Response, image: Image, unknown: Iterable[tuple[uuid.UUID, int]] = ()) -> Values:
    """The values of a response, for all versions."""
    match response:
        case messages.ProduceResponse(results):
            return _unthrottled(responses=_topics(results, "name", "partition_responses", _produced))
        case messages.FetchResponse(results):
            return _fetched(results, image, unknown)
        case messages.OffsetsResponse(answers):
            return _unthrottled(topics=_topics(answers, "name", "partitions", _offset))
        case messages.DeleteRecordsResponse(results):
            return _unthrottled(topics=_topics(results, "name", "partitions", _deleted))
        case messages.EpochResponse(epochs):
            return _unthrottled(topics=_topics(epochs, "topic", "partitions", _epoch_end))


def replica_request(request: messages.Request, image: Image) -> tuple[int, Values]:
    """The API key and values of a request that a replica sends to its leader."""
    match request:
        case messages.FetchRequest():
            return codec.FETCH, _fetch_values(request, image)
        case messages.EpochRequest():
            return codec.OFFSET_FOR_LEADER_EPOCH, _epoch_values(request)
        case messages.OffsetsRequest():
            return codec.LIST_OFFSETS, _offsets_values(request)
    raise AssertionError(f"{type(request).__name__} is not sent by replicas")


def replica_response(request: messages.Request, response: Any, image: Image) -> messages.Response:
    """The core's message for a leader's response to a replica."""
    match request:
        case messages.FetchRequest():
            return messages.FetchResponse(dict(_fetch_results(response, image)))
        case messages.EpochRequest():
            answers = {
                TopicPartition(topic.topic, each.partition): _epoch_answer(request, topic.topic, each)
                for topic in response.topics
                for each in topic.partitions
            }
            return messages.EpochResponse(answers)
        case messages.OffsetsRequest():
            offsets = {
                TopicPartition(topic.name, each.partition_index): messages.OffsetAnswer(
                    each.error_code, each.offset, each.timestamp, each.leader_epoch
                )
                for topic in response.topics
                for each in topic.partitions
            }
            return messages.OffsetsResponse(offsets)
    raise AssertionError(f"{type(request).__name__} is not sent by replicas")


def _unthrottled(**values: Any) -> Values:
    return {"throttle_time": 0, **values}


def _topics(
    results: Mapping[TopicPartition, Any], name: str, partitions: str, values: Callable[[int, Any], Values]
) -> list[Values]:
    """Results by topic, as responses have them."""
    return [
        {name: topic, partitions: [values(index, result) for (_, index), result in each_of]}
        for topic, each_of in groupby(sorted(results.items()), key=lambda item: item[0].topic)
    ]


def _produce(request: Any) -> messages.ProduceRequest:
    batches = {
        TopicPartition(topic.name, each.index): bytes(each.records or b"")
        for topic in request.topic_data
        for each in topic.partition_data
    }
    return messages.ProduceRequest(request.acks, _milliseconds(request.timeout), batches)


def _produced(index: int, result: messages.ProduceResult) -> Values:
    return {
        "index": index,
        "error_code": result.error,
        "base_offset": result.base_offset,
        "log_append_time": None,
        "log_start_offset": result.start_offset,
        "record_errors": [],
        "error_message": None,
    }


def _fetch(request: Any, image: Image) -> Named:
    known: dict[TopicPartition, messages.FetchPartition] = {}
    unknown = []
    for topic in request.topics:
        name = topic.topic if hasattr(topic, "topic") else _name(topic.topic_id, image)
        for each in topic.partitions:
            if name is None:
                unknown.append((topic.topic_id or NO_ID, each.partition))
            else:
                known[TopicPartition(name, each.partition)] = messages.FetchPartition(
                    each.fetch_offset,
                    getattr(each, "current_leader_epoch", NO_EPOCH),
                    getattr(each, "last_fetched_epoch", NO_EPOCH),
                    each.partition_max_bytes,
                    getattr(each, "log_start_offset", NO_OFFSET),
                )
    state = getattr(request, "replica_state", None)
    replica_id = request.replica_id if state is None else state.replica_id
    fetch = messages.FetchRequest(
        replica_id,
        known,
        _milliseconds(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        -1 if state is None else state.replica_epoch,
    )
    return Named(fetch, tuple(unknown))


def _fetch_values(request: messages.FetchRequest, image: Image) -> Values:
    topics = [
        {
            "topic": topic,
            "topic_id": image.topics[topic].topic_id if topic in image.topics else None,
            "partitions": [
                {
                    "partition": index,
                    "current_leader_epoch": each.leader_epoch,
                    "fetch_offset": each.offset,
                    "last_fetched_epoch": each.last_epoch,
                    "partition_max_bytes": each.max_bytes,
                    "log_start_offset": each.start_offset,
                }
                for (_, index), each in each_of
            ],
        }
        for topic, each_of in groupby(sorted(request.partitions.items()), key=lambda item: item[0].topic)
    ]
    return {
        "cluster_id": None,
        "replica_id": request.replica_id,
        "replica_state": {"replica_id": request.replica_id, "replica_epoch": request.broker_epoch},
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "topics": topics,
        "forgotten_topics_data": [],
    }


def _fetched(
    results: Mapping[TopicPartition, messages.FetchResult], image: Image, unknown: Iterable[tuple[uuid.UUID, int]]
) -> Values:
    topics = _topics(results, "topic", "partitions", _fetch_result)
    for topic in topics:
        name = topic["topic"]
        topic["topic_id"] = image.topics[name].topic_id if name in image.topics else None
    missing = messages.FetchResult(ErrorCode.unknown_topic_id)
    topics += [
        {"topic": "", "topic_id": topic_id, "partitions": [_fetch_result(index, missing) for _, index in each_of]}
        for topic_id, each_of in groupby(unknown, key=lambda item: item[0])
    ]
    return _unthrottled(error_code=ErrorCode.none, session_id=0, responses=topics)


def _fetch_result(index: int, result: messages.FetchResult) -> Values:
    values: Values = {
        "partition_index": index,
        "error_code": result.error,
        "high_watermark": result.high_watermark,
        "last_stable_offset": result.high_watermark,
        "log_start_offset": result.start_offset,
        "aborted_transactions": None,
        "records": result.data,
    }
    if result.diverging is not None:
        values["diverging_epoch"] = {"epoch": result.diverging.epoch, "end_offset": result.diverging.end_offset}
    return values


def _fetch_results(response: Any, image: Image) -> Iterator[tuple[TopicPartition, messages.FetchResult]]:
    for topic in response.responses:
        name = topic.topic if hasattr(topic, "topic") else _name(topic.topic_id, image)
        if name is None:
            continue
        for each in topic.partitions:
            found = getattr(each, "diverging_epoch", None)
            has_diverged = found is not None and found.epoch >= 0
            yield (
                TopicPartition(name, each.partition_index),
                messages.FetchResult(
                    each.error_code,
                    each.high_watermark,
                    getattr(each, "log_start_offset", -1),
                    EpochEnd(found.epoch, found.end_offset) if found is not None and has_diverged else None,
                    bytes(each.records or b""),
                ),
            )


def _deletion(request: Any) -> messages.DeleteRecordsRequest:
    offsets = {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in request.topics
        for each in topic.partitions
    }
    return messages.DeleteRecordsRequest(offsets, _milliseconds(request.timeout))


def _deleted(index: int, result: messages.DeleteRecordsResult) -> Values:
    return {"partition_index": index, "low_watermark": result.low_watermark, "error_code": result.error}


def _offsets(request: Any) -> messages.OffsetsRequest:
    questions = {
        TopicPartition(topic.name, each.partition_index): messages.OffsetQuestion(
            each.timestamp, getattr(each, "current_leader_epoch", NO_EPOCH)
        )
        for topic in request.topics
        for each in topic.partitions
    }
    return messages.OffsetsRequest(request.replica_id, questions)


def _offsets_values(request: messages.OffsetsRequest) -> Values:
    def values(index: int, question: messages.OffsetQuestion) -> Values:
        return {
            "partition_index": index,
            "current_leader_epoch": question.leader_epoch,
            "timestamp": question.timestamp_ms,
        }

    return {
        "replica_id": request.replica_id,
        "isolation_level": 0,
        "topics": _topics(request.questions, "name", "partitions", values),
    }


def _offset(index: int, answer: messages.OffsetAnswer) -> Values:
    return {
        "partition_index": index,
        "error_code": answer.error,
        "timestamp": answer.timestamp_ms,
        "offset": answer.offset,
        "leader_epoch": answer.leader_epoch,
    }


def _epochs(request: Any) -> messages.EpochRequest:
    questions = {
        TopicPartition(topic.topic, each.partition): messages.EpochQuestion(
            _question(each, request.__version__), getattr(each, "current_leader_epoch", NO_EPOCH)
        )
        for topic in request.topics
        for each in topic.partitions
    }
    return messages.EpochRequest(getattr(request, "replica_id", NO_NODE), questions)


def _question(asked: Any, version: int) -> Question:
    if version == KIP_101_VERSION:
        return EndOfEpoch(asked.leader_epoch)
    ends = tuple(EpochEnd(each.leader_epoch, each.end_offset) for each in getattr(asked, "epoch_ends", ()))
    return Lineage(ends) if ends else LargestEpoch(asked.leader_epoch)


def version_of(request: messages.Request) -> int | None:
    """The version in which a replica sends a request; None for the newest that both brokers have."""
    if not isinstance(request, messages.EpochRequest):
        return None
    asks_for_ends = any(isinstance(each.question, EndOfEpoch) for each in request.questions.values())
    return KIP_101_VERSION if asks_for_ends else None


def _epoch_values(request: messages.EpochRequest) -> Values:
    def values(index: int, question: messages.EpochQuestion) -> Values:
        asked = question.question
        ends = asked.ends if isinstance(asked, Lineage) else ()
        return {
            "partition": index,
            "current_leader_epoch": question.leader_epoch,
            "leader_epoch": ends[-1].epoch if isinstance(asked, Lineage) else asked.epoch,
            "epoch_ends": [{"leader_epoch": each.epoch, "end_offset": each.end_offset} for each in ends],
        }

    return {"replica_id": request.replica_id, "topics": _topics(request.questions, "topic", "partitions", values)}


def _epoch_end(index: int, answer: EpochAnswer) -> Values:
    return {
        "partition": index,
        "error_code": answer.error,
        "leader_epoch": answer.epoch,
        "end_offset": answer.end_offset,
    }


def _epoch_answer(request: messages.EpochRequest, topic: str, result: Any) -> EpochAnswer:
    """The leader's answer; the offset of an unknown one is undefined, except in version 0, which has no such answer."""
    answer = EpochAnswer(result.error_code, getattr(result, "leader_epoch", NO_EPOCH), result.end_offset)
    asked = request.questions.get(TopicPartition(topic, result.partition))
    may_be_unknown = asked is not None and not isinstance(asked.question, EndOfEpoch)
    is_undefined = answer.error is ErrorCode.none and answer.end_offset < 0
    return UNKNOWN if may_be_unknown and is_undefined else answer


def _name(topic_id: uuid.UUID | None, image: Image) -> str | None:
    topic = image.topic(topic_id or NO_ID)
    return topic.name if topic else None


def _milliseconds(span: Any) -> int:
    return int(span.total_seconds() * 1000)


def producer_id(error: ErrorCode, number: int = -1) -> Values:
    """The values of the response to InitProducerId; each id is used in its first epoch alone."""
    return _unthrottled(error_code=error, producer_id=number, producer_epoch=0 if number >= 0 else -1)
