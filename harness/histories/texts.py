"""Text formats: which one a text has, and its forms with their lines.

The content decides where it is unmistakable: an object with a JSON member, a map with an EDN keyword, a line of a
Jepsen log. Otherwise the end of the file's name does.

A line of a log is `INFO  jepsen.util - 3  :ok  :read  4`: process, type, f, value and sometimes an error. Lines of
other loggers are ignored. If a fail or info has only a keyword, as in `:info :write :timed-out`, it is the error.

Contains formats. Does not contain the requirements on operations, or files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.histories import edn
from harness.histories.forms import Forms, Malformed
from harness.histories.json_texts import json_array, json_lines

LOG_LINE = re.compile(r"\bjepsen\.util\s+-\s+(?P<rest>.*)$", re.MULTILINE)
OPERATION = re.compile(r"(?P<process>:?[\w-]+)\s+:(?P<type>[\w-]+)\s+:(?P<f>[\w-]+)\s*(?P<rest>.*)")
PROCESS_DIGITS_MAX: Final = 18


def edn_forms(text: str) -> Forms:
    """One form after another, or all in one vector or list."""
    for line, form in edn.forms(text):
        yield line, Malformed(f"expected {form}") if isinstance(form, edn.NotEdn) else form


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
        "process": int(process) if process.isdecimal() and len(process) <= PROCESS_DIGITS_MAX else process,
        "type": match["type"],
        "f": match["f"],
        "value": value,
        "error": error,
    }


@dataclass(frozen=True, slots=True)
class Format:
    """A text format: its name in messages, the end of a file's name, its reader, and what a text of it starts with."""

    name: str
    suffix: str
    forms: Callable[[str], Forms]
    start: re.Pattern[str]


_MEMBER = r'\{\s*"(?:[^"\\]++|\\.)*+"\s*:\s*(?:["\[{\d-]|(?:true|false|null)\b)'
"""A JSON object's first member. `"f" :read` in EDN has no value after the colon."""

JSON_LINES: Final = Format("JSON lines", ".jsonl", json_lines, re.compile(_MEMBER))
JSON_ARRAY: Final = Format("a JSON array", ".json", json_array, re.compile(rf"\[\s*(?:{_MEMBER}|\]\s*\Z)"))
EDN: Final = Format("EDN", ".edn", edn_forms, re.compile(r"[\[(]?\s*(?:\{\s*:\w|#[\w.]+\s*\{|;)"))
LOG: Final = Format("a Jepsen log", ".log", log_forms, LOG_LINE)

BY_SUFFIX: Final[Mapping[str, Format]] = {
    ".edn": EDN,
    ".txt": EDN,
    ".jsonl": JSON_LINES,
    ".json": JSON_LINES,
    ".log": LOG,
}
"""The formats of texts that show none."""

START_CHARACTERS: Final = 65_536
"""How much of a text can show its format."""


def format_of(suffix: str, start: str) -> Format | None:
    """The format of a text that starts like this, from a file with this suffix ("" if it has none)."""
    text = start.lstrip()
    for each in (JSON_LINES, JSON_ARRAY, EDN):
        if each.start.match(text):
            return each
    if LOG.start.search(text):
        return LOG
    if suffix == ".json" and text.startswith("["):
        return JSON_ARRAY
    return BY_SUFFIX.get(suffix)


def forms_of(format_: Format, text: str) -> Iterator[tuple[int, Any]]:
    """The forms of a text, each with its line; Malformed for strings that no text can contain."""
    forms = format_.forms(text)
    return _without_surrogates(forms) if "\\ud" in text or "\\uD" in text else forms


def _without_surrogates(forms: Forms) -> Forms:
    """JSON can name one half of a character; no file can store it."""
    for line, form in forms:
        try:
            json.dumps(form, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            yield line, Malformed("expected whole characters, found half of one (a surrogate)")
        except (TypeError, RecursionError):
            yield line, form  # it is malformed for another reason
        else:
            yield line, form
