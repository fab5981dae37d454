"""What a broker answers from the metadata: the brokers, the topics, and their configs.

Contains pure functions from a request and an image to the values of the response. A broker's metadata may be older than
the controller's (KIP-631).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.settings import ELECTIONS_MAX
from nodes.reference.core.partitions.messages import TopicPartition
from nodes.reference.core.records.entities import NO_ID, NO_LEADER
from nodes.reference.core.records.image import Broker, Image, Partition, ResourceType, Topic

Values = dict[str, Any]

DESCRIBED_MAX = 2000
"""How many partitions a response to DescribeTopicPartitions describes at most: max.request.partition.size.limit."""

_BROKERS = 1
_UNKNOWN_OPERATIONS = -(1 << 31)
_OF_TOPIC, _OF_BROKER, _OF_CLUSTER, _DEFAULT = 1, 2, 3, 5
_STRING = 2


def metadata(request: Any, image: Image, me: int, listener: str, cluster_id: str) -> Values:
    """The response to Metadata, with the brokers' addresses on this listener.

    With KRaft the controller that it names is any broker, since brokers forward requests: here the broker itself.
    """
    live = _live(image, listener)
    return {
        "throttle_time": 0,
        "brokers": [_broker(node, live) | {"node_id": node} for node in live],
        "cluster_id": cluster_id,
        "controller_id": me if me in live else -1,
        "topics": [_topic(name, topic_id, image, live) for name, topic_id in _asked(request, image)],
        "error_code": ErrorCode.none,
    }


def describe_cluster(request: Any, image: Image, me: int, listener: str, cluster_id: str) -> Values:
    """The response to DescribeCluster."""
    live = _live(image, listener)
    shown = _live(image, listener, with_fenced=True) if getattr(request, "include_fenced_brokers", False) else live
    is_of_brokers = getattr(request, "endpoint_type", _BROKERS) == _BROKERS
    mismatch = "This endpoint does not have the requested type: it is a broker."
    return {
        "throttle_time": 0,
        "error_code": ErrorCode.none if is_of_brokers else ErrorCode.mismatched_endpoint_type,
        "error_message": None if is_of_brokers else mismatch,
        "endpoint_type": _BROKERS,
        "cluster_id": cluster_id,
        "controller_id": me if me in live else -1,
        "brokers": [_broker(node, shown) | {"broker_id": node, "is_fenced": node not in live} for node in shown],
    }


LogEnd = tuple[int, int, int]
"""What a broker knows of its replica: the partition's leader epoch, the log's end, the epoch of its last record."""


def replica_logs(request: Any, image: Image, broker_epoch: int, log_ends: Mapping[TopicPartition, LogEnd]) -> Values:
    """The response to GetReplicaLogInfo (KAFKA-20098): the logs of the first 1,000 partitions that are named."""
    named = [(topic.topic_id, index) for topic in request.topic_partitions or () for index in topic.partitions]
    served = named[:ELECTIONS_MAX]
    return {
        "throttle_time": 0,
        "broker_epoch": broker_epoch,
        "has_more_data": len(named) > len(served),
        "topic_partition_log_info_list": [
            {
                "topic_id": topic_id,
                "partition_log_info": [_log_info(topic_id, index, image, log_ends) for _, index in each_of],
            }
            for topic_id, each_of in groupby(served, key=itemgetter(0))
        ],
    }


def _log_info(
    topic_id: uuid.UUID | None, index: int, image: Image, log_ends: Mapping[TopicPartition, LogEnd]
) -> Values:
    topic = image.topic(topic_id or NO_ID)
    found = log_ends.get(TopicPartition(topic.name, index)) if topic else None
    missing = ErrorCode.unknown_topic_or_partition if topic else ErrorCode.unknown_topic_id
    epoch, end_offset, last_epoch = found or (-1, -1, -1)
    return {
        "partition": index,
        "partition_leader_epoch": epoch,
        "last_written_leader_epoch": last_epoch,
        "log_end_offset": end_offset,
        "error_code": ErrorCode.none if found else missing,
    }


def topic_partitions(request: Any, image: Image) -> Values:
    """The response to DescribeTopicPartitions (KIP-966): up to the limit, beginning with the cursor."""
    names = sorted({str(each.name) for each in request.topics} or image.topics)
    first = (str(request.cursor.topic_name), request.cursor.partition_index) if request.cursor else ("", 0)
    topics: dict[str, Values] = {}
    left, live = min(max(request.response_partition_limit, 1), DESCRIBED_MAX), _active(image)
    for name in (name for name in names if name >= first[0]):
        topic = image.topics.get(name)
        topics[name] = _topic(name, topic.topic_id if topic else NO_ID, image, live) | {"partitions": []}
        for index, partition in sorted(topic.partitions.items()) if topic else ():
            if (name, index) < first:
                continue
            if not left:
                return _page(topics, {"topic_name": name, "partition_index": index})
            left -= 1
            topics[name]["partitions"].append(_partition(partition, image.brokers, live) | _eligible(partition))
    return _page(topics, None)


def _page(topics: Mapping[str, Values], cursor: Values | None) -> Values:
    return {"throttle_time": 0, "topics": list(topics.values()), "next_cursor": cursor}


def _eligible(partition: Partition) -> Values:
    return {"eligible_leader_replicas": partition.elr, "last_known_elr": partition.last_known_elr}


def log_dirs(
    request: Any, directory: Path, volume_bytes: tuple[int, int], log_sizes: Mapping[TopicPartition, tuple[int, int]]
) -> Values:
    """The response to DescribeLogDirs: a broker has one directory.

    volume_bytes: in all, and free; log_sizes: the bytes of each log, and its records that may be lost.
    """
    asked = (
        None
        if request.topics is None
        else {TopicPartition(str(each.topic), index) for each in request.topics for index in each.partitions}
    )
    shown = sorted(item for item in log_sizes.items() if asked is None or item[0] in asked)
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": index, "partition_size": size, "offset_lag": lag, "is_future_key": False}
                for (_, index), (size, lag) in each_of
            ],
        }
        for topic, each_of in groupby(shown, key=lambda item: item[0].topic)
    ]
    result = {
        "error_code": ErrorCode.none,
        "log_dir": str(directory),
        "topics": topics,
        "total_bytes": volume_bytes[0],
        "usable_bytes": volume_bytes[1],
    }
    return {"throttle_time": 0, "error_code": ErrorCode.none, "results": [result]}


def describe_configs(request: Any, image: Image, defaults: Mapping[str, str]) -> Values:
    """The response to DescribeConfigs of topics and brokers."""
    return {"throttle_time": 0, "results": [_described(each, image, defaults) for each in request.resources]}


def _live(image: Image, listener: str, with_fenced: bool = False) -> dict[int, tuple[str, int, str | None]]:
    """The brokers that are not fenced, or all that are registered, with host, port and rack on the listener."""
    return {
        node: (endpoint.host, endpoint.port, broker.rack)
        for node, broker in sorted(image.brokers.items())
        if with_fenced or not broker.is_fenced
        for endpoint in broker.endpoints
        if endpoint.name == listener
    }


def _active(image: Image) -> frozenset[int]:
    """The brokers that are not fenced."""
    return frozenset(node for node, broker in image.brokers.items() if not broker.is_fenced)


def _broker(node: int, live: Mapping[int, tuple[str, int, str | None]]) -> Values:
    host, port, rack = live[node]
    return {"host": host, "port": port, "rack": rack}


def _asked(request: Any, image: Image) -> Iterable[tuple[str | None, uuid.UUID]]:
    """Name and id of each topic that is asked for; one of them for a topic that does not exist."""
    if request.topics is None or (not request.topics and request.__version__ == 0):
        yield from ((name, topic.topic_id) for name, topic in sorted(image.topics.items()))
        return
    for asked in request.topics:
        if asked.name is not None:
            yield str(asked.name), image.topics[asked.name].topic_id if asked.name in image.topics else NO_ID
        else:
            topic = image.topic(asked.topic_id)
            yield (topic.name if topic else None), asked.topic_id


def _topic(name: str | None, topic_id: uuid.UUID, image: Image, live: Collection[int]) -> Values:
    topic = image.topics.get(name or "")
    missing = ErrorCode.unknown_topic_id if name is None else ErrorCode.unknown_topic_or_partition
    return {
        "error_code": ErrorCode.none if topic else missing,
        "name": name,
        "topic_id": None if topic_id == NO_ID else topic_id,
        "is_internal": (name or "").startswith("__"),
        "partitions": _partitions(topic, image, live) if topic else [],
        "topic_authorized_operations": _UNKNOWN_OPERATIONS,
    }


def _partitions(topic: Topic, image: Image, live: Collection[int]) -> list[Values]:
    return [_partition(each, image.brokers, live) for each in topic.partitions.values()]


def _partition(partition: Partition, brokers: Mapping[int, Broker], live: Collection[int]) -> Values:
    has_leader = partition.leader in live
    return {
        "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        "partition_index": partition.index,
        "leader_id": partition.leader if has_leader else NO_LEADER,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": [node for node in partition.replicas if node not in brokers or brokers[node].is_fenced],
    }


def _described(resource: Any, image: Image, defaults: Mapping[str, str]) -> Values:
    """The configs of one resource, its own before the cluster's before the defaults."""
    values: Values = {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "error_message": None,
    }
    if resource.resource_type == ResourceType.TOPIC and resource.resource_name not in image.topics:
        return values | {"error_code": ErrorCode.unknown_topic_or_partition, "configs": []}
    if resource.resource_type not in (ResourceType.TOPIC, ResourceType.BROKER):
        return values | {"error_code": ErrorCode.invalid_request, "configs": []}
    of_resource = _OF_TOPIC if resource.resource_type == ResourceType.TOPIC else _OF_BROKER
    found = {name: (value, _DEFAULT) for name, value in defaults.items()}
    for source, key in (
        (_OF_CLUSTER, (ResourceType.BROKER, "")),
        (of_resource, (resource.resource_type, resource.resource_name)),
    ):
        found |= {name: (value, source) for name, value in image.configs.get(key, {}).items()}
    keys = resource.configuration_keys
    configs = [_config(name, *found[name]) for name in sorted(found) if keys is None or name in keys]
    return values | {"error_code": ErrorCode.none, "configs": configs}


def _config(name: str, value: str, source: int) -> Values:
    return {
        "name": name,
        "value": value,
        "read_only": False,
        "is_default": source == _DEFAULT,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": _STRING,
        "documentation": None,
    }
