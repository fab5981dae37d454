"""What a node does with a request: ask the core, or answer from what it knows.

    asked(api_key, request, node, settings, addresses)      # (AddVoterRequest(…), values_of), or a response's values

One function for real and simulated nodes, so that both serve the same APIs in the same way. Contains no input or
output, and no conversions (nodes.reference.apis, controller_apis, voter_apis, translate).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference import apis, controller_apis, voter_apis
from nodes.reference.core.controller.messages import AlterConfigs, ControllerRequest
from nodes.reference.core.messages import (
    AlterResponse,
    ReadResponse,
    ReassignResponse,
    Request,
    Response,
    VoterResponse,
)
from nodes.reference.core.node import Node
from nodes.reference.core.settings import NodeSettings
from nodes.reference.translate import (
    Endpoints,
    Values,
    error_response,
    incoming,
    outgoing,
    quorum_reassignment,
    reassigned,
)
from nodes.wire import codec

ToCore = tuple[Request, Callable[[Any], Values]]
"""The core's request for a client's, and the values of the response for the core's."""


def asked(api_key: int, request: Any, node: Node, settings: NodeSettings, addresses: Endpoints) -> ToCore | Values:
    """What to ask of the core, or the values of the response if it need not be asked."""
    voters, leader_id = node.voters.ids, node.leader_id
    match api_key:
        case codec.API_VERSIONS:
            return apis.api_versions(apis.served(settings))
        case codec.METADATA:
            return apis.metadata(settings, voters, addresses, leader_id)
        case codec.DESCRIBE_CLUSTER:
            return apis.describe_cluster(settings, voters, addresses, leader_id, request)
        case codec.INCREMENTAL_ALTER_CONFIGS if not apis.is_of_registers(request):
            return _decided(AlterConfigs(apis.config_changes(request), request.validate_only))
        case codec.INCREMENTAL_ALTER_CONFIGS if (refused := apis.alter_error(request)) is not None:
            return apis.incremental_alter_configs(request, refused)
        case codec.ALTER_PARTITION_REASSIGNMENTS if (moved := quorum_reassignment(request)) is not None:
            return moved, reassigned
        case codec.LIST_PARTITION_REASSIGNMENTS:
            return controller_apis.reassignments(request, node.metadata.image)
        case key if key in controller_apis.SERVED:
            change = controller_apis.incoming(key, request)
            return controller_apis.INVALID_ELECTION if change is None else _decided(change)
    converted = voter_apis.incoming(api_key, request) if api_key in voter_apis.SERVED else incoming(api_key, request)
    if converted is None:
        return error_response(ErrorCode.invalid_request)
    return converted, lambda response: _values(request, response, addresses)


def _decided(change: ControllerRequest) -> ToCore:
    """The controller decides."""
    return change, lambda response: controller_apis.outgoing(change, response)


def _values(request: Any, response: Response, addresses: Endpoints) -> Values:
    match response:
        case AlterResponse():
            return apis.incremental_alter_configs(request, response)
        case ReadResponse():
            return apis.describe_configs(request, response)
        case ReassignResponse():
            return reassigned(response)
        case VoterResponse():
            return voter_apis.outgoing(response, addresses)
    return outgoing(response, addresses)
