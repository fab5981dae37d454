"""The APIs of access control lists on the wire (KIP-140).

Contains pure functions between kio's entities and nodes.reference.core.records.acls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.controller.messages import AclResult, CreateAcls, DeleteAcls
from nodes.reference.core.records.acls import Acl, AclFilter
from nodes.wire import codec

Values = dict[str, Any]


def incoming(request: Any) -> CreateAcls | DeleteAcls:
    """The core's message for CreateAcls or DeleteAcls."""
    if request.__api_key__ == codec.CREATE_ACLS:
        return CreateAcls(tuple(map(_created, request.creations)))
    return DeleteAcls(tuple(map(_filter, request.filters)))


def _created(creation: Any) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def outgoing(results: Sequence[AclResult]) -> Values:
    """The values of the response to CreateAcls, and of that to DeleteAcls."""
    return {
        "throttle_time": 0,
        "results": [{"error_code": each.error, "error_message": each.reason} for each in results],
        "filter_results": [
            {
                "error_code": each.error,
                "error_message": each.reason,
                "matching_acls": [
                    {"error_code": ErrorCode.none, "error_message": None, **_resource(acl), **_entry(acl)}
                    for acl in each.removed
                ],
            }
            for each in results
        ],
    }


def described(request: Any, acls: Iterable[Acl]) -> Values:
    """The response to DescribeAcls: the entries that its filter matches, by resource."""
    wanted = _filter(request)
    matching = sorted((acl for acl in acls if wanted.matches(acl)), key=_resource_key)
    resources = []
    for _, entries in groupby(matching, _resource_key):
        first, *others = entries
        resources.append({**_resource(first), "acls": [_entry(acl) for acl in (first, *others)]})
    return {"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "resources": resources}


def _resource_key(acl: Acl) -> tuple[int, str, int]:
    return acl.kind, acl.name, acl.pattern


def _resource(acl: Acl) -> Values:
    return {"resource_type": acl.kind, "resource_name": acl.name, "pattern_type": acl.pattern}


def _entry(acl: Acl) -> Values:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
