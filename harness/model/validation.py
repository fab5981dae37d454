"""What a value that a model refuses should have been, in our words: one table for flags, plans and inventories.

    try:
        Request.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, Request)
        problem.path, str(problem)      # ("time_limit",), "expected more than 0, found -5"

    Level = Annotated[str, Matching(r"[0-9]{1,4}", "a number of up to four digits")]

Contains the words, and the types of text whose form has a name in words. Does not contain models, how a value is shown
(shown_values.py), or where it stands in a file or on a command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, Tag, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from harness.model.shown_values import NUMBER, TEXT, TRUTH, WHOLE_NUMBER, listed, plain, short, shown
from harness.model.suggestions import did_you_mean

ONE_OF = "one_of"
"""Our own error type: a name that is not among the known ones, which are its context."""

LIST, TABLE = "a list", "a table of keys and values"
LIMITS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
}
EXPECTED: Mapping[str, str] = {
    **LIMITS,
    **dict.fromkeys(("missing", "missing_argument", "missing_keyword_only_argument"), "a value"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), WHOLE_NUMBER),
    **dict.fromkeys(("float_type", "float_parsing"), NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), TRUTH),
    **dict.fromkeys(("string_type", "string_unicode"), TEXT),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "iterable_type"), LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), TABLE),
    "dataclass_exact_type": TABLE,
    "finite_number": "a finite number",
    "none_required": "no value",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "invalid_key": "keys that are text",
    "json_invalid": "JSON",
    "recursion_loop": "values without loops",
}
"""What was expected, by the type of error that the models' library reports."""

UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")
NOT_NAMED = "a value of another type"
"""Where an error type has no words above: `tests/harness/model/test_validation.py` keeps that from our own models."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The first of the things that are wrong: its path of keys and indexes, what was expected, and what was found.

    found is "" where the value would not help. hint ends the message. more is the number of further problems.
    """

    path: tuple[int | str, ...]
    expected: str
    found: str
    hint: str
    more: int

    def __str__(self) -> str:
        found = f", found {self.found}" if self.found else ""
        more = f" (and {self.more} more)" if self.more else ""
        return f"{self.expected}{found}{self.hint}{more}"


@dataclass(frozen=True, slots=True)
class Matching:
    """Annotates text of a form: pattern is the form, words is its name in a message."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | {"pattern": f"^{self.pattern}$"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"expected {self.words}")
        return text


def one_of(names: tuple[str, ...]) -> AfterValidator:
    """Annotates text that is one of these names."""

    def check(name: str) -> str:
        if name not in names:
            raise PydanticCustomError(ONE_OF, "not a known name", {"names": names})
        return name

    return AfterValidator(check)


def first_problem(error: ValidationError, model: Any = None) -> Problem:
    """The first problem of an error, whose paths lead from the model, which is a class or any other type."""
    first = error.errors(include_url=False)[0]
    kind, context, found = first["type"], first.get("ctx", {}), first["input"]
    path = tuple(part for part in first["loc"] if part != "[key]")
    more = error.error_count() - 1
    if kind in UNKNOWN_KEY:
        known = sorted(_keys_at(model, path[:-1]))
        expected = f"expected one of the keys {', '.join(known)}" if known else "expected no such key"
        return Problem(path, expected, "", did_you_mean(str(path[-1]), known), more)
    if kind in (ONE_OF, "literal_error"):
        names = context.get("names") or _literals(context["expected"])
        return Problem(path, f"expected {listed(names)}", shown(found), did_you_mean(str(found), names), more)
    if kind == "value_error":
        return Problem(path, str(context["error"]), _beside(str(context["error"]), found), "", more)
    if kind in MISSING:
        return Problem(path, f"expected {EXPECTED[kind]}", "nothing", "", more)
    limits = {name: f"{value:.15g}" if isinstance(value, float) else value for name, value in context.items()}
    words = f"expected {EXPECTED.get(kind, NOT_NAMED).format(**limits)}" if kind in _LIBRARY_ERRORS else first["msg"]
    text = short(str(found)) if kind in LIMITS and isinstance(found, str | float) else shown(found)
    return Problem(path, words, text, "", more)


def dotted(path: Iterable[int | str]) -> str:
    """A path of keys and indexes in one line, e.g. story.0.value."""
    return ".".join(plain(part) if isinstance(part, str) else str(part) for part in path)


def _beside(message: str, found: Any) -> str:
    """The value that a message of our own is about, unless it names it, or is about several keys together."""
    names_it = ", found " in message or ", got " in message
    return "" if names_it or isinstance(found, dict | BaseModel) else shown(found)


def _literals(text: str) -> list[str]:
    """The names in the library's list of literals: 'bad', 'good' or 'both'."""
    return re.findall(r"'([^']*)'", text) or [text]


def _keys_at(model: Any, path: Iterable[int | str]) -> set[str]:
    """The keys that a value at this path may have; empty where that is not known."""
    types = _tables(model)
    for part in path:
        if isinstance(part, int):
            continue
        inner = [_fields(each)[part] for each in types if part in _fields(each)]
        types = [each for one in inner for each in _tables(one)] if inner else types
    return {name for each in types for name in _fields(each)}


def _tables(annotation: Any) -> list[type]:
    """The models and dataclasses in a type."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        return [annotation]
    return [each for part in get_args(annotation) if not isinstance(part, Tag) for each in _tables(part)]


def _fields(table: type) -> dict[str, Any]:
    if issubclass(table, BaseModel):
        return {field.alias or name: field.annotation for name, field in table.model_fields.items()}
    types = get_type_hints(table)
    return {field.name: types[field.name] for field in fields(table)}  # type: ignore[arg-type]


_LIBRARY_ERRORS = frozenset(get_args(core_schema.ErrorType))
