"""Finds in a server's log why the server ended: the last exception or error that it logged.

    begin = size_of(log)                  # when the server starts
    last_error(log, begin)                # 'java.lang.IllegalStateException: …', or None

Contains the search in a log. What an error means is up to the reader.
"""

from __future__ import annotations

import re
from pathlib import Path

TAIL_BYTES = 256 << 10
ERROR_CHARACTERS_MAX = 400

_EXCEPTION = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)*[\w$]*(?:Exception|Error|Failure)\b(?:: .*)?)$")
_PLAIN = re.compile(r"^([^\s\[].*)$")
_ERROR = re.compile(r"^\[[^]]*\] (?:ERROR|FATAL) (.*)$")


def size_of(log: Path) -> int:
    """The size of a log in bytes; 0 if there is none."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def last_error(log: Path, begin: int = 0) -> str | None:
    """The last exception that a log has after this position; without one, its last line of level ERROR or FATAL.

    Without either it is the last line, if that has no time stamp: a program's own words. None if there is nothing of
    the kind. Of an exception with causes it is the last cause.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(begin, size_of(log) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return None
    for pattern, where in ((_EXCEPTION, lines), (_ERROR, lines), (_PLAIN, lines[-1:])):
        found = next((match[1] for line in reversed(where) if (match := pattern.match(line))), None)
        if found is not None:
            return found[:ERROR_CHARACTERS_MAX]
    return None
