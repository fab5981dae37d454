"""The controller's APIs on the wire: which versions a node serves, requests to the core's messages, and responses back.

Contains pure functions between kio's entities and nodes.reference.core.controller.messages, for both sides: brokers
call some of these APIs themselves. `build` of nodes.wire.codec selects the values of a version.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference import acl_apis
from nodes.reference.core.controller import messages
from nodes.reference.core.controller.changes import Election
from nodes.reference.core.records.entities import NO_ID, BrokerEndpoint, BrokerFeature
from nodes.reference.core.records.image import Image, Partition
from nodes.wire import codec

Values = dict[str, Any]

SERVED: Mapping[int, range] = {
    codec.CREATE_TOPICS: range(2, 8),
    codec.DELETE_TOPICS: range(1, 7),
    codec.CREATE_PARTITIONS: range(4),
    codec.ELECT_LEADERS: range(4),
    codec.ALTER_PARTITION_REASSIGNMENTS: range(1),
    codec.LIST_PARTITION_REASSIGNMENTS: range(1),
    codec.ALTER_PARTITION: range(2, 4),
    codec.BROKER_REGISTRATION: range(5),
    codec.BROKER_HEARTBEAT: range(2),
    codec.UNREGISTER_BROKER: range(1),
    codec.CREATE_ACLS: range(1, 4),
    codec.DELETE_ACLS: range(1, 4),
    codec.ALLOCATE_PRODUCER_IDS: range(1),
}
"""The supported versions by API key."""

OF_CLIENTS = (
    codec.CREATE_TOPICS,
    codec.DELETE_TOPICS,
    codec.CREATE_PARTITIONS,
    codec.ELECT_LEADERS,
    codec.ALTER_PARTITION_REASSIGNMENTS,
    codec.LIST_PARTITION_REASSIGNMENTS,
    codec.UNREGISTER_BROKER,
    codec.CREATE_ACLS,
    codec.DELETE_ACLS,
)
"""The APIs that clients call; brokers forward them."""

ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN, 2: Election.DESIGNATED}
"""The election types of ElectLeaders; the last is KAFKA-20098's."""

_OF_TOPIC = 1
"""The source of a config that is the topic's own."""

NO_MESSAGE = "The active controller has changed."


def incoming(api_key: int, request: Any) -> messages.ControllerRequest | None:
    """The core's message for a request; None if the request contradicts itself, which is INVALID_REQUEST."""
    match api_key:
        case codec.CREATE_TOPICS:
            return messages.CreateTopics(tuple(map(_new_topic, request.topics)), request.validate_only)
        case codec.DELETE_TOPICS:
            return messages.DeleteTopics(tuple(_topics_to_delete(request)))
        case codec.CREATE_PARTITIONS:
            return messages.CreatePartitions(tuple(map(_more_partitions, request.topics)), request.validate_only)
        case codec.ELECT_LEADERS:
            return _elections(request)
        case codec.ALTER_PARTITION_REASSIGNMENTS:
            targets = {
                (topic.name, each.partition_index): None if each.replicas is None else tuple(each.replicas)
                for topic in request.topics
                for each in topic.partitions
            }
            return messages.Reassign(targets)
        case codec.ALTER_PARTITION:
            changes = tuple(_isr_change(topic.topic_id, each) for topic in request.topics for each in topic.partitions)
            return messages.AlterPartition(request.broker_id, request.broker_epoch, changes)
        case codec.BROKER_REGISTRATION:
            return _registration(request)
        case codec.BROKER_HEARTBEAT:
            wanted = request.want_fence, request.want_shut_down
            offset = request.current_metadata_offset
            return messages.Heartbeat(request.broker_id, request.broker_epoch, offset, *wanted)
        case codec.UNREGISTER_BROKER:
            return messages.UnregisterBroker(request.broker_id)
        case codec.CREATE_ACLS | codec.DELETE_ACLS:
            return acl_apis.incoming(request)
        case codec.ALLOCATE_PRODUCER_IDS:
            return messages.AllocateProducerIds(request.broker_id, request.broker_epoch)
    raise AssertionError(f"API {api_key} is not one of the controller's")


