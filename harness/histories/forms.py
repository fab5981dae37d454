"""From a form, as EDN and JSON have it, to an operation: a row of the history table, or what was expected instead.

Keys are :process (a number, or :nemesis), :type, :f, :value, and if there :key, :time, :node and :error. A history
whose every invocation has a value [key value] is one of independent keys, as Jepsen writes them, and is taken apart;
a compare-and-set's own pair is not such a value.

What may live here: what a form must be. What may not: files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.histories.edn import Keyword
from harness.model import NEMESIS

TYPES = ("invoke", "ok", "fail", "info")
NUMBER_MAX = 2**31 - 1
TIME_MAX = 2**63 - 1


class Malformed(Exception):
    """A form that is no operation, or not one that can come here; the text begins with `expected`."""


@dataclass(slots=True)
class Processes:
    """Which operation each process has open: an invocation's f, until its completion."""

    open: dict[int, str] = field(default_factory=dict)

    def follow(self, row: dict[str, Any]) -> str | None:
        """Why this row cannot come now, None where it can. What follows is read as if it had been right."""
        process, f = row["process"], row["f"]
        if process == NEMESIS:
            return None
        asked = self.open.get(process)
        if row["type"] == "invoke":
            self.open[process] = f
            return None if asked is None else f"expected process {process} to complete its {asked} first"
        if asked != f:
            found = "none" if asked is None else asked
            return f"expected an open {f} of process {process} for its {row['type']}, found {found}"
        del self.open[process]
        return None


def row_of(form: Any, fs: Sequence[str]) -> dict[str, Any]:
    """The form as a row without index. Raises Malformed."""
    if not isinstance(form, dict):
        raise Malformed(f"expected a map with process, type, f and value, found {shown(form)}")
    process = form.get("process")
    if process == "nemesis":
        process = NEMESIS
    number = whole(process, NEMESIS)
    if number is None:
        raise Malformed(f"expected process to be a number or nemesis, found {shown(process)}")
    kind, f = form.get("type"), form.get("f")
    if kind not in TYPES:
        raise Malformed(f"expected type to be one of {', '.join(TYPES)}, found {shown(kind)}")
    if not isinstance(f, str) or (number != NEMESIS and f not in fs):
        words = ", ".join(word for word in fs if word)
        raise Malformed(f"expected f to be one of {words}, found {shown(f)}")
    key, error = form.get("key"), form.get("error")
    return {
        "process": number,
        "type": str(kind),
        "f": str(f),
        "key": key if key is None or isinstance(key, str) else json.dumps(key),
        "value": form.get("value"),
        "node": whole(form.get("node"), 0),
        "error": error if error is None or isinstance(error, str) else json.dumps(error),
        "time_ns": whole(form.get("time"), 0, TIME_MAX),
    }


def whole(value: Any, least: int, most: int = NUMBER_MAX) -> int | None:
    """The value if it is a whole number in this range."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and least <= value <= most else None


def shown(value: Any) -> str:
    """What was found, as briefly as a message can have it."""
    if isinstance(value, Keyword):
        return f":{value}"
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def has_independent_keys(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether every invocation of these rows has a value [key value]."""
    asked = [row for row in rows if row["type"] == "invoke" and row["process"] != NEMESIS]
    return bool(asked) and all(
        row["key"] is None and is_pair(row["value"]) and (row["f"] != "cas" or is_pair(row["value"][1]))
        for row in asked
    )


def refuse_value(row: dict[str, Any], fs: Sequence[str]) -> None:
    """Raise Malformed where the value is none that the operation can have."""
    value = row["value"]
    if row["f"] == "cas" and row["type"] == "invoke" and not is_pair(value):
        raise Malformed(f"expected a cas value [old, new], found {shown(value)}")
    if "increment" in fs:
        refuse_uncounted(row)
    elif "add" in fs and row["f"] == "read" and row["type"] == "ok" and not isinstance(value, list | None):
        raise Malformed(f"expected a read's value to be a list of the set's elements, found {shown(value)}")


def refuse_uncounted(row: dict[str, Any]) -> None:
    """Raise Malformed where a counter's value is no whole number."""
    value = row["value"]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise Malformed(f"expected a counter's value to be a whole number, found {shown(value)}")


def is_pair(value: Any) -> bool:
    """Whether this is a list of two."""
    return isinstance(value, list) and len(value) == 2


def taken_apart(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its key out of its value. Raises Malformed where that is no pair."""
    if row["process"] == NEMESIS:
        return row
    if not is_pair(row["value"]):
        raise Malformed(f"expected a value [key value] as in the rows before, found {shown(row['value'])}")
    key, value = row["value"]
    return {**row, "key": key if isinstance(key, str) else json.dumps(key), "value": value}
