"""A request and its response to be, as rules and the record see them: the head at once, the body only when asked for.

What may live here: pure functions on frames, and what they found, kept. What may not: sockets, clocks, rules.
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
_TOPICS = ("topics", "topic_data")
_TOPIC_NAMES = ("topic_name", "topic", "name", "topic_id")
_PARTITIONS = ("partitions", "partition_data")
_PARTITION_NUMBERS = ("partition_index", "partition", "index")
_EPOCHS = ("replica_epoch", "leader_epoch", "current_leader_epoch")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a body says: pre_vote of a Vote, the epoch of a Raft RPC, whether a vote was granted, and the partitions.

    A topic stands by its name, or by its id as text where the version has only ids; the metadata log's id is fixed
    (KIP-595), so that it stands by its name always.
    """

    pre_vote: bool | None = None
    epoch: int | None = None
    granted: bool | None = None
    partitions: frozenset[tuple[str, int]] = frozenset()


NO_FACTS = Facts()


@dataclass(slots=True)
class Exchange:
    """One request, from its coming to its response. frame is the request as it came; link is who asks whom."""

    head: RequestHead
    link: Link
    frame: bytes
    answer: bytes | None = None  # the response that we made ourselves; the server never sees the request
    responses_due: int = 1
    is_answered: bool = False  # one response came; another, to a duplicate, has no one to go to
    _facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """What the request's body says; decoded once, when first asked for."""
        if self._facts is None:
            self._facts = _request_facts(self.frame)
        return self._facts

    def ends(self, direction: Direction) -> Link:
        """Who sends and who receives a message of this direction."""
        return self.link if direction == "request" else (self.link[1], self.link[0])


def open_exchange(frame: bytes, link: Link) -> Exchange:
    """Raises PeerFailure where the frame is no request."""
    return Exchange(request_head(frame), link, frame)


def expects_response(exchange: Exchange) -> bool:
    """Every request but a Produce with acks=0 is answered."""
    if exchange.head.api_key != Api.PRODUCE:
        return True
    try:
        return codec.decode_request(exchange.frame[PREFIX_BYTES:]).request.acks != 0
    except PeerFailure:
        return True


def response_facts(exchange: Exchange, frame: bytes) -> Facts:
    """What a response says of epoch and vote; nothing for one that tells neither, or cannot be read."""
    head = exchange.head
    if head.api_key not in _RAFT_RESPONSES_WITH_EPOCH or head.api_version not in codec.versions(head.api_key):
        return NO_FACTS
    due = codec.message_type(head.api_key, head.api_version, "response")
    try:
        _, response = codec.decode_response(due, frame[PREFIX_BYTES:])
    except PeerFailure:
        return NO_FACTS
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    if not partitions:
        return NO_FACTS
    return Facts(epoch=partitions[0].leader_epoch, granted=getattr(partitions[0], "vote_granted", None))


def error_response(exchange: Exchange, error_code: int) -> bytes:
    """The whole frame of a response that is an error as a whole.

    Raises PeerFailure where the request's version is one that we do not know, or has no such error.
    """
    head = exchange.head
    known = head.api_version in codec.versions(head.api_key)
    entity = codec.message_type(head.api_key, head.api_version, "response") if known else None
    if entity is None or "error_code" not in {field.name for field in fields(entity)}:
        raise PeerFailure(f"answering api {head.api_key}: version {head.api_version} has no error that we could give")
    hints = typing.get_type_hints(entity)
    bare = {field.name: _nothing(hints[field.name]) for field in fields(entity) if field.default is MISSING}
    values = bare | {"error_code": ErrorCode(error_code)}
    return codec.encode_response(codec.build(head.api_key, head.api_version, "response", values), head.correlation_id)


def check_answerable(api_key: int, error_code: int) -> None:
    """Raises BadInput where a response of this API has no error of its own, or there is no such error."""
    known = codec.versions(api_key)
    response = codec.message_type(api_key, known[-1], "response") if known else None
    if response is None or "error_code" not in {field.name for field in fields(response)}:
        raise BadInput(f"answering api {api_key}: expected an API whose response has an error code of its own")
    if error_code not in {code.value for code in ErrorCode}:
        raise BadInput(f"answering api {api_key}: expected one of Kafka's error codes, got {error_code}")


def _request_facts(frame: bytes) -> Facts:
    try:
        decoded = codec.decode_request(frame[PREFIX_BYTES:])
    except PeerFailure:
        return NO_FACTS  # a version newer than ours: rules on its head still apply
    pairs = [(topic, partition) for topic in _first(decoded.request, _TOPICS) for partition in _parts(topic)]
    named = frozenset((_name(topic), _number(partition)) for topic, partition in pairs)
    if decoded.api_key not in RAFT_APIS or not pairs:
        return Facts(partitions=named)
    first = pairs[0][1]
    pre_vote = getattr(first, "pre_vote", False) if decoded.api_key == Api.VOTE else None
    epoch = next((getattr(first, name) for name in _EPOCHS if hasattr(first, name)), None)
    return Facts(pre_vote, epoch, partitions=named)


def _parts(topic: Any) -> tuple[Any, ...]:
    parts = _first(topic, _PARTITIONS)
    return parts if isinstance(parts, tuple) else ()


def _name(topic: Any) -> str:
    name = _first(topic, _TOPIC_NAMES)
    return _METADATA_LOG if name == _METADATA_LOG_ID else str(name)


def _number(partition: Any) -> int:
    return partition if isinstance(partition, int) else int(_first(partition, _PARTITION_NUMBERS) or 0)


def _first(entity: Any, names: tuple[str, ...]) -> Any:
    """The first field of these names that there is; an empty tuple where there is none."""
    return next((getattr(entity, name) for name in names if hasattr(entity, name)), ())


def _nothing(hint: Any) -> Any:
    """A plain value, for codec.build, that says nothing."""
    options = typing.get_args(hint)
    if type(None) in options:
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if isinstance(hint, type) and issubclass(hint, str | bytes | datetime.timedelta):
        return 0 if issubclass(hint, datetime.timedelta) else hint()
    return 0
