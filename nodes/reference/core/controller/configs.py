"""Configs of topics and brokers: which exist, and which values they may have (IncrementalAlterConfigs, KIP-339).

Contains the rules of requests about configs. What a config does is where it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.draft import Draft
from nodes.reference.core.controller.messages import (
    AlterConfigs,
    AlterConfigsResponse,
    ConfigChange,
    ResourceResult,
)
from nodes.reference.core.controller.settings import MIN_ISR, STRATEGIES, STRATEGY, UNCLEAN
from nodes.reference.core.records.entities import ConfigRecord
from nodes.reference.core.records.image import ResourceType


def _is_number(least: int) -> Callable[[str], bool]:
    return lambda text: text.lstrip("-").isdigit() and int(text) >= least


def _is_boolean(text: str) -> bool:
    return text in ("true", "false")


def _is_ratio(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and float(text) <= 1


def _is_policy(text: str) -> bool:
    return bool(text) and set(text.split(",")) <= {"compact", "delete"}


VALID: Mapping[str, tuple[Callable[[str], bool], str]] = {
    MIN_ISR: (_is_number(1), "a number of at least 1"),
    UNCLEAN: (_is_boolean, "true or false"),
    STRATEGY: (STRATEGIES.__contains__, " or ".join(STRATEGIES)),
    "cleanup.policy": (_is_policy, "compact, delete, or both"),
    "max.message.bytes": (_is_number(0), "a number of bytes"),
    "retention.bytes": (_is_number(-1), "a number of bytes, or -1 for no limit"),
    "retention.ms": (_is_number(-1), "milliseconds, or -1 for no limit"),
    "segment.bytes": (_is_number(14), "a number of at least 14"),
    "segment.ms": (_is_number(1), "a number of at least 1"),
    "min.cleanable.dirty.ratio": (_is_ratio, "a number from 0 to 1"),
    "min.compaction.lag.ms": (_is_number(0), "milliseconds"),
    "max.compaction.lag.ms": (_is_number(1), "milliseconds"),
    "delete.retention.ms": (_is_number(0), "milliseconds"),
    "flush.messages": (_is_number(1), "a number of at least 1"),
}
"""The configs of topics, which are also the cluster's defaults for them: whether a value is valid, and what is."""


def why_invalid(resource_type: int, name: str, value: str | None) -> str | None:
    """Why a resource may not have the config; None if it may. Any name may be deleted (value None)."""
    if value is None:
        return None
    if name not in VALID:
        return f"Unknown {ResourceType(resource_type).name.lower()} config name: {name}"
    is_valid, expected = VALID[name]
    if is_valid(value):
        return None
    return f"Invalid value {value} for configuration {name}: expected {expected}"


class Configs:
    """The configs of the active controller."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def alter(self, request: AlterConfigs) -> AlterConfigsResponse:
        """Handle changes; each resource succeeds or fails by itself."""
        by_resource = groupby(request.changes, lambda change: (change.resource_type, change.resource))
        return AlterConfigsResponse(
            tuple(self._alter(*resource, list(changes), request.only_validated) for resource, changes in by_resource)
        )

    def _alter(
        self, resource_type: int, resource: str, changes: list[ConfigChange], only_validated: bool
    ) -> ResourceResult:
        error, reason = self._refusal(resource_type, resource, changes)
        if error is ErrorCode.none and not only_validated:
            for change in changes:
                self._draft.write(
                    ConfigRecord(
                        resource_type=resource_type, resource_name=resource, name=change.name, value=change.value
                    )
                )
        return ResourceResult(resource_type, resource, error, reason)

    def _refusal(self, resource_type: int, resource: str, changes: list[ConfigChange]) -> tuple[ErrorCode, str | None]:
        if resource_type not in (ResourceType.TOPIC, ResourceType.BROKER):
            return ErrorCode.invalid_request, f"Unexpected resource type {resource_type}."
        if resource_type == ResourceType.TOPIC and resource not in self._draft.image.topics:
            return ErrorCode.unknown_topic_or_partition, f"The topic '{resource}' does not exist."
        reasons = (why_invalid(resource_type, change.name, change.value) for change in changes)
        reason = next(filter(None, reasons), None)
        return (ErrorCode.none if reason is None else ErrorCode.invalid_config), reason
