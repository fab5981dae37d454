"""Deliberately plain twins of the models: what each operation does, in a line of Python, and every order tried.

What may live here: such twins, for the tests and benchmarks. What may not: anything that a check calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Call(NamedTuple):
    """An operation: when it was invoked, when it returned (None if it crashed), what it asked, what it returned."""

    call: int
    back: int | None
    f: str
    asked: Any
    returned: Any


Rule = Callable[[Call, Any], tuple[bool, Any]]
"""Whether a call can happen in a state, and the state after it."""


def explained(calls: Sequence[Call], held: Any, rule: Rule) -> bool:
    """Whether some order of the calls explains the model: tries every one of them."""
    returned = [call.back for call in calls if call.back is not None]
    if not returned:
        return True
    soonest = min(returned)
    for index, call in enumerate(calls):
        if call.call < soonest:
            legal, after = rule(call, held)
            if legal and explained([*calls[:index], *calls[index + 1 :]], after, rule):
                return True
    return False


def register(call: Call, held: Any) -> tuple[bool, Any]:
    """returned is False for a compare-and-set that was refused."""
    if call.f == "read":
        return call.returned == held, held
    if call.f == "write":
        return True, call.asked
    old, new = call.asked
    return (held != old, held) if call.returned is False else (held == old, new)


def key_value(call: Call, held: Any) -> tuple[bool, Any]:
    """Texts, the empty one where nothing was put."""
    if call.f == "get":
        return (call.returned or "") == held, held
    return True, call.asked if call.f == "put" else held + call.asked


def mutex(call: Call, held: Any) -> tuple[bool, Any]:
    """Free or held."""
    return held == ("free" if call.f == "acquire" else "held"), "held" if call.f == "acquire" else "free"


def grow_set(call: Call, held: Any) -> tuple[bool, Any]:
    """A read returns every element."""
    if call.f == "read":
        return set(call.returned or []) == held, held
    return True, held | {call.asked}


def queue(call: Call, held: Any) -> tuple[bool, Any]:
    """First in, first out; a crashed dequeue may have taken whatever came first."""
    if call.f == "enqueue":
        return True, (*held, call.asked)
    if call.back is None:
        return True, held[1:]
    if call.returned is None:
        return not held, held
    return held[:1] == (call.returned,), held[1:]


TWINS: Mapping[str, tuple[Rule, Any]] = {
    "register": (register, None),
    "cas-register": (register, None),
    "kv": (key_value, ""),
    "mutex": (mutex, "free"),
    "set": (grow_set, frozenset()),
    "fifo-queue": (queue, ()),
}
"""By model: its rule, and what it holds at first."""
