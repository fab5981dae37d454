"""A fault for `splitbrain faults show NAME`: its actions, their arguments, and a step as a plan file has it.

Contains the description, from the types that validate plans. Does not contain any fault (nemesis).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import tomli_w
from pydantic import TypeAdapter

from harness.model.nemesis_ops import SLEEP
from nemesis.fault import Action, Fault

NODES = 3
"""The number of nodes of the example."""


def as_json(fault: Fault) -> dict[str, Any]:
    """The fault for programs: the arguments of its actions as JSON Schemas, and an example."""
    return {
        "fault": fault.name,
        "summary": fault.summary,
        "actions": {name: _schema(action) for name, action in fault.actions.items()},
        "example": [{"f": step["f"], "value": step.get("value")} for step in _example(fault)],
    }


def describe(fault: Fault) -> str:
    """The fault as text."""
    lines = [f"{fault.name}: {fault.summary}", ""]
    for name, action in fault.actions.items():
        lines += [f"{name}{_ends(action)}", *(f"  {line}" for line in _arguments(_schema(action)))]
    example = tomli_w.dumps({"story": _example(fault)}).rstrip()
    return "\n".join([*lines, "", "In a plan file:", "", example])


def _ends(action: Action) -> str:
    if action.ends:
        return f" (ends {', '.join(sorted(action.ends))})"
    if action.waits:
        return " (waits)"
    return " (momentary)" if action.momentary else ""


def _schema(action: Action) -> Mapping[str, Any]:
    return TypeAdapter(action.arguments).json_schema()


def _arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    """A line for each argument; for actions with several forms, the forms one after another."""
    forms = schema.get("oneOf") or schema.get("anyOf") or [schema]
    definitions = schema.get("$defs", {})
    for form in forms:
        resolved = definitions.get(form.get("$ref", "").rpartition("/")[2], form)
        required = resolved.get("required", [])
        for name, each in resolved.get("properties", {}).items():
            yield f"{name}: {_values(each)}{_default(each, name in required)}"
        if form is not forms[-1]:
            yield "or"


def _values(schema: Mapping[str, Any]) -> str:
    """The values that an argument accepts, in words."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_values(each) for each in schema["anyOf"] if each.get("type") != "null")
    if "prefixItems" in schema:
        return "pairs of nodes"
    if schema.get("type") == "array":
        return f"list of {_values(schema['items'])}"
    if "pattern" in schema:
        return "a node or role, e.g. n1, leader, minority" if "leader" in schema["pattern"] else "text"
    bounds = [
        f"{word} {schema[key]:g}"
        for key, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "less than"),
        )
        if key in schema
    ]
    kind = {"integer": "whole number", "number": "number", "string": "text", "object": "table"}
    return f"{kind.get(str(schema.get('type')), 'value')}{', ' if bounds else ''}{', '.join(bounds)}"


def _default(schema: Mapping[str, Any], is_required: bool) -> str:
    default = schema.get("default")
    if is_required or default is None:
        return "" if is_required else "; optional"
    return f"; default {', '.join(map(str, default)) if isinstance(default, list) else default}"


def _example(fault: Fault) -> list[dict[str, Any]]:
    """The steps of one random occurrence, always the same."""
    steps = [step for step in fault.sample(random.Random(1), NODES) if step.f != SLEEP]
    return [{"f": step.f, **({} if step.value is None else {"value": step.value})} for step in steps]
