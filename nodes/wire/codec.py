"""Encoding and decoding of requests and responses.

Contains pure functions between bytes and kio entities. Does not contain sockets, clocks or waiting.

kio has one class per message and version; each is imported when first needed. Messages that it does not have are
declared in the same form (nodes.wire.unreleased) and found like the others. `build` fills any of them from plain
values, so that one description serves all versions of a message: fields that a version does not have are ignored,
mappings become nested entities, and milliseconds become kio's time spans.

    request = build(VOTE, 2, "request", {"cluster_id": "x", "voter_id": 2, "topics": [...]})
    frame = encode_request(request, correlation_id=7, client_id="observer")

Raises PeerFailure for bytes that violate the protocol. Source: KIP-511 (ApiVersions' header and its fallback).
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib
import io
import struct
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from harness.model import PeerFailure
from nodes.wire import unreleased

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = unreleased.OFFSET_FOR_LEADER_EPOCH
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_LOG_DIRS: Final = 35
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = unreleased.ELECT_LEADERS
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
VOTE: Final = 52
BEGIN_QUORUM_EPOCH: Final = 53
END_QUORUM_EPOCH: Final = 54
DESCRIBE_QUORUM: Final = unreleased.DESCRIBE_QUORUM
ALTER_PARTITION: Final = 56
FETCH_SNAPSHOT: Final = 59
DESCRIBE_CLUSTER: Final = 60
BROKER_REGISTRATION: Final = 62
BROKER_HEARTBEAT: Final = 63
UNREGISTER_BROKER: Final = 64
ALLOCATE_PRODUCER_IDS: Final = 67
DESCRIBE_TOPIC_PARTITIONS: Final = 75
ADD_RAFT_VOTER: Final = 80
REMOVE_RAFT_VOTER: Final = 81
UPDATE_RAFT_VOTER: Final = 82
GET_REPLICA_LOG_INFO: Final = unreleased.GET_REPLICA_LOG_INFO
DISCOVER_BROKERS: Final = unreleased.DISCOVER_BROKERS
NOMINATE_VOTER: Final = unreleased.NOMINATE_VOTER

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024

Kind = Literal["request", "response"]
_HEAD = struct.Struct(">hhi")
_LENGTH = struct.Struct(">i")


@dataclasses.dataclass(frozen=True, slots=True)
class RequestFrame:
    """A received request; the response must have the same api_version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    request: Any


