"""A request and its response, as rules and the record see them. The body is decoded only when it is needed.

Contains pure functions on frames, and their cached results. Does not contain sockets, clocks or rules.
"""

from __future__ import annotations

import datetime
import typing
import uuid
from dataclasses import MISSING, dataclass, fields
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import BadInput, PeerFailure
from harness.model.faults.rpc import Api, Direction
from harness.model.hosts import Link
from nodes.proxy.frames import PREFIX_BYTES, RequestHead, request_head
from nodes.wire import codec

RAFT_APIS = frozenset({Api.FETCH, Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH, Api.FETCH_SNAPSHOT})
_RAFT_RESPONSES_WITH_EPOCH = frozenset({Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH})
_METADATA_LOG, _METADATA_LOG_ID = "__cluster_metadata", uuid.UUID(int=1)
_UNSUPPORTED = (1 << 63) - 1
"""A high watermark that is not sent (KIP-1166)."""
_TOPICS = ("topics", "topic_data")
_TOPIC_NAMES = ("topic_name", "topic", "name", "topic_id")
_PARTITIONS = ("partitions", "partition_data")
_PARTITION_NUMBERS = ("partition_index", "partition", "index")
_EPOCHS = ("replica_epoch", "leader_epoch", "current_leader_epoch")


@dataclass(frozen=True, slots=True)
class Facts:
    """Values from a body: pre_vote of a Vote, the epoch of a Raft RPC, whether a vote was granted, and the partitions.

    fetch_offset and high_watermark are those of a Fetch of the metadata log (RpcRow). A Fetch of another log is no Raft
    RPC, and its epoch is not the quorum's. A topic is identified by its name, or by its id as text in versions that
    have only ids. The metadata log has a fixed id (KIP-595) and is always identified by its name.
    """

    pre_vote: bool | None = None
    epoch: int | None = None
    granted: bool | None = None
    partitions: frozenset[tuple[str, int]] = frozenset()
    fetch_offset: int | None = None
    high_watermark: int | None = None


NO_FACTS = Facts()


@dataclass(slots=True)
class Exchange:
    """One request and its response. frame is the received request; link is from the client to the server."""

    head: RequestHead
    link: Link
    frame: bytes
    answer: bytes | None = None  # our own response, if a rule answers; the request is then not forwarded
    responses_due: int = 1
    is_answered: bool = False  # a response was received; a second one, to a duplicate, is discarded
    _facts: Facts | None = None

    @property
    def api_key(self) -> int:
        """The request's."""
        return self.head.api_key

    @property
    def facts(self) -> Facts:
        """Values from the request's body, which is decoded on first use."""
        if self._facts is None:
            self._facts = _request_facts(self.frame)
        return self._facts

    def ends(self, direction: Direction) -> Link:
        """The sender and the receiver of a message in this direction."""
        return self.link if direction == "request" else (self.link[1], self.link[0])


def open_exchange(frame: bytes, link: Link) -> Exchange:
    """Start the exchange of a request. Raises PeerFailure if the frame is not a request."""
    return Exchange(request_head(frame), link, frame)


def expects_response(exchange: Exchange) -> bool:
    """Whether the server responds to this request: to every request except Produce with acks=0."""
    if exchange.head.api_key != Api.PRODUCE:
        return True
    try:
        return codec.decode_request(exchange.frame[PREFIX_BYTES:]).request.acks != 0
    except PeerFailure:
        return True


def response_facts(exchange: Exchange, frame: bytes) -> Facts:
    """The epoch, vote and high watermark in a response; NO_FACTS if it has none of them or cannot be decoded."""
    head = exchange.head
    is_of_quorum = head.api_key == Api.FETCH and exchange.facts.fetch_offset is not None
    has_facts = is_of_quorum or head.api_key in _RAFT_RESPONSES_WITH_EPOCH
    if not has_facts or head.api_version not in codec.versions(head.api_key):
        return NO_FACTS
    entity = codec.message_type(head.api_key, head.api_version, "response")
    try:
        _, response = codec.decode_response(entity, frame[PREFIX_BYTES:])
    except PeerFailure:
        return NO_FACTS
    topics = response.responses if is_of_quorum else response.topics
    partitions = [partition for topic in topics for partition in topic.partitions]
    if not partitions:
        return NO_FACTS
    if is_of_quorum:
        # Versions before 12 have no leader.
        epoch = getattr(getattr(partitions[0], "current_leader", None), "leader_epoch", -1)
        return Facts(epoch=None if epoch < 0 else epoch, high_watermark=partitions[0].high_watermark)
    return Facts(epoch=partitions[0].leader_epoch, granted=getattr(partitions[0], "vote_granted", None))


