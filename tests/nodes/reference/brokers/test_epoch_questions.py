"""Followers' questions about epochs and the leader's answers: what one side encodes is what the other side reads."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.brokers.partition_apis import incoming, outgoing, replica_request, replica_response, version_of
from nodes.reference.core.messages import EpochEnd
from nodes.reference.core.partitions.messages import EpochQuestion, EpochRequest, EpochResponse, TopicPartition
from nodes.reference.core.partitions.questions import (
    UNKNOWN,
    EndOfEpoch,
    EpochAnswer,
    KnownEpoch,
    LargestEpoch,
    Lineage,
    Question,
)
from nodes.reference.core.records.image import Image
from nodes.wire import codec

PARTITION = TopicPartition("t", 0)
KEY = codec.OFFSET_FOR_LEADER_EPOCH
LINEAGE = Lineage((EpochEnd(1, 11), EpochEnd(2, 16)))


def arrived(question: Question) -> EpochRequest:
    """The request that the leader's core gets for what a follower asks."""
    request = EpochRequest(4, {PARTITION: EpochQuestion(question, 3)})
    api_key, values = replica_request(request, Image())
    version = version_of(request)
    message = codec.build(api_key, 4 if version is None else version, "request", values)
    received = codec.decode_request(codec.encode_request(message, 1, "broker-4")[4:])
    named = incoming(received.api_key, received.request, Image()).request
    assert isinstance(named, EpochRequest)
    return named


def answered(question: Question, answer: EpochAnswer) -> EpochAnswer:
    """What the follower's core gets for the leader's answer."""
    request = EpochRequest(4, {PARTITION: EpochQuestion(question, 3)})
    version = version_of(request)
    values = outgoing(EpochResponse({PARTITION: answer}), Image())
    message = codec.build(KEY, 4 if version is None else version, "response", values)
    _, received = codec.decode_response(type(message), codec.encode_response(message, 1)[4:])
    response = replica_response(request, received, Image())
    assert isinstance(response, EpochResponse)
    return response.answers[PARTITION]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (EndOfEpoch(2), EpochQuestion(EndOfEpoch(2), -1)),
        (LargestEpoch(2), EpochQuestion(LargestEpoch(2), 3)),
        (KnownEpoch(2), EpochQuestion(LargestEpoch(2), 3)),
        (LINEAGE, EpochQuestion(LINEAGE, 3)),
    ],
    ids=["version 0 has no epoch for fencing", "KIP-279", "alternative 1 has KIP-279's form", "alternative 2"],
)
def test_leader_reads_what_the_follower_asks(question: Question, expected: EpochQuestion) -> None:
    assert arrived(question).questions == {PARTITION: expected}


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (EndOfEpoch(2), EpochAnswer(end_offset=21), EpochAnswer(end_offset=21)),
        (EndOfEpoch(2), EpochAnswer(), EpochAnswer()),
        (LargestEpoch(2), EpochAnswer(epoch=1, end_offset=21), EpochAnswer(epoch=1, end_offset=21)),
        (LargestEpoch(2), UNKNOWN, UNKNOWN),
        (KnownEpoch(1), EpochAnswer(end_offset=21), EpochAnswer(end_offset=21)),
        (KnownEpoch(2), UNKNOWN, UNKNOWN),
        (LINEAGE, EpochAnswer(end_offset=11), EpochAnswer(end_offset=11)),
        (LINEAGE, UNKNOWN, UNKNOWN),
        (
            LINEAGE,
            EpochAnswer(ErrorCode.fenced_leader_epoch),
            EpochAnswer(ErrorCode.fenced_leader_epoch),
        ),
    ],
)
def test_follower_reads_what_the_leader_answers(question: Question, answer: EpochAnswer, expected: EpochAnswer) -> None:
    assert answered(question, answer) == expected