def outgoing(request: messages.ControllerRequest, response: messages.ControllerResponse) -> Values:
    """The values of the response to a request, for all versions."""
    match response:
        case messages.NotController():
            return refused(request, ErrorCode.not_controller, NO_MESSAGE)
        case messages.TopicsResponse(results):
            topics = list(map(_topic_result, results))
            return _unthrottled(topics=topics, responses=topics, results=topics)
        case messages.ElectLeadersResponse(error, results):
            return _election_results(error, results)
        case messages.ReassignResponse(results):
            topics = [
                {"name": topic, "partitions": [_outcome(each, "partition_index") for each in each_of]}
                for topic, each_of in groupby(results, attrgetter("topic"))
            ]
            return _unthrottled(error_code=ErrorCode.none, error_message=None, responses=topics)
        case messages.AlterPartitionResponse(error, results):
            return _unthrottled(error_code=error, topics=_altered(results))
        case messages.RegisterBrokerResponse(error, broker_epoch):
            return _unthrottled(error_code=error, broker_epoch=broker_epoch)
        case messages.HeartbeatResponse():
            return _unthrottled(
                error_code=response.error,
                is_caught_up=response.is_caught_up,
                is_fenced=response.is_fenced,
                should_shut_down=response.should_shut_down,
            )
        case messages.AllocateProducerIdsResponse(error, first, count):
            return _unthrottled(error_code=error, producer_id_start=first, producer_id_len=count)
        case messages.UnregisterBrokerResponse(error, reason):
            return _unthrottled(error_code=error, error_message=reason)
        case messages.AclsResponse(results):
            return acl_apis.outgoing(results)
        case messages.AlterConfigsResponse(results):
            return _unthrottled(
                responses=[
                    {
                        "error_code": each.error,
                        "error_message": each.reason,
                        "resource_type": each.resource_type,
                        "resource_name": each.resource,
                    }
                    for each in results
                ]
            )


def refused(request: messages.ControllerRequest, error: ErrorCode, reason: str) -> Values:
    """The values of a response in which all of the request failed with one error."""
    return outgoing(request, _failed(request, error, reason))


_ERROR_ALONE: Mapping[type, Callable[[ErrorCode], messages.ControllerResponse]] = {
    messages.ElectLeaders: messages.ElectLeadersResponse,
    messages.AlterPartition: messages.AlterPartitionResponse,
    messages.RegisterBroker: messages.RegisterBrokerResponse,
    messages.Heartbeat: messages.HeartbeatResponse,
    messages.AllocateProducerIds: messages.AllocateProducerIdsResponse,
}
"""The responses that have one error and no reason."""


def _failed(request: messages.ControllerRequest, error: ErrorCode, reason: str) -> messages.ControllerResponse:
    if type(request) in _ERROR_ALONE:
        return _ERROR_ALONE[type(request)](error)
    match request:
        case messages.CreateTopics(topics):
            return messages.TopicsResponse(tuple(messages.TopicResult(each.name, error, reason) for each in topics))
        case messages.DeleteTopics(names):
            return messages.TopicsResponse(tuple(messages.TopicResult(name, error, reason) for name in names))
        case messages.CreatePartitions(topics):
            return messages.TopicsResponse(tuple(messages.TopicResult(each.topic, error, reason) for each in topics))
        case messages.Reassign(targets):
            return messages.ReassignResponse(tuple(messages.ElectionResult(*where, error, reason) for where in targets))
        case messages.AlterConfigs(changes):
            resources = dict.fromkeys((each.resource_type, each.resource) for each in changes)
            results = (messages.ResourceResult(*resource, error, reason) for resource in resources)
            return messages.AlterConfigsResponse(tuple(results))
        case messages.UnregisterBroker():
            return messages.UnregisterBrokerResponse(error, reason)
        case messages.CreateAcls(wanted) | messages.DeleteAcls(wanted):
            return messages.AclsResponse(tuple(messages.AclResult(error, reason) for _ in wanted))
    raise AssertionError(f"{type(request).__name__} has no response for an error")


def broker_request(request: messages.ControllerRequest) -> tuple[int, Values]:
    """The API key and values of a request that a broker sends to the controller."""
    match request:
        case messages.RegisterBroker():
            return codec.BROKER_REGISTRATION, _registration_values(request)
        case messages.Heartbeat():
            return codec.BROKER_HEARTBEAT, {
                "broker_id": request.broker_id,
                "broker_epoch": request.broker_epoch,
                "current_metadata_offset": request.metadata_offset,
                "want_fence": request.wants_fence,
                "want_shut_down": request.wants_shutdown,
                "offline_log_dirs": (),
            }
        case messages.AlterPartition():
            return codec.ALTER_PARTITION, _alter_partition_values(request)
        case messages.AllocateProducerIds():
            return codec.ALLOCATE_PRODUCER_IDS, {
                "broker_id": request.broker_id,
                "broker_epoch": request.broker_epoch,
            }
    raise AssertionError(f"{type(request).__name__} is not sent by brokers")


