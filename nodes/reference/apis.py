"""The APIs that a node serves: their versions, and the responses to clients.

Contains pure functions from a client's request and the core's response to the values of the response on the wire.

A voter without Pre-Vote behaves as a release before KIP-996: it supports Vote up to version 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference import controller_apis, voter_apis
from nodes.reference.core.controller.messages import ConfigChange
from nodes.reference.core.messages import AlterResponse, ReadResponse
from nodes.reference.core.settings import NodeSettings, VoterChanges
from nodes.reference.translate import Endpoints, Values
from nodes.wire import codec

CLIENT_METRICS = 16
_SET, _DELETE = 0, 1
_DYNAMIC_CLIENT_METRICS_CONFIG = 7
_LIST = 7
_CONTROLLERS = 2
_DISCOVERY = {codec.DISCOVER_BROKERS: range(1)}
_OF_VOTERS: Mapping[VoterChanges, Mapping[int, range]] = {
    "none": {},
    "kip-642": {
        **_DISCOVERY,
        **dict.fromkeys((codec.ALTER_PARTITION_REASSIGNMENTS, codec.NOMINATE_VOTER), range(1)),
    },
    "kip-853": {**_DISCOVERY, **voter_apis.SERVED},
}


def served(settings: NodeSettings) -> Mapping[int, range]:
    """The supported versions by API key: a subset of those of Kafka 4.x controllers."""
    return {
        codec.FETCH: range(12, 19),
        codec.METADATA: range(14),
        codec.API_VERSIONS: range(5),
        codec.DESCRIBE_CONFIGS: range(1, 5),
        codec.INCREMENTAL_ALTER_CONFIGS: range(2),
        codec.VOTE: range(3 if settings.pre_vote else 2),
        codec.BEGIN_QUORUM_EPOCH: range(2),
        codec.END_QUORUM_EPOCH: range(2),
        codec.DESCRIBE_QUORUM: range(3),
        codec.FETCH_SNAPSHOT: range(2),
        codec.DESCRIBE_CLUSTER: range(3),
        **_OF_VOTERS[settings.voter_changes],
        **(controller_apis.SERVED if settings.controller else {}),
    }


def api_versions(ranges: Mapping[int, range], error: ErrorCode = ErrorCode.none) -> Values:
    """The response to ApiVersions."""
    keys = [{"api_key": key, "min_version": served[0], "max_version": served[-1]} for key, served in ranges.items()]
    return {
        "error_code": error,
        "api_keys": keys,
        "throttle_time": 0,
        "supported_features": [{"name": "kraft.version", "min_version": 0, "max_version": 1}],
    }


def metadata(settings: NodeSettings, voters: Sequence[int], endpoints: Endpoints, leader_id: int | None) -> Values:
    """The response to Metadata: the controllers as brokers, and no topics."""
    return {
        "throttle_time": 0,
        "brokers": [_node(node, endpoints) | {"node_id": node} for node in voters if node in endpoints],
        "cluster_id": settings.cluster_id,
        "controller_id": -1 if leader_id is None else leader_id,
        "topics": [],
        "error_code": ErrorCode.none,
    }


def describe_cluster(
    settings: NodeSettings, voters: Sequence[int], endpoints: Endpoints, leader_id: int | None, request: Any
) -> Values:
    """The response to DescribeCluster: the controllers, for clients that bootstrap from one (KIP-919); no brokers."""
    asks_controllers = getattr(request, "endpoint_type", _CONTROLLERS) == _CONTROLLERS
    known = [node for node in voters if node in endpoints]
    brokers = [_node(node, endpoints) | {"broker_id": node, "is_fenced": False} for node in known]
    mismatch = "This endpoint does not have the requested type: it is a controller."
    return {
        "throttle_time": 0,
        "error_code": ErrorCode.none if asks_controllers else ErrorCode.mismatched_endpoint_type,
        "error_message": None if asks_controllers else mismatch,
        "endpoint_type": _CONTROLLERS,
        "cluster_id": settings.cluster_id,
        "controller_id": -1 if leader_id is None else leader_id,
        "brokers": brokers if asks_controllers else [],
    }


def is_of_registers(request: Any) -> bool:
    """Whether a request for configs concerns registers; others are the controller's."""
    return any(resource.resource_type == CLIENT_METRICS for resource in request.resources)


def config_changes(request: Any) -> tuple[ConfigChange, ...]:
    """The changes of the configs of topics and brokers."""
    return tuple(
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            config.name,
            None if config.config_operation == _DELETE else config.value,
        )
        for resource in request.resources
        for config in resource.configs
    )


def alter_error(request: Any) -> AlterResponse | None:
    """The error of a write to registers that no node accepts; None for a valid write."""
    for resource in request.resources:
        if resource.resource_type != CLIENT_METRICS:
            reason = f"Only resource type {CLIENT_METRICS} (CLIENT_METRICS) is supported."
            return AlterResponse(ErrorCode.invalid_request, reason)
        if any(config.config_operation not in (_SET, _DELETE) for config in resource.configs):
            return AlterResponse(ErrorCode.invalid_config, "Only the operations SET and DELETE are supported.")
    return None


def incremental_alter_configs(request: Any, response: AlterResponse) -> Values:
    """The response to IncrementalAlterConfigs: the same for each resource, since the request is atomic."""
    results = [
        {
            "error_code": response.error,
            "error_message": response.reason,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        for resource in request.resources
    ]
    return {"throttle_time": 0, "responses": results}


def describe_configs(request: Any, response: ReadResponse) -> Values:
    """The response to DescribeConfigs; a resource that was never altered has no configs."""
    return {"throttle_time": 0, "results": [_described(resource, response) for resource in request.resources]}


def _described(resource: Any, response: ReadResponse) -> Values:
    configs = (response.values or {}).get(resource.resource_name, {})
    keys = resource.configuration_keys
    return {
        "error_code": response.error,
        "error_message": response.reason,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [_config(name, value) for name, value in sorted(configs.items()) if not keys or name in keys],
    }


def _config(name: str, value: str) -> Values:
    return {
        "name": name,
        "value": value,
        "read_only": False,
        "config_source": _DYNAMIC_CLIENT_METRICS_CONFIG,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": _LIST,
        "documentation": None,
    }


def _node(node: int, endpoints: Endpoints) -> Values:
    host, port = endpoints[node]
    return {"host": host, "port": port, "rack": None}
