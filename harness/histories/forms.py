"""Converts a form from EDN or JSON to an operation, a row of the history table; or reports what was expected.

Keys are :process (a number, or :nemesis), :type, :f and :value, optionally :key, :time, :node and :error. If every
invocation of a history has a value [key value], the keys are independent (jepsen.independent) and the pairs are split.
The pair of a compare-and-set is not such a value.

Contains the requirements on forms. Does not contain files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.histories.edn import DEPTH_MAX, Keyword
from harness.model import NEMESIS

TYPES = ("invoke", "ok", "fail", "info")
NUMBER_MAX = 2**31 - 1
TIME_MAX = 2**63 - 1
COUNT_MAX = 10**12


Forms = Iterator[tuple[int, Any]]
"""Line numbers from 1 and forms; Malformed instead of a form that cannot be read."""


class Malformed(Exception):
    """A form that is not an operation, or is out of place; the message begins with `expected`."""


@dataclass(slots=True)
class Processes:
    """The open operation of each process: the f of its invocation."""

    open: dict[int, str] = field(default_factory=dict)

    def check(self, row: dict[str, Any]) -> str | None:
        """Why the row cannot follow the previous ones; None if it can. Later rows are checked as if it could."""
        process, f = row["process"], row["f"]
        if process == NEMESIS:
            return None
        open_f = self.open.get(process)
        if row["type"] == "invoke":
            self.open[process] = f
            return None if open_f is None else f"expected process {process} to complete its {open_f} first"
        if open_f != f:
            found = "none" if open_f is None else open_f
            return f"expected an open {f} of process {process} for its {row['type']}, found {found}"
        del self.open[process]
        return None


def row_of(form: Any, fs: Sequence[str]) -> dict[str, Any]:
    """The form as a row without index. Raises Malformed for an invalid form."""
    if not isinstance(form, dict):
        raise Malformed(f"expected a map with process, type, f and value, found {short(form)}")
    process = form.get("process")
    if process == "nemesis":
        process = NEMESIS
    number = integer(process, NEMESIS)
    if number is None:
        raise Malformed(f"expected process to be a number or nemesis, found {short(process)}")
    kind, f = form.get("type"), form.get("f")
    if kind not in TYPES:
        raise Malformed(f"expected type to be one of {', '.join(TYPES)}, found {short(kind)}")
    if not isinstance(f, str) or (number != NEMESIS and f not in fs):
        names = ", ".join(name for name in fs if name)
        raise Malformed(f"expected f to be one of {names}, found {short(f)}")
    key, error, value = form.get("key"), form.get("error"), form.get("value")
    for each in (key, error, value):
        refuse_depth(each)
    return {
        "process": number,
        "type": str(kind),
        "f": str(f),
        "key": key if key is None or isinstance(key, str) else json.dumps(key),
        "value": value,
        "node": integer(form.get("node"), 0),
        "error": error if error is None or isinstance(error, str) else json.dumps(error),
        "time_ns": time_of(form.get("time")),
    }


def time_of(value: Any) -> int | None:
    """The time in nanoseconds; None without one. Raises Malformed for anything but a number from 0 on."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= TIME_MAX:
        raise Malformed(f"expected time to be nanoseconds from 0 on, found {short(value)}")
    return min(round(value), TIME_MAX)


def refuse_depth(value: Any, depth: int = 0) -> None:
    """Raise Malformed for a value that is nested deeper than DEPTH_MAX."""
    if not isinstance(value, list | dict):
        return
    if depth >= DEPTH_MAX:
        raise Malformed(f"expected values nested at most {DEPTH_MAX} deep")
    for member in value.values() if isinstance(value, dict) else value:
        refuse_depth(member, depth + 1)


def integer(value: Any, minimum: int, maximum: int = NUMBER_MAX) -> int | None:
    """The value if it is an integer in this range, else None."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and minimum <= value <= maximum else None


def short(value: Any) -> str:
    """The value as a short text for messages."""
    if isinstance(value, Keyword):
        return f":{value}"
    if value is None:
        return "nothing"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 60 else f"{text[:60]}…"


def has_independent_keys(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether every invocation of these rows has a value [key value]."""
    invocations = [row for row in rows if row["type"] == "invoke" and row["process"] != NEMESIS]
    return bool(invocations) and all(
        row["key"] is None and is_pair(row["value"]) and (row["f"] != "cas" or is_pair(row["value"][1]))
        for row in invocations
    )


def refuse_value(row: dict[str, Any], fs: Sequence[str]) -> None:
    """Raise Malformed if the operation cannot have this value."""
    value = row["value"]
    if row["f"] == "cas" and row["type"] == "invoke" and not is_pair(value):
        raise Malformed(f"expected a cas value [old, new], found {short(value)}")
    if "increment" in fs:
        refuse_non_integer(row)
    elif "add" in fs and row["f"] == "read" and row["type"] == "ok" and not isinstance(value, list | None):
        raise Malformed(f"expected a read's value to be a list of the set's elements, found {short(value)}")


def refuse_non_integer(row: dict[str, Any]) -> None:
    """Raise Malformed if a counter's value is not an integer, or if sums of such values could overflow."""
    value = row["value"]
    if value is not None and integer(value, -COUNT_MAX, COUNT_MAX) is None:
        raise Malformed(f"expected a counter's value to be a whole number up to {COUNT_MAX:,}, found {short(value)}")


def is_pair(value: Any) -> bool:
    """Whether the value is a list of two."""
    return isinstance(value, list) and len(value) == 2


def split_key(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its value [key value] split. Raises Malformed if the value is not a pair."""
    if row["process"] == NEMESIS:
        return row
    if not is_pair(row["value"]):
        raise Malformed(f"expected a value [key value] as in earlier rows, found {short(row['value'])}")
    key, value = row["value"]
    return {**row, "key": key if isinstance(key, str) else json.dumps(key), "value": value}