def broker_response(response: Any) -> messages.ControllerResponse:
    """The core's message for the controller's response to a broker."""
    error = response.error_code
    if error is ErrorCode.not_controller:
        return messages.NotController()
    match response.__api_key__:
        case codec.BROKER_REGISTRATION:
            return messages.RegisterBrokerResponse(error, response.broker_epoch)
        case codec.BROKER_HEARTBEAT:
            states = response.is_caught_up, response.is_fenced, response.should_shut_down
            return messages.HeartbeatResponse(error, *states)
        case codec.ALTER_PARTITION:
            results = (
                _partition_result(topic.topic_id, each) for topic in response.topics for each in topic.partitions
            )
            return messages.AlterPartitionResponse(error, tuple(results))
        case codec.ALLOCATE_PRODUCER_IDS:
            return messages.AllocateProducerIdsResponse(error, response.producer_id_start, response.producer_id_len)
    raise AssertionError(f"API {response.__api_key__} is not called by brokers")


def reassignments(request: Any, image: Image) -> Values:
    """The response to ListPartitionReassignments, from a node's metadata."""
    asked = (
        None if request.topics is None else {(each.name, i) for each in request.topics for i in each.partition_indexes}
    )
    ongoing = [
        each
        for each in image.partitions()
        if each.is_reassigning and (asked is None or (each.topic, each.index) in asked)
    ]
    topics = [
        {"name": topic, "partitions": list(map(_ongoing, each_of))}
        for topic, each_of in groupby(ongoing, attrgetter("topic"))
    ]
    return _unthrottled(error_code=ErrorCode.none, error_message=None, topics=topics)


def is_not_controller(response: Any) -> bool:
    """Whether a node refused a request because it is not the active controller, nor the quorum's leader."""
    return any(error in (ErrorCode.not_controller, ErrorCode.not_leader_or_follower) for error in _errors(response))


def _errors(entity: Any) -> Iterator[ErrorCode]:
    """The error codes in a response, at any depth."""
    for field in fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, ErrorCode):
            yield value
        elif isinstance(value, tuple):
            yield from (error for each in value if is_dataclass(each) for error in _errors(each))


def _unthrottled(**values: Any) -> Values:
    return {"throttle_time": 0, **values}


def _new_topic(topic: Any) -> messages.NewTopic:
    assignments = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
    configs = {each.name: each.value for each in topic.configs}
    return messages.NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments or None, configs)


def _more_partitions(topic: Any) -> messages.MorePartitions:
    given = topic.assignments
    assignments = None if given is None else tuple(tuple(each.broker_ids) for each in given)
    return messages.MorePartitions(topic.name, topic.count, assignments)


def _topics_to_delete(request: Any) -> Iterable[str]:
    """The names of the topics; an id is passed on as its text, which no topic has as its name."""
    named: Iterable[Any] = getattr(request, "topics", ()) or getattr(request, "topic_names", ())
    for topic in named:
        name = topic if isinstance(topic, str) else topic.name
        yield str(topic.topic_id) if name is None else str(name)


def _elections(request: Any) -> messages.ElectLeaders | None:
    election = ELECTIONS.get(getattr(request, "election_type", 0))
    if election is None:
        return None
    if request.topic_partitions is None:
        return messages.ElectLeaders(election, None)
    partitions: list[messages.TopicPartition] = []
    designated: dict[messages.TopicPartition, int] = {}
    for topic in request.topic_partitions:
        leaders: Sequence[int] | None = getattr(topic, "designated_leaders", None)
        if leaders is not None and len(leaders) != len(topic.partitions):
            return None
        named = [(topic.topic, index) for index in topic.partitions]
        partitions += named
        designated |= dict(zip(named, leaders or (), strict=False))
    has_all = designated.keys() == set(partitions)
    if (election is Election.DESIGNATED) != bool(designated) or (designated and not has_all):
        return None
    return messages.ElectLeaders(election, partitions, designated or None)


