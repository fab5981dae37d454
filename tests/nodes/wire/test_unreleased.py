"""Messages that kio does not have: their bytes, worked out by hand from the documents' schemas, and any values."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.model import BadInput
from nodes.wire import codec, unreleased
from nodes.wire.entities import api_key_of, as_json, request_of

ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
REQUEST_HEAD = "00000007 0002 6d65 00"
"""Correlation id 7, client id "me", no tagged fields (request header v2)."""
RESPONSE_HEAD = "00000007 00"

DESIGNATED: dict[str, Any] = {
    "election_type": 2,
    "topic_partitions": [{"topic": "foo", "partitions": [1, 2], "designated_leaders": [3, 4]}],
    "timeout": 1000,
}
UNCLEAN: dict[str, Any] = {"election_type": 1, "topic_partitions": None, "timeout": 60_000}
ELECTED: dict[str, Any] = {
    "throttle_time": 5,
    "error_code": ErrorCode.none,
    "replica_election_results": [
        {
            "topic": "foo",
            "partition_result": [
                {"partition_id": 1, "error_code": ErrorCode.election_not_needed, "error_message": "no"},
                {"partition_id": 2, "error_code": ErrorCode.none, "error_message": None},
            ],
        }
    ],
}
ASKED: dict[str, Any] = {"topic_partitions": [{"topic_id": ID, "partitions": [0, 7]}]}
LOGS: dict[str, Any] = {
    "throttle_time": 0,
    "broker_epoch": 9,
    "has_more_data": True,
    "topic_partition_log_info_list": [
        {
            "topic_id": ID,
            "partition_log_info": [
                {
                    "partition": 7,
                    "last_written_leader_epoch": 5,
                    "partition_leader_epoch": 6,
                    "log_end_offset": 256,
                    "error_code": ErrorCode.kafka_storage_error,
                }
            ],
        }
    ],
}
LENGTHS = {1: "02", 2: "03"}
"""Compact arrays have their length plus one."""

LINEAGE: dict[str, Any] = {
    "replica_id": 4,
    "topics": [
        {
            "topic": "t",
            "partitions": [
                {
                    "partition": 0,
                    "current_leader_epoch": 3,
                    "leader_epoch": 2,
                    "epoch_ends": [{"leader_epoch": 1, "end_offset": 11}, {"leader_epoch": 2, "end_offset": 21}],
                }
            ],
        }
    ],
}
END_OF_EPOCH: dict[str, Any] = {
    "topics": [
        {
            "topic": "t",
            "partitions": [{"error_code": ErrorCode.none, "partition": 0, "leader_epoch": 1, "end_offset": 21}],
        }
    ]
}

NOMINATION: dict[str, Any] = {
    "cluster_id": "c1",
    "topics": [{"topic_name": "t", "partitions": [{"partition_index": 0, "replica_id": 4, "leader_epoch": 7}]}],
}
NOTED_PARTITION = {"partition_index": 0, "error_code": ErrorCode.none, "leader_id": 1, "leader_epoch": 7}
NOTED: dict[str, Any] = {
    "error_code": ErrorCode.none,
    "topics": [{"topic_name": "t", "partitions": [NOTED_PARTITION]}],
}

CASES: dict[str, tuple[int, int, codec.Kind, dict[str, Any], str]] = {
    # case: API, version, kind, values, the bytes after the header
    "designated leaders": (
        codec.ELECT_LEADERS, 3, "request", DESIGNATED,
        f"02 {LENGTHS[1]} 04666f6f {LENGTHS[2]} 00000001 00000002 {LENGTHS[2]} 00000003 00000004 00 000003e8 00",
    ),
    "no designated leaders": (
        codec.ELECT_LEADERS, 3, "request", {**DESIGNATED, "topic_partitions": [{"topic": "f", "partitions": [1]}]},
        f"02 {LENGTHS[1]} 0266 {LENGTHS[1]} 00000001 00 00 000003e8 00",
    ),
    "all partitions": (codec.ELECT_LEADERS, 3, "request", UNCLEAN, "01 00 0000ea60 00"),
    "results of elections": (
        codec.ELECT_LEADERS, 3, "response", ELECTED,
        f"00000005 0000 {LENGTHS[1]} 04666f6f {LENGTHS[2]} 00000001 0054 036e6f 00 00000002 0000 00 00 00 00",
    ),
    "partitions asked for": (
        codec.GET_REPLICA_LOG_INFO, 0, "request", ASKED,
        f"{LENGTHS[1]} {ID.hex} {LENGTHS[2]} 00000000 00000007 00 00",
    ),
    "logs": (
        codec.GET_REPLICA_LOG_INFO, 0, "response", LOGS,
        f"00000000 0000000000000009 01 {LENGTHS[1]} {ID.hex} {LENGTHS[1]} "
        "00000007 00000006 0000000000000100 0038 00 00 00",
    ),
    "logs with the epoch of the last record": (
        codec.GET_REPLICA_LOG_INFO, 1, "response", LOGS,
        f"00000000 0000000000000009 01 {LENGTHS[1]} {ID.hex} {LENGTHS[1]} "
        "00000007 00000005 00000006 0000000000000100 0038 00 00 00",
    ),
    "a nomination": (
        codec.NOMINATE_VOTER, 0, "request", NOMINATION,
        f"036331 {LENGTHS[1]} 0274 {LENGTHS[1]} 00000000 00000004 00000007 00 00 00",
    ),
    "a nomination that is noted": (
        codec.NOMINATE_VOTER, 0, "response", NOTED,
        f"0000 {LENGTHS[1]} 0274 {LENGTHS[1]} 00000000 0000 00000001 00000007 00 00 00",
    ),
    "two epochs of a follower": (
        codec.OFFSET_FOR_LEADER_EPOCH, 4, "request", LINEAGE,
        f"00000004 {LENGTHS[1]} 0274 {LENGTHS[1]} 00000000 00000003 00000002 "
        f"01 9702 1b {LENGTHS[2]} 00000001 000000000000000b 00 00000002 0000000000000015 00 00 00",
    ),
}  # fmt: skip

OLD_CASES: dict[int, tuple[str, str]] = {
    # version: the bytes of request and response after correlation id and client
    0: ("00000001 0001 74 00000001 00000000 00000002",
        "00000001 0001 74 00000001 0000 00000000 0000000000000015"),
    1: ("00000001 0001 74 00000001 00000000 00000002",
        "00000001 0001 74 00000001 0000 00000000 00000001 0000000000000015"),
}  # fmt: skip


@pytest.mark.parametrize(("version", "request_body", "response_body"), [(v, *each) for v, each in OLD_CASES.items()])
def test_versions_that_kafka_has_removed_have_the_bytes_of_their_schemas(
    version: int, request_body: str, response_body: str
) -> None:
    request = codec.build(codec.OFFSET_FOR_LEADER_EPOCH, version, "request", LINEAGE)
    response = codec.build(codec.OFFSET_FOR_LEADER_EPOCH, version, "response", END_OF_EPOCH)
    head = f"0017 {version:04x} 00000007 0002 6d65"
    assert encoded("request", request)[4:] == bytes.fromhex(f"{head} {request_body}")
    assert encoded("response", response)[4:] == bytes.fromhex(f"00000007 {response_body}")
    assert decoded(request, "request", encoded("request", request)) == request
    assert decoded(response, "response", encoded("response", response)) == response


def test_version_4_without_epochs_of_the_follower_has_the_bytes_of_kafkas() -> None:
    (topic,) = LINEAGE["topics"]
    (partition,) = topic["partitions"]
    plain = {**LINEAGE, "topics": [{**topic, "partitions": [{**partition, "epoch_ends": []}]}]}
    body = f"00000004 {LENGTHS[1]} 0274 {LENGTHS[1]} 00000000 00000003 00000002 00 00 00"
    message = codec.build(codec.OFFSET_FOR_LEADER_EPOCH, 4, "request", plain)
    assert encoded("request", message) == framed(codec.OFFSET_FOR_LEADER_EPOCH, 4, "request", body)


def framed(api_key: int, version: int, kind: codec.Kind, body: str) -> bytes:
    head = f"{api_key:04x}{version:04x}{REQUEST_HEAD}" if kind == "request" else RESPONSE_HEAD
    payload = bytes.fromhex(f"{head} {body}")
    return len(payload).to_bytes(4, "big") + payload


def encoded(kind: codec.Kind, message: Any) -> bytes:
    return codec.encode_request(message, 7, "me") if kind == "request" else codec.encode_response(message, 7)


def decoded(message: Any, kind: codec.Kind, frame: bytes) -> Any:
    if kind == "request":
        return codec.decode_request(frame[4:]).request
    return codec.decode_response(type(message), frame[4:])[1]


@pytest.mark.parametrize(("api_key", "version", "kind", "values", "body"), CASES.values(), ids=CASES)
def test_message_has_the_bytes_of_its_schema(
    api_key: int, version: int, kind: codec.Kind, values: dict[str, Any], body: str
) -> None:
    message = codec.build(api_key, version, kind, values)
    assert encoded(kind, message).hex() == framed(api_key, version, kind, body).hex()
    assert decoded(message, kind, encoded(kind, message)) == message


I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TOPICS = st.text(max_size=20)
MILLISECONDS = st.integers(0, 2**31 - 1)
ERRORS = st.sampled_from(ErrorCode)
DESIGNATIONS = st.lists(I32, max_size=5).flatmap(
    lambda partitions: st.fixed_dictionaries(
        {
            "topic": TOPICS,
            "partitions": st.just(partitions),
            "designated_leaders": st.none() | st.lists(I32, min_size=len(partitions), max_size=len(partitions)),
        }
    )
)
ELECTIONS = st.fixed_dictionaries(
    {
        "election_type": st.integers(-128, 127),
        "topic_partitions": st.none() | st.lists(DESIGNATIONS, max_size=4),
        "timeout": MILLISECONDS,
    }
)
QUESTIONS = st.fixed_dictionaries(
    {
        "topic_partitions": st.none()
        | st.lists(st.fixed_dictionaries({"topic_id": st.uuids(), "partitions": st.lists(I32, max_size=5)}), max_size=4)
    }
)
REPLICAS = st.fixed_dictionaries(
    {
        "partition": I32,
        "last_written_leader_epoch": I32,
        "partition_leader_epoch": I32,
        "log_end_offset": I64,
        "error_code": ERRORS,
    }
)
ANSWERS = st.fixed_dictionaries(
    {
        "throttle_time": MILLISECONDS,
        "broker_epoch": I64,
        "has_more_data": st.booleans(),
        "topic_partition_log_info_list": st.lists(
            st.fixed_dictionaries({"topic_id": st.uuids(), "partition_log_info": st.lists(REPLICAS, max_size=5)}),
            max_size=4,
        ),
    }
)
MESSAGES = (
    st.tuples(st.just(codec.ELECT_LEADERS), st.just(3), st.just("request"), ELECTIONS)
    | st.tuples(st.just(codec.GET_REPLICA_LOG_INFO), st.sampled_from([0, 1]), st.just("request"), QUESTIONS)
    | st.tuples(st.just(codec.GET_REPLICA_LOG_INFO), st.sampled_from([0, 1]), st.just("response"), ANSWERS)
)


@given(MESSAGES)
def test_every_message_is_decoded_to_what_was_encoded(described: tuple[int, int, codec.Kind, dict[str, Any]]) -> None:
    api_key, version, kind, values = described
    message = codec.build(api_key, version, kind, values)
    assert decoded(message, kind, encoded(kind, message)) == message


def test_only_version_1_has_the_epoch_of_the_last_record() -> None:
    logs = [codec.build(codec.GET_REPLICA_LOG_INFO, version, "response", LOGS) for version in (0, 1)]
    fields = [as_json(each)["topic_partition_log_info_list"][0]["partition_log_info"][0] for each in logs]
    assert "last_written_leader_epoch" not in fields[0]
    assert fields[1]["last_written_leader_epoch"] == 5


def test_codec_lists_them_beside_those_of_releases() -> None:
    assert codec.versions(codec.ELECT_LEADERS) == range(4)
    assert codec.versions(codec.GET_REPLICA_LOG_INFO) == range(2)
    assert codec.versions(codec.OFFSET_FOR_LEADER_EPOCH) == range(5)
    assert codec.api_names()[codec.GET_REPLICA_LOG_INFO] == "get_replica_log_info"
    assert codec.api_names()[codec.ELECT_LEADERS] == "elect_leaders"


@pytest.mark.parametrize("api", [93, "GetReplicaLogInfo", "get_replica_log_info"])
def test_requests_are_built_from_names_and_json(api: int | str) -> None:
    assert api_key_of(api) == codec.GET_REPLICA_LOG_INFO
    values = {"topic_partitions": [{"topic_id": str(ID), "partitions": [0, 7]}]}
    assert request_of(api, 0, values) == codec.build(codec.GET_REPLICA_LOG_INFO, 0, "request", ASKED)


def test_designated_leaders_of_an_earlier_version_are_refused() -> None:
    with pytest.raises(BadInput, match="designated_leaders: expected one of the fields topic, partitions"):
        request_of("ElectLeaders", 2, DESIGNATED)
    with pytest.raises(BadInput, match="version: expected 0 to 3 of elect_leaders, found 4"):
        request_of("ElectLeaders", 4, DESIGNATED)


@pytest.mark.parametrize(
    ("ranges", "has_it"),
    [
        ({43: range(4), 93: range(1)}, True),
        ({43: range(3), 93: range(1)}, False),
        ({43: range(4)}, False),
        ({93: range(1)}, False),
    ],
    ids=["both", "Kafka 4.4's API 93", "no API 93", "no ElectLeaders"],
)
def test_api_93_is_replica_log_info_only_beside_designated_leaders(ranges: dict[int, range], has_it: bool) -> None:
    assert unreleased.has_replica_log_info(ranges) is has_it
