"""What a response or a tool's output is expected to be, and its comparison with what was found.

    compared("error_code", "none", "none").holds                    # True
    compared("leader_epoch", {"at_least": 8}, 7).expected           # "at least 8"

An expected value is a JSON value, which has to be equal, or a table of one comparison of COMPARISONS. A field of a
response is named by its path of names and indexes, `topics.0.partitions.0.error_code`; `length` after a list's path is
its number of elements.

Contains values and pure functions. Does not contain requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.shown_values import listed, shown

MISSING: Final = object()
"""What is found at a path that a response does not have."""

LENGTH: Final = "length"


def _is_equal(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and bool(found == expected)  # True is not 1


COMPARISONS: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "not": ("not", lambda found, bound: not _is_equal(found, bound)),
    "at_least": ("at least", lambda found, bound: _is_number(found) and found >= bound),
    "at_most": ("at most", lambda found, bound: _is_number(found) and found <= bound),
    "one_of": ("one of", lambda found, bound: any(_is_equal(found, each) for each in bound)),
}
"""Each comparison's words, and whether what was found holds against the bound."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One expectation and what was found, both in words; holds says whether they agree."""

    field: str
    expected: str
    found: str
    holds: bool

    def to_json(self) -> dict[str, Any]:
        """As the history stores it."""
        return {"field": self.field, "expected": self.expected, "found": self.found, "holds": self.holds}


def compared(field: str, expected: Any, found: Any) -> Compared:
    """Compare what was found, or MISSING, with an expected value or comparison."""
    if isinstance(expected, Mapping):
        ((name, bound),) = expected.items()
        words, holds = COMPARISONS[name]
        return Compared(
            field, f"{words} {json.dumps(bound)}", _text(found), found is not MISSING and holds(found, bound)
        )
    return Compared(field, json.dumps(expected), _text(found), _is_equal(found, expected))


def found_at(response: Any, path: str) -> Any:
    """The value at a path of a response in JSON, MISSING if the response has none there."""
    found = response
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(part, MISSING)
        elif isinstance(found, list) and part == LENGTH:
            found = len(found)
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return MISSING
    return found


def refuse_malformed(expected: Any) -> Any:
    """The expected value. Raises ValueError for a table that is no comparison, or whose bound does not suit it."""
    if not isinstance(expected, Mapping):
        return expected
    if len(expected) != 1 or next(iter(expected)) not in COMPARISONS:
        raise ValueError(f"expected a value, or a table of {listed(COMPARISONS)}, found {shown(dict(expected))}")
    ((name, bound),) = expected.items()
    if name == "one_of" and not (isinstance(bound, list) and bound):
        raise ValueError(f"one_of: expected a list, found {shown(bound)}")
    if name.startswith("at_") and not (_is_number(bound) or (isinstance(bound, str) and bound.startswith("$"))):
        raise ValueError(f"{name}: expected a number or a placeholder, found {shown(bound)}")
    return expected


def values_of(expected: Any) -> list[Any]:
    """The values that an expectation names: the value itself, or those of its comparison."""
    if not isinstance(expected, Mapping):
        return [expected]
    ((name, bound),) = expected.items()
    return list(bound) if name == "one_of" else [bound]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(found: Any) -> str:
    return "no such field" if found is MISSING else json.dumps(found)
