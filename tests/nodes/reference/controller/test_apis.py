"""The controller's messages survive the wire in every version that has what they say."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference import controller_apis
from nodes.reference.core.controller import messages
from nodes.reference.core.controller.changes import Election
from nodes.reference.core.records.entities import BrokerEndpoint, BrokerFeature
from nodes.reference.core.records.image import Image, Partition, Topic
from nodes.wire import codec

ID, OTHER = uuid.UUID(int=5), uuid.UUID(int=6)
ENDPOINT = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)
FEATURE = BrokerFeature(name="f", min_supported_version=0, max_supported_version=2)
ISR = ((1, 10), (2, -1))

OF_BROKERS: tuple[tuple[messages.ControllerRequest, messages.ControllerResponse, int], ...] = (
    (
        messages.RegisterBroker(1, "c", ID, (ENDPOINT,), (FEATURE,), "r", (OTHER,), 7),
        messages.RegisterBrokerResponse(ErrorCode.none, 9),
        3,
    ),
    (messages.Heartbeat(1, 9, 5, True, True), messages.HeartbeatResponse(ErrorCode.none, True, False, True), 0),
    (
        messages.AlterPartition(
            1, 9, (messages.IsrChange(ID, 0, 3, 4, ISR, False), messages.IsrChange(OTHER, 1, 3, 4, ISR))
        ),
        messages.AlterPartitionResponse(
            ErrorCode.none,
            (
                messages.PartitionResult(ID, 0, ErrorCode.none, 1, 3, 5, (1, 2), True),
                messages.PartitionResult(OTHER, 1, ErrorCode.fenced_leader_epoch),
            ),
        ),
        3,
    ),
    (messages.AllocateProducerIds(1, 9), messages.AllocateProducerIdsResponse(ErrorCode.none, 1000, 500), 0),
)
"""What brokers send: request, response, and the first version that has all of it."""


def over_the_wire(message: Any, kind: codec.Kind) -> Any:
    """The message as its receiver decodes it."""
    if kind == "request":
        return codec.decode_request(codec.encode_request(message, 1, "test")[4:]).request
    return codec.decode_response(type(message), codec.encode_response(message, 1)[4:])[1]


@pytest.mark.parametrize(("request_", "response", "first"), OF_BROKERS, ids=lambda value: type(value).__name__)
def test_what_a_broker_sends_arrives(
    request_: messages.ControllerRequest, response: messages.ControllerResponse, first: int
) -> None:
    api_key, values = controller_apis.broker_request(request_)
    for version in (each for each in controller_apis.SERVED[api_key] if each >= first):
        sent = over_the_wire(codec.build(api_key, version, "request", values), "request")
        assert controller_apis.incoming(api_key, sent) == request_
        answer = codec.build(api_key, version, "response", controller_apis.outgoing(request_, response))
        assert controller_apis.broker_response(over_the_wire(answer, "response")) == response


@pytest.mark.parametrize("request_", [each for each, _, _ in OF_BROKERS], ids=lambda value: type(value).__name__)
def test_a_broker_learns_that_it_asked_the_wrong_node(request_: messages.ControllerRequest) -> None:
    api_key, _ = controller_apis.broker_request(request_)
    values = controller_apis.outgoing(request_, messages.NotController())
    answer = over_the_wire(codec.build(api_key, controller_apis.SERVED[api_key][-1], "response", values), "response")
    assert controller_apis.broker_response(answer) == messages.NotController()


CREATE = {
    "topics": [
        {
            "name": "t",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}],
            "configs": [{"name": "min.insync.replicas", "value": "2"}],
        }
    ],
    "timeout": 1000,
    "validate_only": True,
}
NAMED = [{"topic": "t", "partitions": (0, 1)}, {"topic": "u", "partitions": (0,)}]
OF_CLIENTS: tuple[tuple[int, dict[str, Any], messages.ControllerRequest], ...] = (
    (
        codec.CREATE_TOPICS,
        CREATE,
        messages.CreateTopics((messages.NewTopic("t", -1, -1, {0: (1, 2)}, {"min.insync.replicas": "2"}),), True),
    ),
    (
        codec.DELETE_TOPICS,
        {"topics": [{"name": "t", "topic_id": None}], "topic_names": ("t",), "timeout": 1000},
        messages.DeleteTopics(("t",)),
    ),
    (
        codec.CREATE_PARTITIONS,
        {
            "topics": [
                {"name": "t", "count": 3, "assignments": [{"broker_ids": (1, 2)}]},
                {"name": "u", "count": 2, "assignments": None},
            ],
            "timeout": 1000,
            "validate_only": True,
        },
        messages.CreatePartitions((messages.MorePartitions("t", 3, ((1, 2),)), messages.MorePartitions("u", 2)), True),
    ),
    (
        codec.ALTER_PARTITION_REASSIGNMENTS,
        {
            "timeout": 1000,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": 0, "replicas": (1, 2)},
                        {"partition_index": 1, "replicas": None},
                    ],
                }
            ],
        },
        messages.Reassign({("t", 0): (1, 2), ("t", 1): None}),
    ),
    (codec.UNREGISTER_BROKER, {"broker_id": 3}, messages.UnregisterBroker(3)),
)


@pytest.mark.parametrize(("api_key", "values", "expected"), OF_CLIENTS, ids=lambda value: type(value).__name__)
def test_what_a_client_asks_arrives(api_key: int, values: dict[str, Any], expected: messages.ControllerRequest) -> None:
    for version in controller_apis.SERVED[api_key]:
        asked = over_the_wire(codec.build(api_key, version, "request", values), "request")
        assert controller_apis.incoming(api_key, asked) == expected
        response = controller_apis.outgoing(expected, messages.NotController())
        answer = over_the_wire(codec.build(api_key, version, "response", response), "response")
        assert "not_controller" in repr(answer)


@pytest.mark.parametrize(
    ("election_type", "partitions", "expected"),
    [
        (0, NAMED, messages.ElectLeaders(Election.PREFERRED, [("t", 0), ("t", 1), ("u", 0)])),
        (1, None, messages.ElectLeaders(Election.UNCLEAN, None)),
        (9, NAMED, None),
    ],
    ids=["preferred", "all", "unknown"],
)
def test_elections_arrive(election_type: int, partitions: Any, expected: messages.ElectLeaders | None) -> None:
    values = {"election_type": election_type, "topic_partitions": partitions, "timeout": 1000}
    for version in (1, 2):
        asked = over_the_wire(codec.build(codec.ELECT_LEADERS, version, "request", values), "request")
        assert controller_apis.incoming(codec.ELECT_LEADERS, asked) == expected


def test_election_results_are_grouped_by_topic() -> None:
    outcomes = [
        messages.ElectionResult("t", 0, ErrorCode.none),
        messages.ElectionResult("t", 1, ErrorCode.election_not_needed, "why"),
        messages.ElectionResult("u", 0, ErrorCode.none),
    ]
    request = messages.ElectLeaders(Election.PREFERRED, None)
    values = controller_apis.outgoing(request, messages.ElectLeadersResponse(ErrorCode.none, tuple(outcomes)))
    answer = over_the_wire(codec.build(codec.ELECT_LEADERS, 2, "response", values), "response")
    assert [
        (topic.topic, each.partition_id, each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ] == [(each.topic, each.index, each.error, each.reason) for each in outcomes]


@pytest.mark.parametrize(("topics", "found"), [(None, [0, 1]), ([{"name": "t", "partition_indexes": (1, 2)}], [1])])
def test_reassignments_under_way_are_listed(topics: Any, found: list[int]) -> None:
    moving = {index: Partition(ID, "t", index, (2, 1), (1,), 1, adding=(2,), removing=(1,)) for index in (0, 1)}
    image = Image(topics={"t": Topic(ID, "t", moving | {2: Partition(ID, "t", 2, (1,), (1,), 1)})})
    api_key = codec.LIST_PARTITION_REASSIGNMENTS
    request = over_the_wire(codec.build(api_key, 0, "request", {"timeout": 1000, "topics": topics}), "request")
    values = controller_apis.reassignments(request, image)
    answer = over_the_wire(codec.build(api_key, 0, "response", values), "response")
    listed = [each for topic in answer.topics for each in topic.partitions]
    assert [each.partition_index for each in listed] == found
    assert {(each.replicas, each.adding_replicas, each.removing_replicas) for each in listed} == {((2, 1), (2,), (1,))}
