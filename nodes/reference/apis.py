"""The APIs a node serves: their versions, and the answers for clients.

What may live here: pure functions from what a client asked and what the core answered to the values of a response.

A voter without Pre-Vote is as a release before KIP-996: its Vote ends at version 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import AlterResponse, ReadResponse
from nodes.reference.core.settings import NodeSettings
from nodes.reference.translate import Endpoints, Values
from nodes.wire import codec

CLIENT_METRICS = 16
_SET, _DELETE = 0, 1
_DYNAMIC_CLIENT_METRICS_CONFIG = 7
_LIST = 7
_CONTROLLERS = 2


def served(settings: NodeSettings) -> Mapping[int, range]:
    """The versions served, by API key; they are those that Kafka 4.x's controllers serve, as far as we need them."""
    return {
        codec.FETCH: range(12, 18),
        codec.METADATA: range(14),
        codec.API_VERSIONS: range(5),
        codec.DESCRIBE_CONFIGS: range(1, 5),
        codec.INCREMENTAL_ALTER_CONFIGS: range(2),
        codec.VOTE: range(3 if settings.pre_vote else 2),
        codec.BEGIN_QUORUM_EPOCH: range(2),
        codec.END_QUORUM_EPOCH: range(2),
        codec.DESCRIBE_QUORUM: range(3),
        codec.DESCRIBE_CLUSTER: range(3),
    }


def api_versions(ranges: Mapping[int, range], error: ErrorCode = ErrorCode.none) -> Values:
    """What this node can be asked."""
    keys = [{"api_key": key, "min_version": known[0], "max_version": known[-1]} for key, known in ranges.items()]
    return {
        "error_code": error,
        "api_keys": keys,
        "throttle_time": 0,
        "supported_features": [{"name": "kraft.version", "min_version": 0, "max_version": 1}],
    }


def metadata(settings: NodeSettings, endpoints: Endpoints, leader_id: int | None) -> Values:
    """The controllers as brokers, and no topics."""
    return {
        "throttle_time": 0,
        "brokers": [_node(node, endpoints) | {"node_id": node} for node in settings.voters],
        "cluster_id": settings.cluster_id,
        "controller_id": -1 if leader_id is None else leader_id,
        "topics": [],
        "error_code": ErrorCode.none,
    }


def describe_cluster(settings: NodeSettings, endpoints: Endpoints, leader_id: int | None, request: Any) -> Values:
    """The controllers, for clients that bootstrap from one (KIP-919); brokers there are none."""
    asks_controllers = getattr(request, "endpoint_type", _CONTROLLERS) == _CONTROLLERS
    brokers = [_node(node, endpoints) | {"broker_id": node, "is_fenced": False} for node in settings.voters]
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


def alter_refusal(request: Any) -> AlterResponse | None:
    """Why a write cannot be taken by anyone; None if it can."""
    for resource in request.resources:
        if resource.resource_type != CLIENT_METRICS:
            reason = f"Only resource type {CLIENT_METRICS} (CLIENT_METRICS) can be altered here."
            return AlterResponse(ErrorCode.invalid_request, reason)
        if any(config.config_operation not in (_SET, _DELETE) for config in resource.configs):
            return AlterResponse(ErrorCode.invalid_config, "Only the operations SET and DELETE are known here.")
    return None


def altered(request: Any, response: AlterResponse) -> Values:
    """The same answer for each resource: a request is atomic here."""
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


def described(request: Any, response: ReadResponse) -> Values:
    """The configs asked for, of each resource asked for; resources that were never set have none."""
    return {"throttle_time": 0, "results": [_described(resource, response) for resource in request.resources]}


def _described(resource: Any, response: ReadResponse) -> Values:
    configs = (response.values or {}).get(resource.resource_name, {})
    wanted = resource.configuration_keys
    return {
        "error_code": response.error,
        "error_message": response.reason,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [_config(name, value) for name, value in sorted(configs.items()) if not wanted or name in wanted],
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
