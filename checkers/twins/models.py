"""Plain twins of the models: what each operation does, in a line of Python, and a search that tries every order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Call(NamedTuple):
    """An operation: its call, its return (None if it crashed), its argument, and its result."""

    call: int
    back: int | None
    f: str
    argument: Any
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
        return True, call.argument
    old, new = call.argument
    return (held != old, held) if call.returned is False else (held == old, new)


def key_value(call: Call, held: Any) -> tuple[bool, Any]:
    """Texts, initially empty."""
    if call.f == "get":
        return (call.returned or "") == held, held
    return True, call.argument if call.f == "put" else held + call.argument


def mutex(call: Call, held: Any) -> tuple[bool, Any]:
    """Free or held."""
    return held == ("free" if call.f == "acquire" else "held"), "held" if call.f == "acquire" else "free"


def grow_set(call: Call, held: Any) -> tuple[bool, Any]:
    """A read returns every element."""
    if call.f == "read":
        return set(call.returned or []) == held, held
    return True, held | {call.argument}


def queue(call: Call, held: Any) -> tuple[bool, Any]:
    """First in, first out; a crashed dequeue may have taken the first value."""
    if call.f == "enqueue":
        return True, (*held, call.argument)
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
"""By model: its rule, and its initial state."""
