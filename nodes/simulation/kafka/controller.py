"""A small state machine in the place of Kafka's QuorumController: registers in the metadata.

It serves what the sessions of the workloads register and set send: IncrementalAlterConfigs and DescribeConfigs of
CLIENT_METRICS resources. A write is one record of the log: a number here, whose content is kept by Writes, so that
one request stays atomic. Each node has an image, what it applied so far, and reads are answered from it. The driver
(driver/release/Controller.java) decides who is the active controller and when a write is committed.

Contains what requests mean and how they are answered, as QuorumController and ControllerApis answer them. Does not
contain time, nodes' processes or the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import BadInput
from nodes.wire import codec

SET = 0
NO_CONTROLLER = "No controller appears to be active."
"""Kafka's ControllerExceptions, for a controller that does not know another."""

Change = tuple[str, str, str | None]
"""A resource, the name of one of its properties, and the new value."""


def active_controller(node: int) -> str:
    """Kafka's text for a controller that is not the active one."""
    return f"The active controller appears to be node {node}."


@dataclass(slots=True)
class Writes:
    """The content of each write by its number, and each node's image: the properties of resources."""

    _changes: list[Sequence[Change]] = field(default_factory=list)
    _images: dict[int, dict[str, dict[str, str]]] = field(default_factory=dict)

    def begin(self, request: Any) -> int:
        """The number of a write. Raises BadInput for an operation other than to set a value."""
        changes = [
            (resource.resource_name, config.name, config.value)
            for resource in request.resources
            for config in resource.configs
            if _is_set(config.config_operation)
        ]
        self._changes.append(changes)
        return len(self._changes) - 1

    def restart(self, node: int) -> None:
        """A node begins anew: it applies its log from the beginning."""
        self._images[node] = {}

    def load(self, node: int, numbers: Sequence[int]) -> None:
        """A node begins with a snapshot of these writes."""
        self.restart(node)
        for number in numbers:
            self.apply(node, number, number)

    def apply(self, node: int, first: int, last: int) -> None:
        """A node applied these writes."""
        image = self._images.setdefault(node, {})
        for number in range(first, last + 1):
            for resource, name, value in self._changes[number]:
                if value is None:
                    image.get(resource, {}).pop(name, None)
                else:
                    image.setdefault(resource, {})[name] = value

    def read(self, node: int, request: Any) -> Any:
        """The response to DescribeConfigs from a node's image."""
        image = self._images.get(node, {})
        return _response(request, {"results": [_result(resource, image) for resource in request.resources]})


def written(request: Any, error: ErrorCode = ErrorCode.none, message: str | None = None) -> Any:
    """The response to IncrementalAlterConfigs: the same result for each resource."""
    responses = [
        {
            "error_code": error,
            "error_message": message,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        for resource in request.resources
    ]
    return _response(request, {"responses": responses})


def not_controller(request: Any, leader: int | None) -> Any:
    """The response of a node that is not the active controller, or no longer; leader is the one that it knows."""
    message = NO_CONTROLLER if leader is None else active_controller(leader)
    return written(request, ErrorCode.not_controller, message)


def supported_apis(request: Any, versions: Mapping[int, range]) -> Any:
    """The response to ApiVersions."""
    keys = [{"api_key": key, "min_version": found[0], "max_version": found[-1]} for key, found in versions.items()]
    return _response(request, {"error_code": ErrorCode.none, "api_keys": keys})


def _is_set(operation: int) -> bool:
    if operation != SET:
        raise BadInput(f"a simulated controller: expected the operation SET ({SET}), found {operation}")
    return True


def _result(resource: Any, image: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
    found = image.get(resource.resource_name, {})
    keys = found if resource.configuration_keys is None else [k for k in resource.configuration_keys if k in found]
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [
            {"name": key, "value": found[key], "read_only": False, "is_sensitive": False, "synonyms": ()}
            | {"documentation": None}
            for key in keys
        ],
    }


def _response(request: Any, values: Mapping[str, Any]) -> Any:
    with_throttle = {"throttle_time": 0, **values}
    return codec.build(request.__api_key__, request.__version__, "response", with_throttle)
