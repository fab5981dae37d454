"""Requests are built strictly from JSON, responses become JSON, and what does not fit is refused by its path."""

from __future__ import annotations

import dataclasses
import json
import typing
import uuid
from typing import Any

import pytest

from harness.model import BadInput
from nodes.wire import codec
from nodes.wire.entities import CONVERSIONS, api_key_of, as_json, refuse_expectation, request_of

PARTITION = {"partition_index": 0, "replica_epoch": 8, "replica_id": 3, "last_offset_epoch": 7, "last_offset": 9}
ID = "00000000-0000-0000-0000-000000000001"
VOTE = {"topics": [{"topic_name": "t", "partitions": [{**PARTITION, "replica_directory_id": ID, "pre_vote": True}]}]}


def changed(**fields: Any) -> dict[str, Any]:
    return {"topics": [{"topic_name": "t", "partitions": [{**PARTITION, "pre_vote": True, **fields}]}]}


def test_request_has_its_values_and_the_rest_its_defaults() -> None:
    request = request_of("Vote", 2, VOTE)
    (partition,) = request.topics[0].partitions
    assert (request.__api_key__, request.__version__) == (codec.VOTE, 2)
    assert (request.cluster_id, request.voter_id) == (None, -1)
    assert (partition.replica_epoch, partition.pre_vote) == (8, True)
    assert (partition.replica_directory_id, partition.voter_directory_id) == (uuid.UUID(ID), None)


@pytest.mark.parametrize("api", [52, "vote", "Vote", "VOTE"])
def test_api_has_a_key_and_names(api: int | str) -> None:
    assert api_key_of(api) == codec.VOTE
    assert api_key_of("FetchSnapshot") == api_key_of("fetch_snapshot") == 59


BAD_REQUESTS = {
    # case: API, version, values, message
    "an unknown name": (
        "Votes",
        2,
        {},
        "api: expected an API of Kafka by name or key, found 'Votes'; did you mean vote?",
    ),
    "an unknown key": (4000, 2, {}, "api: expected an API of Kafka by name or key, found 4000"),
    "an unknown version": ("Vote", 3, {}, "version: expected 0 to 2 of vote, found 3"),
    "a missing field": ("Vote", 2, {}, "values.topics: expected a list, found nothing"),
    "a field of another version": (
        "Vote",
        0,
        VOTE,
        "values.topics.0.partitions.0.replica_directory_id: expected one of the fields partition_index, replica_epoch, "
        "replica_id, last_offset_epoch, last_offset; did you mean replica_id?",
    ),
    "no list": ("Vote", 2, {"topics": 3}, "values.topics: expected a list, found 3"),
    "no table": ("Vote", 2, {"topics": [3]}, "values.topics.0: expected a table of fields, found 3"),
    "a truth as number": ("Vote", 2, changed(replica_id=True), "replica_id: expected a whole number, found true"),
    "a number as truth": ("Vote", 2, changed(pre_vote=1), "pre_vote: expected true or false, found 1"),
    "no number": ("Vote", 2, changed(replica_id=None), "replica_id: expected a whole number, found nothing"),
    "no UUID": ("Vote", 2, changed(voter_directory_id="x"), "voter_directory_id: expected a UUID, found 'x'"),
    "a number out of range": ("Vote", 2, changed(replica_id=1 << 40), "values: expected values that fit their fields"),
    "no base64": ("SaslAuthenticate", 2, {"auth_bytes": "?"}, "values.auth_bytes: expected bytes in base64, found '?'"),
    "no time": (
        "DeleteTopics",
        6,
        {"timeout": "1 s", "topics": []},
        "values.timeout: expected milliseconds, found '1 s'",
    ),
}


@pytest.mark.parametrize(("api", "version", "values", "message"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_values_that_do_not_fit_are_refused(api: int | str, version: int, values: Any, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        request_of(api, version, values)
    assert message in str(refused.value)


def test_request_is_decoded_to_the_values_that_it_was_built_from() -> None:
    values = {"timeout": 1500, "topics": [{"name": "t", "topic_id": ID}]}
    frame = codec.encode_request(request_of("DeleteTopics", 6, values), 1, "c")
    assert as_json(codec.decode_request(frame[4:]).request) == {
        "topics": [{"name": "t", "topic_id": ID}],
        "timeout": 1500,
    }


def test_response_is_json_with_names_of_errors() -> None:
    values = {"error_code": codec.ErrorCode.fenced_leader_epoch, "topics": [], "node_endpoints": []}
    response = as_json(codec.build(codec.VOTE, 2, "response", values))
    assert response == {"error_code": "fenced_leader_epoch", "topics": [], "node_endpoints": []}
    assert json.loads(json.dumps(response)) == response


def leaves(hint: Any) -> set[type]:
    """The types of the single values in a message, or in a field of this type."""
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return set[type]().union(*(leaves(hints[field.name]) for field in dataclasses.fields(hint)))
    inner = [each for each in typing.get_args(hint) if each not in (type(None), Ellipsis)]
    return set[type]().union(*map(leaves, inner)) if inner else {hint}


@pytest.mark.parametrize("api_key", codec.api_names())
def test_every_type_of_field_has_a_conversion(api_key: int) -> None:
    known = tuple(base for base, _, _ in CONVERSIONS)
    for version in codec.versions(api_key):
        for kind in ("request", "response"):
            types = leaves(codec.message_type(api_key, version, kind))  # type: ignore[arg-type]
            assert {each for each in types if not issubclass(each, known)} == set()


EXPECTATIONS = {
    # case: path, value, message; None if the response can have it
    "an error": ("topics.0.partitions.0.error_code", "fenced_leader_epoch", None),
    "a number": ("topics.0.partitions.0.leader_epoch", 3, None),
    "a length": ("topics.length", 1, None),
    "an unknown field": (
        "topics.0.partition",
        3,
        "expect.topics.0.partition: expected one of the fields topic_name, par",
    ),
    "an unknown error": ("error_code", "nono", "expect.error_code: expected the name of an error code, found 'nono'"),
    "no index": ("topics.first", 3, "expect.topics.first: expected an index of the list, or length"),
    "too deep": ("error_code.0", 3, "expect.error_code.0: expected no more names: this is a single value"),
    "another type": ("topics.0.partitions.0.vote_granted", "no", "vote_granted: expected true or false, found 'no'"),
    "null": ("topics.0.partitions.0.vote_granted", None, "vote_granted: expected true or false, found nothing"),
}


@pytest.mark.parametrize(("path", "value", "message"), EXPECTATIONS.values(), ids=EXPECTATIONS)
def test_expectation_that_never_holds_is_refused(path: str, value: Any, message: str | None) -> None:
    if message is None:
        refuse_expectation("vote", 2, path, value)
        return
    with pytest.raises(BadInput) as refused:
        refuse_expectation("vote", 2, path, value)
    assert message in str(refused.value)
