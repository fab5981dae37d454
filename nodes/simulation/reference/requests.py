"""What clients ask of a simulated node: kio's entities and the core's messages, without bytes.

Contains the APIs of a quorum without brokers, as nodes.reference.server serves them. Does not contain the conversions
(nodes.reference.apis, translate), or what the core answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference import apis, controller_apis, voter_apis
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


def asked(request: Any, node: Node, settings: NodeSettings, endpoints: Endpoints) -> ToCore | Values | None:
    """What to ask of the core, or the values of the response if it need not be asked; None for an API not served."""
    api_key, voters, leader_id = int(request.__api_key__), node.voters.ids, node.leader_id
    served = apis.served(settings)
    if request.__version__ not in served.get(api_key, ()):
        return None
    match api_key:
        case codec.API_VERSIONS:
            return apis.api_versions(served)
        case codec.METADATA:
            return apis.metadata(settings, voters, endpoints, leader_id)
        case codec.DESCRIBE_CLUSTER:
            return apis.describe_cluster(settings, voters, endpoints, leader_id, request)
        case codec.INCREMENTAL_ALTER_CONFIGS:
            refused = apis.alter_error(request)
            if refused is not None:
                return apis.incremental_alter_configs(request, refused)
        case codec.ALTER_PARTITION_REASSIGNMENTS if (reassignment := quorum_reassignment(request)) is not None:
            return reassignment, reassigned
        case key if key in voter_apis.SERVED:
            return voter_apis.incoming(key, request), lambda response: _values(request, response, endpoints)
        case key if key in controller_apis.SERVED:
            return _of_controller(key, request, node)
    converted = incoming(api_key, request)
    if converted is None:
        return error_response(ErrorCode.invalid_request)
    return converted, lambda response: _values(request, response, endpoints)


def _of_controller(api_key: int, request: Any, node: Node) -> ToCore | Values:
    if api_key == codec.LIST_PARTITION_REASSIGNMENTS:
        return controller_apis.reassignments(request, node.metadata.image)
    change = controller_apis.incoming(api_key, request)
    if change is None:
        return controller_apis.INVALID_ELECTION
    return change, lambda response: controller_apis.outgoing(change, response)


def _values(request: Any, response: Response, endpoints: Endpoints) -> Values:
    match response:
        case AlterResponse():
            return apis.incremental_alter_configs(request, response)
        case ReadResponse():
            return apis.describe_configs(request, response)
        case ReassignResponse():
            return reassigned(response)
        case VoterResponse():
            return voter_apis.outgoing(response, endpoints)
    return outgoing(response, endpoints)


def entity_of(request: Any, values: Values) -> Any:
    """kio's response to a request."""
    return codec.build(int(request.__api_key__), request.__version__, "response", values)