class UnsupportedVersion(PeerFailure):
    """A request of an API or version that is not supported; its fields are those that an error response needs."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"decoding a request: API {api_key} version {api_version} is not supported")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


@functools.cache
def api_names() -> Mapping[int, str]:
    """The name of each API as kio writes it, by its key, e.g. describe_quorum."""
    from kio.schema.index import api_key_map  # a large module: only when the first message is looked up

    return {**api_key_map, **unreleased.API_NAMES}


@functools.cache
def versions(api_key: int) -> range:
    """The versions of an API that kio or nodes.wire.unreleased declares; empty for an unknown API."""
    from kio.schema.index import schema_name_map

    numbers = {*schema_name_map.get(api_names().get(api_key, ""), ()), *unreleased.MODULES.get(api_key, ())}
    return range(min(numbers), max(numbers) + 1) if numbers else range(0)


@functools.cache
def message_type(api_key: int, version: int, kind: Kind) -> Any:
    """The class of a message. Raises KeyError for an unsupported API or version."""
    if version not in versions(api_key):
        raise KeyError((api_key, version))
    name, declared = api_names()[api_key], unreleased.MODULES.get(api_key, {}).get(version)
    path = f"{unreleased.__name__}.{declared}" if declared else f"kio.schema.{name}.v{version}.{kind}"
    module = importlib.import_module(path)
    class_name = (name + kind).replace("_", "").lower()
    return next(value for key, value in vars(module).items() if key.lower() == class_name)


def build(api_key: int, version: int, kind: Kind, values: Mapping[str, Any]) -> Any:
    """The message of this version, filled from plain values; fields that the version does not have are ignored."""
    return _filler(message_type(api_key, version, kind))(values)


@functools.cache
def _filler(entity: Any) -> Callable[[Mapping[str, Any]], Any]:
    hints = typing.get_type_hints(entity)
    fields = {field.name: _converter(hints[field.name]) for field in dataclasses.fields(entity)}

    def fill(values: Mapping[str, Any]) -> Any:
        return entity(**{name: convert(values[name]) for name, convert in fields.items() if name in values})

    return fill


def _converter(hint: Any) -> Callable[[Any], Any]:
    """The conversion of a plain value for a field of this type."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        convert = _converter(next(option for option in typing.get_args(hint) if option is not type(None)))
        return lambda value: None if value is None else convert(value)
    if typing.get_origin(hint) is tuple:
        each = _converter(typing.get_args(hint)[0])
        return lambda value: tuple(each(item) for item in value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return lambda value: value if dataclasses.is_dataclass(value) else _filler(hint)(value)
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return lambda value: datetime.timedelta(milliseconds=value)
    return lambda value: value


def _encode(header: Any, message: Any) -> bytes:
    buffer = io.BytesIO()
    buffer.write(bytes(_LENGTH.size))
    entity_writer(type(header))(buffer, header)
    entity_writer(type(message))(buffer, message)
    frame = buffer.getbuffer()
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return bytes(frame)


def _header(message: Any, **values: Any) -> Any:
    schema = type(message).__header_schema__
    return schema(**{field.name: values[field.name] for field in dataclasses.fields(schema)})


def encode_request(request: Any, correlation_id: int, client_id: str) -> bytes:
    """A complete frame, with its length prefix."""
    header = _header(
        request,
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return _encode(header, request)


def encode_response(response: Any, correlation_id: int) -> bytes:
    """A complete frame, with its length prefix; kio gives ApiVersions the header v0 that KIP-511 requires."""
    return _encode(_header(response, correlation_id=correlation_id), response)


def decode_request(frame: bytes) -> RequestFrame:
    """The request in a frame without its length prefix. Raises UnsupportedVersion, or PeerFailure if truncated."""
    if len(frame) < _HEAD.size:
        raise PeerFailure(f"decoding a request: a frame of {len(frame)} bytes is shorter than any header")
    api_key, api_version, correlation_id = _HEAD.unpack_from(frame)
    if api_version not in versions(api_key):
        raise UnsupportedVersion(api_key, api_version, correlation_id)
    entity = message_type(api_key, api_version, "request")
    header, request = _decode(entity, frame, f"request of API {api_key} version {api_version}")
    return RequestFrame(api_key, api_version, correlation_id, header.client_id, request)


def decode_response(entity: Any, frame: bytes) -> tuple[int, Any]:
    """Correlation id and response, given kio's class of the expected response.

    An UNSUPPORTED_VERSION response to ApiVersions has version 0, whatever the request's version (KIP-511).
    """
    if entity.__api_key__ == API_VERSIONS and _is_unsupported_version(frame):
        entity = message_type(API_VERSIONS, 0, "response")
    header, response = _decode(entity, frame, entity.__name__)
    return header.correlation_id, response


def correlation_id_of(frame: bytes) -> int:
    """The first field of every response."""
    if len(frame) < _LENGTH.size:
        raise PeerFailure(f"decoding a response: a frame of {len(frame)} bytes has no correlation id")
    return int(_LENGTH.unpack_from(frame)[0])


def frame_length(prefix: bytes) -> int:
    """The length in the four bytes before a frame. Raises PeerFailure if it is out of range."""
    (length,) = _LENGTH.unpack(prefix)
    if not 0 < length <= FRAME_BYTES_MAX:
        raise PeerFailure(f"reading a frame: expected a length of 1 to {FRAME_BYTES_MAX} bytes, got {length}")
    return int(length)


def _is_unsupported_version(frame: bytes) -> bool:
    return frame[4:6] == struct.pack(">h", ErrorCode.unsupported_version)


def _decode(entity: Any, frame: bytes, what: str) -> tuple[Any, Any]:
    # On truncated or invalid bytes, kio's readers raise their own errors and those of struct and unicode.
    try:
        header, size = entity_reader(entity.__header_schema__)(frame, 0)
        message, _ = entity_reader(entity)(frame, size)
    except Exception as error:
        raise PeerFailure(f"decoding a {what}: {len(frame)} bytes do not follow its schema ({error})") from error
    return header, message
