"""Histories of every model: random ones from a simulated model, disturbed; and translations for kernels and twins."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.framework.encoding import REFUSED
from checkers.framework.keyed import Keys, keys_of
from checkers.kernels.rows import FAIL, INFO, INVOKE, OK
from checkers.linearizability.models import MODELS
from checkers.twins.models import TWINS, Call
from harness.model import Op
from tests.support.checks.small_histories import history

KINDS = {"invoke": INVOKE, "ok": OK, "fail": FAIL, "info": INFO}
OBSERVERS = ("read", "get", "dequeue")


def random_history(
    model: str,
    source: random.Random,
    size_max: int = 7,
    processes_max: int = 4,
    noises: Sequence[float] = (0, 0.1, 0.4),
    unique: float = 0.7,
    words: Sequence[str] = (),
) -> list[Op]:
    """A few operations of some processes; each takes effect at some time while it is open, or not at all.

    noises: the shares of disturbed results, one of which is drawn. unique: the probability that no value is written
    twice. words: the f of the operations; all of the model's if empty.
    """
    held = TWINS[model][1]
    ops: list[Op] = []
    running: dict[int, tuple[Op, Op | None]] = {}
    processes, begun, size = list(range(source.randint(1, processes_max))), 0, source.randint(1, size_max)
    is_unique, noise = source.random() < unique, source.choice(noises)
    while begun < size or running:
        process = source.choice(processes)
        if process not in running:
            if begun == size:
                continue
            begun += 1
            fresh = begun if is_unique else source.randint(1, 2)
            start = Op("invoke", *arguments_of(model, source, process, fresh, words))
            ops.append(start)
            running[process] = (start, None)
        elif running[process][1] is None:
            start = running[process][0]
            held, end = happen(model, source, start, held)
            running[process] = (start, disturbed(source, end, begun) if source.random() < noise else end)
        else:
            finished = running.pop(process)[1]
            assert finished is not None
            ops.append(finished)
            if finished.type == "info":
                processes[processes.index(process)] = process + 10
    return history(*ops)


def arguments_of(
    model: str, source: random.Random, process: int, fresh: int, words: Sequence[str] = ()
) -> tuple[str, int, str, Any]:
    """An invocation's f, process, key and value."""
    f = source.choice([word for word in words or MODELS[model].fs if word])
    value: Any = None if f in (*OBSERVERS, "acquire", "release") else fresh
    if model == "kv" and value is not None:
        value = "ab"[fresh % 2] * source.randint(0, 2) + str(fresh % 3)
    return f, process, "x", [source.randint(0, fresh) or None, value] if f == "cas" else value


def happen(model: str, source: random.Random, start: Op, held: Any) -> tuple[Any, Op]:
    """Apply an operation, or not: the model's state after it, and the completion."""
    outcome = source.random()
    if outcome < 0.1:
        return held, start.fail("refused")
    returned = observed(start, held)
    legal, after = TWINS[model][0](Call(0, 0, start.f, start.value, returned), held)
    if outcome < 0.25:
        crashed = TWINS[model][0](Call(0, None, start.f, start.value, None), held)[1] if legal else held
        return source.choice([held, crashed]), start.info("timeout")
    if start.f == "cas" and not legal:
        return held, start.fail("mismatch")
    return (after if legal else held), replace(start, type="ok", value=start.value if returned is None else returned)


def observed(start: Op, held: Any) -> Any:
    """What the operation returns in this state; None if it returns nothing."""
    if start.f == "read":
        return sorted(held) if isinstance(held, frozenset) else held
    if start.f == "get":
        return held
    return (held[0] if held else None) if start.f == "dequeue" else None


def disturbed(source: random.Random, end: Op, begun: int) -> Op:
    """The completion with another result."""
    if end.type != "ok" or end.f not in OBSERVERS:
        return end
    if isinstance(end.value, list):
        return replace(end, value=[each for each in range(1, begun + 1) if source.random() < 0.5])
    if isinstance(end.value, str):
        return replace(end, value=source.choice([end.value[1:], end.value + "1", ""]))
    return replace(end, value=source.choice([None, *range(1, begun + 1)]))


