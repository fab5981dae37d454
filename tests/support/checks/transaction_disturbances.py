"""Random changes to histories of transactions: to reads, to outcomes, and to the order.

Whether a changed history is broken is not known: a check and its twin must agree on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.model import Op
from tests.support.checks.transaction_corruptions import KEYS, Form, normalized, valid_transactions

CHANGES_MAX = 3
"""How many changes are made to one history."""

ERRORS = ("otherwise", "ending: PRODUCER_FENCED")

SMALL = range(12)
"""Positions and values that a history is likely to have."""


def random_transactions(seed: int, form: Form) -> list[Op]:
    """A history of this form with up to CHANGES_MAX changes."""
    source = random.Random(f"{form}/{seed}")
    ops = valid_transactions(source, form)
    for _ in range(source.randint(0, CHANGES_MAX)):
        ops = source.choice(CHANGES)(source, form, ops)
    return normalized(ops)


def at_random(source: random.Random, ops: Sequence[Op], change: Callable[[Op], Op]) -> list[Op]:
    """The history with a change to an operation that ended in ok, if any did."""
    places = [at for at, op in enumerate(ops) if op.type == "ok"]
    chosen = source.choice(places) if places else None
    return [change(op) if at == chosen else op for at, op in enumerate(ops)]


def another_read(source: random.Random, form: Form, ops: list[Op]) -> list[Op]:
    """A read micro-operation, or a drain, returned something else."""

    def change(op: Op) -> Op:
        if op.f == "drain":
            return replace(op, value=other_records(source, op.value))
        at = source.randrange(len(op.value))
        return replace(op, value=[*op.value[:at], other_micro_op(source, form, op.value[at]), *op.value[at + 1 :]])

    return at_random(source, ops, change)


def other_micro_op(source: random.Random, form: Form, micro_op: list) -> list:
    """A read with another result; a write unchanged."""
    if micro_op[0] == "poll":
        return ["poll", {source.choice(KEYS): other_records(source, got) for got in micro_op[1].values()}]
    if micro_op[0] != "r":
        return micro_op
    if form == "register":
        return ["r", micro_op[1], source.choice([None, [source.choice(SMALL), source.choice(SMALL)]])]
    return ["r", micro_op[1], other_list(source, micro_op[2], source.choice(SMALL))]


def other_records(source: random.Random, records: list) -> list:
    """The records with one changed, added, removed, or two exchanged."""
    known = source.choice(records)[0] if records else 0
    return other_list(source, records, [source.choice([known, source.choice(SMALL)]), source.choice(SMALL)])


def other_list(source: random.Random, values: list, more: Any) -> list:
    """The list with an element replaced, inserted, removed, or two exchanged."""
    at = source.randint(0, max(0, len(values) - 1))
    ways = [[*values[:at], *values[at + 1 :]], [*values, more], [*values[:at], more, *values[at + 1 :]]]
    return source.choice([*ways, source.sample(values, len(values))])


def another_end(source: random.Random, form: Form, ops: list[Op]) -> list[Op]:
    """A transaction had another outcome; its completion then has no reads, except the records of a log."""

    def change(op: Op) -> Op:
        value = op.value if form == "log" or op.f == "drain" else None
        return replace(op, type=source.choice(("fail", "info")), value=value, error=source.choice(ERRORS))

    return at_random(source, ops, change)


def another_write(source: random.Random, form: Form, ops: list[Op]) -> list[Op]:
    """A transaction wrote another value, or at another position; its invocation is unchanged."""

    def change(op: Op) -> Op:
        if op.f == "drain":
            return op
        return replace(op, value=[other_write(source, form, micro_op) for micro_op in op.value])

    return at_random(source, ops, change)


def other_write(source: random.Random, form: Form, micro_op: list) -> list:
    """A write, sometimes changed; a read unchanged."""
    if micro_op[0] in ("r", "poll", "fence") or source.random() < 0.5:
        return micro_op
    if form == "list":
        return [*micro_op[:2], source.choice(SMALL)]
    position, value = micro_op[2]
    return [*micro_op[:2], source.choice([[source.choice(SMALL), value], [position, source.choice(SMALL)]])]


def another_time(source: random.Random, form: Form, ops: list[Op]) -> list[Op]:  # noqa: ARG001
    """The history with one row moved, with each process's order kept."""
    changed = list(ops)
    at = source.randrange(len(changed))
    moved = changed.pop(at)
    own = [place for place, op in enumerate(changed) if op.process == moved.process]
    first = max((place + 1 for place in own if place < at), default=0)
    last = min((place for place in own if place >= at), default=len(changed))
    changed.insert(source.randint(first, last), moved)
    return changed


CHANGES: tuple[Callable[[random.Random, Form, list[Op]], list[Op]], ...] = (
    another_read,
    another_read,
    another_end,
    another_write,
    another_time,
)
