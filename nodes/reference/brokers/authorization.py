"""Who sends a request to a broker, and whether they may: SASL/PLAIN, and the access control lists.

    client = Client("10.0.0.1")                                # User:ANONYMOUS until it has authenticated
    values = authenticated(client, request, users)             # the response to SaslAuthenticate
    values = refusal(client, frame, image)                     # None: it may
    visible(client, frame, image, values)                      # without the topics that it may not describe

A client that does not authenticate is a super user, like other brokers and the controller: there is no listener that is
for users alone. A user may send the requests of OPEN, and those of TO_CLUSTER as far as the ACLs allow it; any other
request closes the connection.

Contains decisions about requests. What an ACL says is in core/records/acls.py. Sources: KIP-43, KIP-152 (SASL), KIP-11
(authorization), KAFKA-20098 (ElectLeaders, GetReplicaLogInfo).
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.model import PeerFailure
from nodes.reference import controller_apis
from nodes.reference.core.records.acls import CLUSTER_NAME, Operation, ResourceKind, is_allowed
from nodes.reference.core.records.image import Image
from nodes.wire import codec
from nodes.wire.sasl import MECHANISM

Values = dict[str, Any]
Users = Mapping[str, str]
"""The password of each user."""

ANONYMOUS: Final = "User:ANONYMOUS"
OF_USERS: Mapping[int, range] = {codec.SASL_HANDSHAKE: range(2), codec.SASL_AUTHENTICATE: range(3)}
"""The versions of the APIs that a broker with users serves besides."""

OPEN: Final = (codec.API_VERSIONS, codec.METADATA, codec.DESCRIBE_CLUSTER)
"""What every user may send."""

TO_CLUSTER: Mapping[int, Operation] = {
    codec.ELECT_LEADERS: Operation.CLUSTER_ACTION,
    codec.GET_REPLICA_LOG_INFO: Operation.CLUSTER_ACTION,
    codec.DESCRIBE_ACLS: Operation.DESCRIBE,
    codec.CREATE_ACLS: Operation.ALTER,
    codec.DELETE_ACLS: Operation.ALTER,
}
"""The operation on the cluster that a request needs."""

REASON: Final = "Cluster authorization failed."


@dataclass(slots=True)
class Client:
    """The peer of a connection."""

    host: str
    principal: str = ANONYMOUS

    @property
    def is_super_user(self) -> bool:
        """Whether it may do everything."""
        return self.principal == ANONYMOUS

    def may(self, operation: Operation, kind: ResourceKind, name: str, image: Image) -> bool:
        """Whether the ACLs allow this."""
        return self.is_super_user or is_allowed(image.acls.values(), self.principal, self.host, operation, kind, name)


def handshake(request: Any) -> Values:
    """The response to SaslHandshake."""
    is_known = request.mechanism == MECHANISM
    error = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
    return {"error_code": error, "mechanisms": [MECHANISM]}


def authenticated(client: Client, request: Any, users: Users) -> Values:
    """The response to SaslAuthenticate; the client is that user from now on."""
    _, user, password, *_ = [*bytes(request.auth_bytes).split(b"\0"), b"", b""]
    expected = users.get(user.decode(errors="replace"))
    is_right = expected is not None and hmac.compare_digest(password, expected.encode())
    if is_right:
        client.principal = f"User:{user.decode()}"
    return {
        "error_code": ErrorCode.none if is_right else ErrorCode.sasl_authentication_failed,
        "error_message": None if is_right else "Authentication failed: Invalid username or password",
        "auth_bytes": b"",
        "session_lifetime": 0,
    }


def refusal(client: Client, frame: codec.RequestFrame, image: Image) -> Values | None:
    """The response to a request that the client may not send at all; None if it may.

    Raises PeerFailure for an API that is for super users alone.
    """
    if client.is_super_user or frame.api_key in OPEN:
        return None
    operation = TO_CLUSTER.get(frame.api_key)
    if operation is None:
        raise PeerFailure(f"{client.principal} may not use API {frame.api_key}")
    if client.may(operation, ResourceKind.CLUSTER, CLUSTER_NAME, image):
        return None
    return _refused(frame)


def _refused(frame: codec.RequestFrame) -> Values:
    error = ErrorCode.cluster_authorization_failed
    if frame.api_key == codec.GET_REPLICA_LOG_INFO:
        return _without_logs(frame.request, error)
    if frame.api_key == codec.DESCRIBE_ACLS:
        return {"throttle_time": 0, "error_code": error, "error_message": REASON, "resources": []}
    request = controller_apis.incoming(frame.api_key, frame.request)
    return controller_apis.INVALID_ELECTION if request is None else controller_apis.refused(request, error, REASON)


def _without_logs(request: Any, error: ErrorCode) -> Values:
    topics = [
        {
            "topic_id": topic.topic_id,
            "partition_log_info": [_no_log(index, error) for index in topic.partitions],
        }
        for topic in request.topic_partitions or ()
    ]
    return {"throttle_time": 0, "broker_epoch": -1, "has_more_data": False, "topic_partition_log_info_list": topics}


def _no_log(index: int, error: ErrorCode) -> Values:
    unknown = {"partition_leader_epoch": -1, "last_written_leader_epoch": -1, "log_end_offset": -1}
    return {"partition": index, **unknown, "error_code": error}


def visible(client: Client, frame: codec.RequestFrame, image: Image, values: Values) -> Values:
    """The response without what it says of topics that the client may not describe."""
    if client.is_super_user:
        return values
    if frame.api_key == codec.METADATA:
        return values | {"topics": _visible_topics(client, frame.request, image, values["topics"])}
    if frame.api_key == codec.GET_REPLICA_LOG_INFO:
        listed = [_visible_logs(client, each, image) for each in values["topic_partition_log_info_list"]]
        return values | {"topic_partition_log_info_list": listed}
    return values


def _visible_topics(client: Client, request: Any, image: Image, topics: list[Values]) -> list[Values]:
    """Topics that were not asked for by name are left out."""
    named = {each.name for each in request.topics or ()}
    shown = []
    for topic in topics:
        if _may_describe(client, topic["name"], image):
            shown.append(topic)
        elif topic["name"] in named:
            error = ErrorCode.topic_authorization_failed
            shown.append(topic | {"error_code": error, "topic_id": None, "partitions": []})
    return shown


def _visible_logs(client: Client, topic: Values, image: Image) -> Values:
    found = image.topic(topic["topic_id"])
    if found is None or _may_describe(client, found.name, image):
        return topic
    hidden = [_no_log(each["partition"], ErrorCode.topic_authorization_failed) for each in topic["partition_log_info"]]
    return topic | {"partition_log_info": hidden}


def _may_describe(client: Client, topic: str | None, image: Image) -> bool:
    return topic is None or client.may(Operation.DESCRIBE, ResourceKind.TOPIC, topic, image)