def keys_from(model: str, histories: Sequence[Sequence[Op]]) -> Keys:
    """The histories as the keys of one batch, in order, as checkers/framework/keyed.py makes them from Spark's rows."""
    fs = MODELS[model].fs
    rows = [(f"k{which:06}", op) for which, ops in enumerate(histories) for op in ops]
    return keys_of(
        pa.table(
            {
                "key": pa.chunked_array([pa.array([key for key, _ in rows])]),
                "index": pa.array([op.index for _, op in rows]),
                "time_ns": pa.array([op.index for _, op in rows]),
                "kind": pa.array([REFUSED if op.error == "mismatch" else KINDS[op.type] for _, op in rows]),
                "f": pa.array([fs.index(op.f) for _, op in rows]),
                "process": pa.array([op.process for _, op in rows]),
                "value": pa.array([None if op.value is None else json.dumps(op.value) for _, op in rows], pa.string()),
                "node": pa.array([0] * len(rows)),
                "final": pa.array(np.zeros(len(rows), bool)),
            }
        ),
        fs,
    )


def calls_of(ops: Sequence[Op]) -> list[Call]:
    """The operations that may have happened, as twins take them."""
    found = []
    for start in (op for op in ops if op.type == "invoke"):
        ends = [op for op in ops if op.process == start.process and op.type != "invoke" and op.index > start.index]
        end = min(ends, key=lambda op: op.index, default=start.info("no end"))
        refused = end.error == "mismatch"
        if end.type == "ok" or refused:
            returned = False if refused else end.value if start.f in OBSERVERS else None
            found.append(Call(start.index, end.index, start.f, start.value, returned))
        elif end.type == "info" and start.f not in ("read", "get"):
            found.append(Call(start.index, None, start.f, start.value, None))
    return found


def sequential_history(model: str, source: random.Random, size: int) -> list[Op]:
    """One legal operation after the other; values are unique."""
    held = TWINS[model][1]
    ops: list[Op] = []
    for fresh in range(1, size + 1):
        start = Op("invoke", *arguments_of(model, source, fresh % 5, fresh))
        returned = observed(start, held)
        legal, after = TWINS[model][0](Call(0, 0, start.f, start.value, returned), held)
        if legal:
            ops += [start, start.ok(returned)]
            held = after
    return history(*ops)


def ok_at(ops: Sequence[Op], f: str, share: float, holds: Callable[[Op], bool] = lambda _: True) -> int:
    """The index of the completion of f at this share of all of them."""
    found = [op.index for op in ops if op.type == "ok" and op.f == f and holds(op)]
    return found[int(share * len(found))]


def with_value(ops: Sequence[Op], at: int, value: Any) -> list[Op]:
    """The history with another value returned."""
    return [*ops[:at], replace(ops[at], value=value), *ops[at + 1 :]]


def stale_read(ops: Sequence[Op]) -> list[Op]:
    """A late read returns what an early one did."""
    late = ok_at(ops, "read", 0.9)
    return with_value(ops, late, ops[ok_at(ops, "read", 0.3, lambda op: op.value is not None)].value)


def lost_append(ops: Sequence[Op]) -> list[Op]:
    """A get lacks the last letter."""
    at = ok_at(ops, "get", 0.5, lambda op: bool(op.value))
    return with_value(ops, at, ops[at].value[:-1])


def lost_release(ops: Sequence[Op]) -> list[Op]:
    """A release never happened."""
    at = ok_at(ops, "release", 0.5)
    return history(*ops[: at - 1], *ops[at + 1 :])


def vanished_element(ops: Sequence[Op]) -> list[Op]:
    """A read lacks the first element."""
    at = ok_at(ops, "read", 0.5)
    return with_value(ops, at, ops[at].value[1:])


def element_from_nowhere(ops: Sequence[Op]) -> list[Op]:
    """A read shows what was never added."""
    at = ok_at(ops, "read", 0.5)
    return with_value(ops, at, [*ops[at].value, 10**6])


def dequeues_swapped(ops: Sequence[Op]) -> list[Op]:
    """Two dequeues return each other's value."""
    one, other = (ok_at(ops, "dequeue", share, lambda op: op.value is not None) for share in (0.4, 0.6))
    return with_value(with_value(ops, one, ops[other].value), other, ops[one].value)


def dequeued_again(ops: Sequence[Op]) -> list[Op]:
    """A dequeue returns what an earlier one did."""
    one, other = (ok_at(ops, "dequeue", share, lambda op: op.value is not None) for share in (0.4, 0.6))
    return with_value(ops, other, ops[one].value)


CORRUPTIONS: Mapping[str, tuple[str, Callable[[Sequence[Op]], list[Op]]]] = {
    "stale read": ("cas-register", stale_read),
    "lost append": ("kv", lost_append),
    "lost release": ("mutex", lost_release),
    "vanished element": ("set", vanished_element),
    "element from nowhere": ("set", element_from_nowhere),
    "dequeues swapped": ("fifo-queue", dequeues_swapped),
    "dequeued again": ("fifo-queue", dequeued_again),
}
"""By name: the model, and the change to a valid history of it."""
