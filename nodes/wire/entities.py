"""Messages from JSON values and back, strictly: a value that does not fit its field is refused by its path.

    request = request_of("vote", 2, {"topics": […]})
    as_json(response)                # {"error_code": "none", "topics": […]}

codec.build fills a message of any version and ignores what the version does not have; here the caller names the version
and means every field. In JSON, error codes are names, UUIDs their text, bytes base64, times milliseconds.

Contains pure functions. Does not contain sockets.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import functools
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import BadInput
from harness.model.shown_values import shown
from harness.model.suggestions import did_you_mean
from nodes.wire import codec

LENGTH = "length"
MILLISECOND = datetime.timedelta(milliseconds=1)


def api_key_of(api: int | str) -> int:
    """The key of an API by its key or its name, as Kafka or kio writes it: Vote, describe_quorum. Raises BadInput."""
    by_name = {name.replace("_", ""): key for key, name in codec.api_names().items()}
    key = api if isinstance(api, int) else by_name.get(api.replace("_", "").lower(), -1)
    if key not in codec.api_names():
        hint = did_you_mean(str(api), codec.api_names().values())
        raise BadInput(f"api: expected an API of Kafka by name or key, found {shown(api)}{hint}")
    return key


def message_of(api: int | str, version: int, kind: codec.Kind) -> Any:
    """kio's class of a message. Raises BadInput for an API or version that kio does not have."""
    key = api_key_of(api)
    versions = codec.versions(key)
    if version not in versions:
        expected = f"{versions[0]} to {versions[-1]}" if versions else "an API of the library kio"
        raise BadInput(f"version: expected {expected} of {codec.api_names()[key]}, found {version}")
    return codec.message_type(key, version, kind)


def request_of(api: int | str, version: int, values: Mapping[str, Any]) -> Any:
    """The request with these values; fields that have a default or may be null may be omitted.

    Raises BadInput that names the field.
    """
    request = _entity(message_of(api, version, "request"), values, "values")
    try:
        codec.encode_request(request, 0, "")
    except Exception as error:  # kio's writers raise struct's errors, and their own
        raise BadInput(f"values: expected values that fit their fields: {error}") from error
    return request


def refuse_expectation(api: int | str, version: int, path: str, expected: Any) -> None:
    """Raise BadInput if the response has no such field, or never has such a value there."""
    hint = message_of(api, version, "response")
    for number, part in enumerate(parts := path.split(".")):
        hint = _step_into(hint, part, f"expect.{'.'.join(parts[: number + 1])}")
    _value(hint, expected, f"expect.{path}")


def as_json(value: Any) -> Any:
    """A message, or a part of one, as JSON."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [as_json(each) for each in value]
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    return str(value) if isinstance(value, uuid.UUID | datetime.datetime) else value


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_entity(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint)


def _step_into(hint: Any, part: str, path: str) -> Any:
    """The type of a field, or of a list's element, of this type."""
    hint = _without_none(hint)
    if typing.get_origin(hint) is tuple:
        if part == LENGTH:
            return int
        if not part.isdigit():
            raise BadInput(f"{path}: expected an index of the list, or {LENGTH}")
        return typing.get_args(hint)[0]
    fields: Mapping[str, Any] = _hints(hint) if _is_entity(hint) else {}
    if part not in fields:
        expected = f"one of the fields {', '.join(fields)}" if fields else "no more names: this is a single value"
        raise BadInput(f"{path}: expected {expected}{did_you_mean(part, fields)}")
    return fields[part]


def _entity(entity: Any, values: Any, path: str) -> Any:
    if not isinstance(values, Mapping):
        raise BadInput(f"{path}: expected a table of fields, found {shown(values)}")
    hints, fields = _hints(entity), {field.name: field for field in dataclasses.fields(entity)}
    for name in values:
        if name not in fields:
            expected = f"one of the fields {', '.join(fields)}" if fields else "no fields"
            raise BadInput(f"{path}.{name}: expected {expected}{did_you_mean(str(name), fields)}")
    given = {name: values.get(name) for name, field in fields.items() if name in values or _is_required(field)}
    return entity(**{name: _value(hints[name], value, f"{path}.{name}") for name, value in given.items()})


def _value(hint: Any, value: Any, path: str) -> Any:
    """A JSON value as the value of a field of this type. Raises BadInput that names the path."""
    plain = _without_none(hint)
    if value is None and plain is not hint:
        return None
    if typing.get_origin(plain) is tuple:
        if not isinstance(value, list | tuple):
            raise BadInput(f"{path}: expected a list, found {shown(value)}")
        return tuple(_value(typing.get_args(plain)[0], each, f"{path}.{at}") for at, each in enumerate(value))
    if _is_entity(plain):
        return _entity(plain, value, path)
    words, convert = next((words, convert) for base, words, convert in CONVERSIONS if issubclass(plain, base))
    try:
        return convert(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        similar = did_you_mean(value, ErrorCode.__members__) if plain is ErrorCode and isinstance(value, str) else ""
        raise BadInput(f"{path}: expected {words}, found {shown(value)}{similar}") from error


def _instance_of(*kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError
        return value

    return check


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError from error


CONVERSIONS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (ErrorCode, "the name of an error code", lambda value: ErrorCode[value]),
    (bool, "true or false", _instance_of(bool)),
    (int, "a whole number", _instance_of(int)),
    (float, "a number", _instance_of(int, float)),
    (str, "text", _instance_of(str)),
    (uuid.UUID, "a UUID", lambda value: uuid.UUID(value)),
    (bytes, "bytes in base64", _bytes),
    (datetime.timedelta, "milliseconds", lambda value: _instance_of(int)(value) * MILLISECOND),
    (datetime.datetime, "a time in ISO 8601", lambda value: datetime.datetime.fromisoformat(value)),
)
"""For each type of field, its words and the conversion from JSON; the first that matches."""


@functools.cache
def _hints(entity: Any) -> Mapping[str, Any]:
    """The fields' types, in order."""
    hints = typing.get_type_hints(entity)
    return {field.name: hints[field.name] for field in dataclasses.fields(entity)}


def _without_none(hint: Any) -> Any:
    """The type of a field that may be null, or the type itself."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(option for option in typing.get_args(hint) if option is not types.NoneType)
    return hint
