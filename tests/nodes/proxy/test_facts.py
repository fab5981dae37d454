"""What the record has of Fetch: epochs, offsets and high watermarks of the quorum's own log, and of no other."""

from __future__ import annotations

import uuid

import pytest
from kio.schema.errors import ErrorCode

from nodes.proxy.exchange import NO_FACTS, Exchange, open_exchange, response_facts
from nodes.reference.core.messages import FetchRequest, FetchResponse
from nodes.reference.translate import TOPIC, TOPIC_ID, outgoing, peer_request
from nodes.wire import codec

REQUEST = FetchRequest("cluster", 2, 3, 40, 3, 500, 1000, high_watermark=38)


def fetch(
    version: int, request: FetchRequest = REQUEST, topic: str = TOPIC, topic_id: uuid.UUID = TOPIC_ID
) -> Exchange:
    api_key, values = peer_request(request, {})
    values["topics"][0] |= {"topic": topic, "topic_id": topic_id}
    message = codec.build(api_key, version, "request", values)
    return open_exchange(codec.encode_request(message, 7, "n2"), (2, 1))


@pytest.mark.parametrize(("version", "high_watermark"), [(12, None), (13, None), (17, None), (18, 38)])
def test_fetch_of_the_quorum_has_its_offset_and_from_version_18_its_high_watermark(
    version: int, high_watermark: int | None
) -> None:
    facts = fetch(version).facts
    assert (facts.epoch, facts.fetch_offset, facts.high_watermark) == (3, 40, high_watermark)
    assert facts.partitions == {(TOPIC, 0)}


def test_high_watermark_that_is_not_supported_is_none() -> None:
    request = FetchRequest("cluster", 2, 3, 40, 3, 500, 1000, high_watermark=(1 << 63) - 1)
    assert fetch(18, request).facts.high_watermark is None


@pytest.mark.parametrize("version", [12, 18])
def test_fetch_of_another_log_is_not_the_quorums(version: int) -> None:
    exchange = fetch(version, topic="users", topic_id=uuid.UUID(int=9))
    assert (exchange.facts.epoch, exchange.facts.fetch_offset, exchange.facts.high_watermark) == (None, None, None)
    assert response_facts(exchange, response(version, 38)) is NO_FACTS


def response(version: int, high_watermark: int, epoch: int = 3) -> bytes:
    answer = FetchResponse(ErrorCode.none, 1, epoch, high_watermark)
    return codec.encode_response(codec.build(codec.FETCH, version, "response", outgoing(answer, {})), 7)


@pytest.mark.parametrize("version", [12, 17, 18])
@pytest.mark.parametrize("high_watermark", [38, -1])
def test_response_has_the_leaders_epoch_and_high_watermark(version: int, high_watermark: int) -> None:
    facts = response_facts(fetch(version), response(version, high_watermark))
    assert (facts.epoch, facts.fetch_offset, facts.high_watermark) == (3, None, high_watermark)


def test_response_without_an_epoch_has_none() -> None:
    assert response_facts(fetch(18), response(18, 38, epoch=-1)).epoch is None


def test_response_that_cannot_be_decoded_has_no_facts() -> None:
    assert response_facts(fetch(18), response(18, 38)[:20]) is NO_FACTS
