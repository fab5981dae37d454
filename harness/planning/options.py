"""Command-line flags derived from a request model, and the command line that makes a given request.

    @app.command("run")
    @takes(Request, but=("story",))
    def run_command(values: Mapping[str, Any], store: StoreOption) -> None: ...

    argv_of("run", request)        # ["splitbrain", "run", "--workload", "register", …]

A flag is a field's alias with dashes. Its form follows from the field's type: a mapping is NAME=VALUE and can be
repeated, a list is separated by commas, a Boolean has no value, anything else is one value. Values are checked by the
model alone, so that a flag and a plan file are refused in the same words.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from harness.model import BadInput
from harness.model.shown_values import shown
from harness.planning.plan import flag_of as flag_of_key

Form = Literal["value", "pairs", "list", "switch"]


def form_of(field: FieldInfo) -> Form:
    """How a field's flag is written."""
    origins = {get_origin(field.annotation), *(get_origin(each) for each in get_args(field.annotation))}
    if field.annotation is bool:
        return "switch"
    if dict in origins:
        return "pairs"
    return "list" if list in origins else "value"


def flag_of(name: str, field: FieldInfo) -> str:
    """A field's flag, e.g. `--time-limit`."""
    return flag_of_key(field.alias or name)


def takes(model: type[BaseModel], but: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command one flag for each field of a model; the command's first parameter receives their values by key.

    Flags that were not given are left out, so that a plan file's values, or the model's defaults, apply.
    """
    fields = {name: field for name, field in model.model_fields.items() if name not in but}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        first, *own = inspect.signature(command, eval_str=True).parameters.values()

        @functools.wraps(command)
        def with_flags(**given: Any) -> None:
            flags = {name: given.pop(name) for name in fields}
            command(**{first.name: values_of(fields, flags)}, **given)

        flags = [_parameter(name, field) for name, field in fields.items()]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        order = sorted([*parameters, *flags], key=lambda each: each.default is not inspect.Parameter.empty)
        signature = inspect.Signature(order)
        with_flags.__signature__ = signature  # type: ignore[attr-defined]
        with_flags.__annotations__ = {each.name: each.annotation for each in order}
        return with_flags

    return decorate


def values_of(fields: Mapping[str, FieldInfo], flags: Mapping[str, Any]) -> dict[str, Any]:
    """What the flags say, by the fields' aliases. Raises BadInput for a pair that is not NAME=VALUE."""
    values: dict[str, Any] = {}
    for name, field in fields.items():
        given = flags[name]
        if given is None or given == []:
            continue
        if form_of(field) == "pairs":
            given = pairs(given, flag_of(name, field))
        elif form_of(field) == "list":
            given = given.split(",")
        values[field.alias or name] = given
    return values


def pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """NAME=VALUE pairs. Raises BadInput for text that is not one."""
    split = [text.partition("=") for text in given]
    for name, equals, _ in split:
        if not name or not equals:
            raise BadInput(f"{flag}: expected NAME=VALUE, found {shown(name + equals)}")
    return {name: value for name, _, value in split}


def argv_of(command: str, request: BaseModel, arguments: Sequence[str] = (), but: Sequence[str] = ()) -> list[str]:
    """The command line that makes this request; flags with default values are left out."""
    argv = ["splitbrain", command, *arguments]
    for name, field in type(request).model_fields.items():
        value = getattr(request, name)
        if name in but or value == field.get_default(call_default_factory=True) or value is None:
            continue
        argv += _flag_words(flag_of(name, field), form_of(field), value)
    return argv


def _flag_words(flag: str, form: Form, value: Any) -> list[str]:
    if form == "switch":
        return [flag]
    if form == "pairs":
        return [word for key, each in value.items() for word in (flag, f"{key}={_word(each)}")]
    return [flag, ",".join(map(_word, value)) if form == "list" else _word(value)]


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    form = form_of(field)
    kind: Any = {"pairs": list[str], "switch": bool}.get(form, str) | None
    metavar = {"pairs": "NAME=VALUE", "list": "NAME,…", "value": _scalar(field)}.get(form)
    choices = _choices(field)
    option = typer.Option(
        flag_of(name, field),
        help=_help(field),
        metavar=metavar,
        show_default=False,
        autocompletion=(lambda incomplete: _completed(incomplete, choices)) if choices else None,
    )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])


def _completed(incomplete: str, choices: Sequence[str]) -> list[str]:
    """What the shell offers: choices for the last of the words that commas separate."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{choice}" for choice in choices if choice.startswith(last)]


def _scalar(field: FieldInfo) -> str:
    """What the help calls the value. A flag's value is text until the model checks it."""
    kinds = [field.annotation, *get_args(field.annotation)]
    return next((words for kind, words in ((int, "INTEGER"), (float, "NUMBER")) if kind in kinds), "TEXT")


def _help(field: FieldInfo) -> str:
    """The description, the choices where they are few, and the default."""
    choices = _choices(field)
    default = field.get_default(call_default_factory=True)
    parts = [field.description or ""]
    if choices:
        parts.append(f"One of {', '.join(choices)}.")
    if default not in (None, {}, []) and default is not False:
        shown = (
            ",".join(default)
            if isinstance(default, list)
            else f"{default:g}"
            if isinstance(default, float)
            else default
        )
        parts.append(f"Default: {shown}.")
    return " ".join(parts)


def _choices(field: FieldInfo) -> list[str]:
    if get_origin(field.annotation) is typing.Literal:
        return [str(each) for each in get_args(field.annotation)]
    schemas = [getattr(each, "json_schema", None) for each in field.metadata]
    inner = [getattr(each, "json_schema", None) for part in get_args(field.annotation) for each in get_args(part)]
    return next((schema["enum"] for schema in (*schemas, *inner) if schema and "enum" in schema), [])
