"""Small histories of transactions: literal ones in a few words, or random ones from a seed; and a comparison of cycles.

A transaction is its process, its micro-operations and its end.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from checkers.twins import transactions as twin
from harness.model import Op
from tests.support.checks.small_histories import history

Ends = tuple[Op, Op]
"""An invocation and its completion."""


def txn(process: int, *micro_ops: list, end: str = "ok") -> Ends:
    """A transaction's invocation and its end; only the end has what it read."""
    start = Op("invoke", "txn", process, value=[requested(micro_op) for micro_op in micro_ops])
    ends = {"ok": start.ok(list(micro_ops)), "fail": start.fail("aborted"), "info": start.info("timeout")}
    return start, ends[end]


def requested(micro_op: list) -> list:
    """A micro-operation as in the invocation."""
    if micro_op[0] == "r":
        return [*micro_op[:2], None]
    if micro_op[0] == "poll":
        return ["poll", {}]
    return (
        [*micro_op[:2], micro_op[2][1]] if micro_op[0] in ("w", "send") and isinstance(micro_op[2], list) else micro_op
    )


def drain(key: str, *records: list) -> Ends:
    """A drain of a key, by a process of its own."""
    start = Op("invoke", "drain", 9, key=key)
    return start, start.ok(list(records))


def one_by_one(*pairs: Ends) -> list[Op]:
    """Each transaction ends before the next begins."""
    return history(*(op for pair in pairs for op in pair))


def together(*pairs: Ends) -> list[Op]:
    """All transactions begin before any ends."""
    return history(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))


def append(key: str, value: int) -> list:
    """An append to a list."""
    return ["append", key, value]


def read(key: str, *values: int) -> list:
    """A read of a whole list."""
    return ["r", key, list(values)]


def send(key: str, offset: int, value: int) -> list:
    """A record's send to a log."""
    return ["send", key, [offset, value]]


def poll(key: str, *records: list) -> list:
    """A poll of one log."""
    return ["poll", {key: list(records)}]


def matched(found: Iterable[tuple[str, Sequence[int], int]], expected: Sequence[twin.Cyclic]) -> bool:
    """Whether there is one cycle for each expected one, in its component and of its length.

    In real time an edge that follows from others is left out, so that a cycle may be longer than the shortest.
    """
    left = list(expected)
    for name, nodes, length in found:
        fits = [each for each in left if each[0] == name and set(nodes) <= each[1]]
        fits = [each for each in fits if length == each[2] or (name.endswith("-realtime") and length > each[2])]
        if not fits:
            return False
        left.remove(fits[0])
    return not left


def random_history(source: random.Random, number: int, log: bool) -> list[Op]:
    """A few transactions on keys of their own against a simulated state, with some reads disturbed."""
    state: dict[str, list[list[int]]] = {f"{key}{number}": [] for key in "xy"}
    fresh = iter(range(number * 1000, number * 1000 + 1000))
    transactions: list[Ends] = []
    for _ in range(source.randint(2, 6)):
        chosen = [source.choice(sorted(state)) for _ in range(source.randint(1, 3))]
        end = source.choice(["ok", "ok", "ok", "fail", "info"])
        snapshot = {key: list(source.choice([held, held[:-1]])) for key, held in state.items()}
        micro_ops = [random_micro_op(source, key, state, snapshot, next(fresh), log, end) for key in chosen]
        transactions.append(txn(0, *micro_ops, end=end))
    pairs = [tuple(replace(op, process=10 * number + at) for op in pair) for at, pair in enumerate(transactions)]
    drains = [drain(key, *held[: len(held) - source.randint(0, 1)]) for key, held in state.items() if log]
    return [*interleaved(source, pairs), *(op for pair in drains for op in pair)]


def random_micro_op(
    source: random.Random, key: str, state: dict, snapshot: dict, value: int, log: bool, end: str
) -> list[Any]:
    """A write, or a read of the snapshot and of the transaction's own appends."""
    if source.random() < 0.5:
        record = [len(state[key]), value]
        if end == "ok" or source.random() < 0.5:
            state[key].append(record)
        snapshot[key].append(record)
        return ["send", key, record] if log else ["append", key, value]
    if log:
        return poll(key, *source.sample(state[key], min(len(state[key]), 2)))
    return read(key, *(value for _, value in snapshot[key]))


def interleaved(source: random.Random, pairs: Sequence[tuple[Op, ...]]) -> list[Op]:
    """Calls and completions in a random order that keeps the order of each pair."""
    order = [number for number in range(len(pairs)) for _ in range(2)]
    source.shuffle(order)
    parts = [iter(pair) for pair in pairs]
    return [next(parts[number]) for number in order]
