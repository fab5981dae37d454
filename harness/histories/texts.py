"""Text formats: converts a file's text to forms with their lines, from EDN, JSON lines and Jepsen's logs.

A line of a log is `INFO  jepsen.util - 3  :ok  :read  4`: process, type, f, value and sometimes an error. Lines of
other loggers are ignored. If a fail or info has only a keyword, as in `:info :write :timed-out`, it is the error.

Contains formats. Does not contain the requirements on operations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.histories import edn
from harness.histories.forms import Malformed

Forms = Iterator[tuple[int, Any]]
"""Line numbers from 1 and forms; Malformed instead of a form that cannot be read."""

LOG_LINE = re.compile(r"\bjepsen\.util\s+-\s+(?P<rest>.*)$")
OPERATION = re.compile(r"(?P<process>:?[\w-]+)\s+:(?P<type>[\w-]+)\s+:(?P<f>[\w-]+)\s*(?P<rest>.*)")


def edn_forms(text: str) -> Forms:
    """One form after another, or all in one vector or list."""
    for line, form in edn.forms(text):
        yield line, Malformed(f"expected {form}") if isinstance(form, edn.NotEdn) else form


def json_forms(text: str) -> Forms:
    """One object per line."""
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            yield line, json.loads(row)
        except ValueError as error:
            yield line, Malformed(f"expected a JSON object: {error}")


def log_forms(text: str) -> Forms:
    """The operations in a log."""
    for line, row in enumerate(text.split("\n"), 1):
        found = LOG_LINE.search(row)
        if found is None:
            continue
        match = OPERATION.fullmatch(found["rest"].strip())
        if match is None:
            yield line, Malformed(f"expected process, :type, :f and value, found {found['rest'][:60]}")
            continue
        try:
            yield line, _operation(match)
        except edn.NotEdn as error:
            yield line, Malformed(f"expected {error}")


def _operation(match: re.Match[str]) -> dict[str, Any]:
    process: Any = match["process"].lstrip(":")
    rest = [form for _, form in edn.forms(f"[{match['rest']}]")]
    for form in rest:
        if isinstance(form, edn.NotEdn):
            raise form
    value, error = (*rest, None, None)[:2]
    if isinstance(value, edn.Keyword) and match["type"] in ("fail", "info"):
        value, error = None, value
    return {
        "process": int(process) if process.isdigit() else process,
        "type": match["type"],
        "f": match["f"],
        "value": value,
        "error": error,
    }


FORMATS: Mapping[str, Callable[[str], Forms]] = {
    ".edn": edn_forms,
    ".txt": edn_forms,
    ".jsonl": json_forms,
    ".json": json_forms,
    ".log": log_forms,
}
"""By file suffix; the first line of a .txt or .log file shows if it has another of these formats."""


def forms_of(suffix: str, text: str) -> Forms:
    """The forms of a text, whose format follows from the file's suffix and the first line."""
    start = text.lstrip()[:4096]
    if LOG_LINE.search(start.partition("\n")[0]):
        return log_forms(text)
    if suffix in (".log", ".txt") and start.startswith('{"'):
        return json_forms(text)
    if suffix == ".log" and start.startswith(("{:", "[{", "({", "#")):
        return edn_forms(text)
    return FORMATS[suffix](text)
