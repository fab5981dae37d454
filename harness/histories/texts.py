"""The text formats, each from a file's text to forms with their lines: EDN, JSON lines, and Jepsen's logs.

A log's line is `INFO  jepsen.util - 3  :ok  :read  4`: process, type, f and value, and sometimes an error. The lines
of other loggers say nothing of the history. A completion that only says why, as in `:info :write :timed-out`, has that
as its error.

What may live here: formats line by line. What may not: what an operation must be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.histories import edn
from harness.histories.forms import Malformed

Forms = Iterator[tuple[int, Any]]
"""Line numbers from 1 and forms; Malformed in place of a form that cannot be read."""

LOG_LINE = re.compile(r"\bjepsen\.util\s+-\s+(?P<rest>.*)$")
WORDS = re.compile(r"(?P<process>:?[\w-]+)\s+:(?P<type>[\w-]+)\s+:(?P<f>[\w-]+)\s*(?P<told>.*)")


def edn_forms(text: str) -> Forms:
    """One operation after the other, or all in a vector or list."""
    for line, form in edn.forms(text):
        yield line, Malformed(f"expected {form}") if isinstance(form, edn.NotEdn) else form


def json_forms(text: str) -> Forms:
    """One object a line."""
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            yield line, json.loads(row)
        except ValueError as error:
            yield line, Malformed(f"expected a JSON object: {error}")


def log_forms(text: str) -> Forms:
    """The operations among a log's lines."""
    for line, row in enumerate(text.split("\n"), 1):
        found = LOG_LINE.search(row)
        if found is None:
            continue
        words = WORDS.fullmatch(found["rest"].strip())
        if words is None:
            yield line, Malformed(f"expected process, :type, :f and value, found {found['rest'][:60]}")
            continue
        try:
            yield line, _operation(words)
        except edn.NotEdn as error:
            yield line, Malformed(f"expected {error}")


def _operation(words: re.Match[str]) -> dict[str, Any]:
    process: Any = words["process"].lstrip(":")
    told = [form for _, form in edn.forms(f"[{words['told']}]")]
    for form in told:
        if isinstance(form, edn.NotEdn):
            raise form
    value, error = (*told, None, None)[:2]
    if isinstance(value, edn.Keyword) and words["type"] in ("fail", "info"):
        value, error = None, value
    return {
        "process": int(process) if process.isdigit() else process,
        "type": words["type"],
        "f": words["f"],
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
"""By a file's ending; a .txt or .log that is another of these is told by its first line."""


def forms_of(ending: str, text: str) -> Forms:
    """The forms of a text, by the ending of its file's name and by what it looks like."""
    start = text.lstrip()[:4096]
    if LOG_LINE.search(start.partition("\n")[0]):
        return log_forms(text)
    if ending in (".log", ".txt") and start.startswith('{"'):
        return json_forms(text)
    if ending == ".log" and start.startswith(("{:", "[{", "({", "#")):
        return edn_forms(text)
    return FORMATS[ending](text)
