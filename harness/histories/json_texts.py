"""Reads operations from JSON: one object per line, or one array of objects.

JSON's own rules apply: NaN and Infinity, which many parsers accept, are refused, as are numbers beyond the range of a
double.

Contains the syntax. Does not contain the meaning of operations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isinf
from typing import Any, Final

from harness.histories.edn import DEPTH_MAX, DIGITS_MAX
from harness.histories.forms import Forms, Malformed

SPACE: Final = re.compile(r"[ \t\r\n]*")


def json_lines(text: str) -> Forms:
    """One object per line; blank lines are skipped."""
    for line, row in enumerate(text.split("\n"), 1):
        if row.strip():
            yield line, _read(row, DECODER.decode, row)


def json_array(text: str) -> Forms:
    """The members of one array, each with its first line. After a syntax error nothing more is read."""
    at = _after_space(text, text.index("[") + 1)
    line, counted = 1, 0
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        read = _read(text, DECODER.raw_decode, text, at)
        if isinstance(read, Malformed):
            yield line, read
            return
        form, end = read
        yield line, form
        at = _after_space(text, end)
        if text[at : at + 1] == ",":
            at = _after_space(text, at + 1)
        elif text[at : at + 1] != "]":
            line += text.count("\n", counted, at)
            yield line, Malformed(f"expected , or ] after an operation{_found(text, at)}")
            return
    rest = _after_space(text, at + 1)
    if rest < len(text):
        line += text.count("\n", counted, rest)
        yield line, Malformed(f"expected nothing after the array{_found(text, rest)}")


def json_value(text: str) -> Any:
    """The value of a JSON text. Raises Malformed if it is not JSON."""
    value = _read(text, DECODER.decode, text)
    if isinstance(value, Malformed):
        raise value
    return value


def _read(text: str, decode: Callable[..., Any], *arguments: Any) -> Any:
    """What decode returns, or Malformed."""
    try:
        return decode(*arguments)
    except json.JSONDecodeError as error:
        return Malformed(f"expected JSON at column {error.colno}{_found(text, error.pos)}")
    except RecursionError:
        return Malformed(f"expected values nested at most {DEPTH_MAX} deep")
    except ValueError:
        return Malformed(f"expected numbers of at most {DIGITS_MAX:,} digits")
    except Malformed as error:
        return error


def _found(text: str, at: int) -> str:
    """The end of a message: what is at this offset, up to the end of its line."""
    found = text[at : at + 40].split("\n")[0].strip()
    return f", found {found}" if found else ", found the end of the line"


def _after_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    assert match is not None
    return match.end()


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise Malformed(f"expected a finite number, found {text[:40]}")
    return number


def _refuse_constant(text: str) -> Any:
    raise Malformed(f"expected a finite number, found {text}")


DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