def error_response(exchange: Exchange, error_code: int) -> bytes:
    """The frame of a response with a top-level error.

    Raises PeerFailure if the request's version is unknown or its response has no top-level error code.
    """
    head = exchange.head
    known = head.api_version in codec.versions(head.api_key)
    entity = codec.message_type(head.api_key, head.api_version, "response") if known else None
    if entity is None or "error_code" not in {field.name for field in fields(entity)}:
        raise PeerFailure(
            f"answering api {head.api_key} with an error: expected a known version with an error code, "
            f"got {head.api_version}"
        )
    hints = typing.get_type_hints(entity)
    empty = {field.name: _empty_value(hints[field.name]) for field in fields(entity) if field.default is MISSING}
    values = empty | {"error_code": ErrorCode(error_code)}
    return codec.encode_response(codec.build(head.api_key, head.api_version, "response", values), head.correlation_id)


def check_answerable(api_key: int, error_code: int) -> None:
    """Raises BadInput if responses of this API have no top-level error code, or if there is no such error."""
    known = codec.versions(api_key)
    response = codec.message_type(api_key, known[-1], "response") if known else None
    if response is None or "error_code" not in {field.name for field in fields(response)}:
        raise BadInput(f"answering api {api_key} with an error: expected an API with a top-level error code")
    if error_code not in {code.value for code in ErrorCode}:
        raise BadInput(f"answering api {api_key} with an error: expected one of Kafka's error codes, got {error_code}")


def _request_facts(frame: bytes) -> Facts:
    try:
        decoded = codec.decode_request(frame[PREFIX_BYTES:])
    except PeerFailure:
        return NO_FACTS  # an unknown version: rules that match only the header still apply
    pairs = [(topic, partition) for topic in _first(decoded.request, _TOPICS) for partition in _partitions(topic)]
    named = frozenset((_name(topic), _number(partition)) for topic, partition in pairs)
    if decoded.api_key not in RAFT_APIS or not pairs:
        return Facts(partitions=named)
    first = pairs[0][1]
    if decoded.api_key == Api.FETCH:
        return _fetch_facts(first, named)
    pre_vote = getattr(first, "pre_vote", False) if decoded.api_key == Api.VOTE else None
    epoch = next((getattr(first, name) for name in _EPOCHS if hasattr(first, name)), None)
    return Facts(pre_vote, epoch, partitions=named)


def _fetch_facts(partition: Any, named: frozenset[tuple[str, int]]) -> Facts:
    if (_METADATA_LOG, 0) not in named:
        return Facts(partitions=named)
    high_watermark = getattr(partition, "high_watermark", _UNSUPPORTED)
    return Facts(
        epoch=getattr(partition, "current_leader_epoch", None),
        partitions=named,
        fetch_offset=partition.fetch_offset,
        high_watermark=None if high_watermark == _UNSUPPORTED else high_watermark,
    )


def _partitions(topic: Any) -> tuple[Any, ...]:
    partitions = _first(topic, _PARTITIONS)
    return partitions if isinstance(partitions, tuple) else ()


def _name(topic: Any) -> str:
    name = _first(topic, _TOPIC_NAMES)
    return _METADATA_LOG if name == _METADATA_LOG_ID else str(name)


def _number(partition: Any) -> int:
    return partition if isinstance(partition, int) else int(_first(partition, _PARTITION_NUMBERS) or 0)


def _first(entity: Any, names: tuple[str, ...]) -> Any:
    """The first of these fields that the entity has; an empty tuple if it has none."""
    return next((getattr(entity, name) for name in names if hasattr(entity, name)), ())


def _empty_value(hint: Any) -> Any:
    """An empty value of a type, for codec.build."""
    options = typing.get_args(hint)
    if type(None) in options:
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if isinstance(hint, type) and issubclass(hint, str | bytes | datetime.timedelta):
        return 0 if issubclass(hint, datetime.timedelta) else hint()
    return 0
