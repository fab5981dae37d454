"""Reads the small text files that a user names: plans, inventories and the JSON files of a run.

    read_toml(Path("nightly.toml"), "a plan in TOML")

A file must be regular, not larger than BYTES_MAX, and UTF-8, with or without a byte order mark. Anything else is
BadInput in one line that names the file, what was expected and what was found; nothing is read from a device or a pipe.

This module is on the level of harness.model. It knows files and syntax. It does not know what keys mean.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from harness.model.errors import BadInput, reason_of

BYTES_MAX = 8 << 20
"""More than any plan or inventory has; a parser of text takes a second for it."""
KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}
TOML_PLACE = re.compile(r"(?P<problem>.*) \(at (?P<place>line \d+, column \d+|end of document)\)", re.DOTALL)


def read_text(path: Path, expected: str, bytes_max: int = BYTES_MAX) -> str:
    """The text of a file. expected says what the user should have named, e.g. 'a plan in TOML'. Raises BadInput."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer would block
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: expected {expected}, found {_problem_of(error)}") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = next((words for is_kind, words in KINDS.items() if is_kind(mode)), "no regular file")
            raise BadInput(f"{path}: expected {expected}, found {kind}")
        content = _at_most(descriptor, bytes_max + 1)
    except OSError as error:
        raise BadInput(f"{path}: expected {expected}, found {_problem_of(error)}") from error
    finally:
        os.close(descriptor)
    if len(content) > bytes_max:
        raise BadInput(f"{path}: expected {expected} of at most {bytes_max >> 20} MiB, found more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte 0x{content[error.start]:02x} at position {error.start}"
        raise BadInput(f"{path}: expected {expected} as UTF-8 text, found {place}") from error


def read_toml(path: Path, expected: str) -> dict[str, Any]:
    """The content of a TOML file. Raises BadInput as read_text does, and with line and column for invalid TOML."""
    text = read_text(path, expected)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise BadInput(f"{path}: expected {expected}, found values that are nested too deeply") from error
    except ValueError as error:  # its own error, and a number of too many digits
        place = TOML_PLACE.fullmatch(str(error))
        if place is None:
            raise BadInput(f"{path}: expected {expected}, found a number of too many digits") from error
        raise BadInput(f"{path}: {place['place']}: expected {expected}: {place['problem']}") from error


def read_json(path: Path, expected: str, bytes_max: int = BYTES_MAX) -> Any:
    """The value in a JSON file. Raises BadInput as read_text does, and with line and column for invalid JSON."""
    text = read_text(path, expected, bytes_max)
    if not text.strip():
        raise BadInput(f"{path}: expected {expected}, found an empty file")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise BadInput(f"{path}: expected {expected}, found values that are nested too deeply") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadInput(f"{path}: {place}: expected {expected}, found text that is not valid JSON") from error
    except ValueError as error:
        raise BadInput(f"{path}: expected {expected}, found a number of too many digits") from error


def _problem_of(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return reason_of(error) if isinstance(error, OSError) else "a name with a null character"


def _at_most(descriptor: int, count: int) -> bytes:
    """Up to count bytes from the beginning of a file."""
    parts = []
    while count > 0 and (part := os.read(descriptor, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