def _isr_change(topic_id: uuid.UUID | None, partition: Any) -> messages.IsrChange:
    if hasattr(partition, "new_isr_with_epochs"):
        isr = tuple((each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs)
    else:
        isr = tuple((node, -1) for node in partition.new_isr)
    return messages.IsrChange(
        topic_id or NO_ID,
        partition.partition_index,
        partition.leader_epoch,
        partition.partition_epoch,
        isr,
        partition.leader_recovery_state == 0,
    )


def _registration(request: Any) -> messages.RegisterBroker:
    endpoints = tuple(
        BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in request.listeners
    )
    features = tuple(
        BrokerFeature(
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in request.features
    )
    return messages.RegisterBroker(
        request.broker_id,
        request.cluster_id,
        request.incarnation_id or NO_ID,
        endpoints,
        features,
        request.rack,
        tuple(each or NO_ID for each in getattr(request, "log_dirs", ())),
        getattr(request, "previous_broker_epoch", -1),
    )


def _registration_values(request: messages.RegisterBroker) -> Values:
    return {
        "broker_id": request.broker_id,
        "cluster_id": request.cluster_id,
        "incarnation_id": request.incarnation,
        "listeners": [
            {
                "name": each.name,
                "host": each.host,
                "port": each.port,
                "security_protocol": each.security_protocol,
            }
            for each in request.endpoints
        ],
        "features": [
            {
                "name": each.name,
                "min_supported_version": each.min_supported_version,
                "max_supported_version": each.max_supported_version,
            }
            for each in request.features
        ],
        "rack": request.rack,
        "is_migrating_zk_broker": False,
        "log_dirs": request.directories,
        "previous_broker_epoch": request.previous_epoch,
    }


def _alter_partition_values(request: messages.AlterPartition) -> Values:
    topics = groupby(sorted(request.changes, key=attrgetter("topic_id")), attrgetter("topic_id"))
    return {
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "topics": [
            {"topic_id": topic_id, "partitions": [_change_values(each) for each in changes]}
            for topic_id, changes in topics
        ],
    }


def _change_values(change: messages.IsrChange) -> Values:
    return {
        "partition_index": change.index,
        "leader_epoch": change.leader_epoch,
        "new_isr": [node for node, _ in change.isr],
        "new_isr_with_epochs": [{"broker_id": node, "broker_epoch": epoch} for node, epoch in change.isr],
        "leader_recovery_state": 0 if change.has_recovered else 1,
        "partition_epoch": change.partition_epoch,
    }


def _partition_result(topic_id: uuid.UUID | None, partition: Any) -> messages.PartitionResult:
    return messages.PartitionResult(
        topic_id or NO_ID,
        partition.partition_index,
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(partition.isr),
        partition.leader_recovery_state == 1,
    )


def _altered(results: Sequence[messages.PartitionResult]) -> list[Values]:
    topics = groupby(sorted(results, key=attrgetter("topic_id")), attrgetter("topic_id"))
    return [
        {
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": each.index,
                    "error_code": each.error,
                    "leader_id": each.leader,
                    "leader_epoch": each.leader_epoch,
                    "isr": each.isr,
                    "leader_recovery_state": int(each.is_recovering),
                    "partition_epoch": each.partition_epoch,
                }
                for each in each_of
            ],
        }
        for topic_id, each_of in topics
    ]


def _topic_result(result: messages.TopicResult) -> Values:
    return {
        "name": result.name,
        "topic_id": None if result.topic_id == NO_ID else result.topic_id,
        "error_code": result.error,
        "error_message": result.reason,
        "topic_config_error_code": 0,
        "num_partitions": result.partitions,
        "replication_factor": result.replication_factor,
        "configs": [
            {"name": name, "value": value, "read_only": False, "config_source": _OF_TOPIC, "is_sensitive": False}
            for name, value in (result.configs or {}).items()
        ],
    }


def _election_results(error: ErrorCode, results: Iterable[messages.ElectionResult]) -> Values:
    topics = [
        {"topic": topic, "partition_result": [_outcome(each, "partition_id") for each in each_of]}
        for topic, each_of in groupby(results, attrgetter("topic"))
    ]
    return _unthrottled(error_code=error, replica_election_results=topics)


def _outcome(result: messages.ElectionResult, index_name: str) -> Values:
    return {index_name: result.index, "error_code": result.error, "error_message": result.reason}


def _ongoing(partition: Partition) -> Values:
    return {
        "partition_index": partition.index,
        "replicas": partition.replicas,
        "adding_replicas": partition.adding,
        "removing_replicas": partition.removing,
    }


INVALID_ELECTION = _election_results(ErrorCode.invalid_request, ())
"""The response to a request for elections that contradicts itself."""
