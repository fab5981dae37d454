"""Planted corruptions of transactions' histories: each breaks a valid one as its docstring says.

In a valid history, transactions took effect one after the other, each at some time while it was open. A cycle is
planted as a few transactions on keys of their own, among the others; other corruptions change the history itself. A
plant returns None for a history that it cannot break.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

from harness.model import Op
from tests.support.checks.small_histories import history
from tests.support.checks.small_transactions import Ends, append, drain, one_by_one, poll, read, send, together, txn

Form = Literal["list", "register", "log"]
Plant = Callable[[random.Random, list[Op]], Sequence[Op] | None]

KEYS = ("x", "y", "z")
NEW = 1_000_001
"""A value that no generated history has."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """The form of the history, the change, the finding that it must cause and those that it may cause."""

    form: Form
    plant: Plant
    must: str
    may: frozenset[str] = frozenset()


@dataclass(slots=True)
class World:
    """The keys' versions at one time, as [position, value] in order."""

    form: Form
    held: dict[str, list[list[int]]] = field(default_factory=lambda: {key: [] for key in KEYS})
    fresh: int = 0


def valid_transactions(source: random.Random, form: Form) -> list[Op]:
    """Some transactions of four processes, and of logs a drain of each."""
    world, processes = World(form), list(range(4))
    rows: list[Op] = []
    for _ in range(source.randint(4, 9)):
        end = source.choice(("ok", "ok", "ok", "ok", "fail", "info"))
        at = source.randrange(4)
        rows += took_place(source, world, processes[at], end)
        processes[at] += 10 * (end == "info")
    rows = overlapping(source, rows)
    if form == "log":
        rows += [op for key in KEYS for op in drain(key, *world.held[key])]
    return normalized(rows)


def took_place(source: random.Random, world: World, process: int, end: str) -> Ends:
    """A transaction on the current state, which it changes if it succeeds, and perhaps if its outcome is unknown."""
    before = {key: list(versions) for key, versions in world.held.items()}
    chosen = [source.choice(KEYS) for _ in range(source.randint(1, 3))]
    micro_ops = [mop_of(source, world, before, key) for key in chosen]
    if end == "fail" or (end == "info" and source.random() < 0.5):
        world.held = before
    if end == "fail" and source.random() < 0.5:
        micro_ops = fenced_after_a_send(micro_ops) or micro_ops
    return txn(process, *micro_ops, end=end)


def mop_of(source: random.Random, world: World, before: Mapping[str, list], key: str) -> list[Any]:
    """A write, or a read of the state and the transaction's own writes; a poll returns what others wrote."""
    versions = world.held[key]
    if source.random() < 0.5:
        world.fresh += 1
        versions.append([len(versions), world.fresh])
        word = {"list": "append", "register": "w", "log": "send"}[world.form]
        return [word, key, world.fresh if world.form == "list" else versions[-1]]
    if world.form == "log":
        start = source.randint(0, len(before[key]))
        return poll(key, *before[key][start:])
    if world.form == "register":
        return ["r", key, versions[-1] if versions else None]
    return read(key, *(value for _, value in versions))


def overlapping(source: random.Random, rows: Sequence[Op]) -> list[Op]:
    """The rows, some called earlier and some completed later, with each process's order kept."""
    changed = list(rows)
    for _ in range(3 * len(changed)):
        at = source.randrange(len(changed) - 1)
        one, other = changed[at : at + 2]
        if one.process != other.process and (one.type, other.type) != ("invoke", "ok"):
            changed[at : at + 2] = other, one
    return changed


def normalized(rows: Sequence[Op]) -> list[Op]:
    """The rows with indexes, and values as JSON has them."""
    return history(*(replace(op, value=json.loads(json.dumps(op.value))) for op in rows))


def planted(name: str, seed: int) -> tuple[list[Op], list[Op]]:
    """A valid history and its corruption."""
    corruption = CORRUPTIONS[name]
    for attempt in count():
        source = random.Random(f"{name}/{seed}/{attempt}")
        before = valid_transactions(source, corruption.form)
        after = corruption.plant(source, before)
        if after is not None:
            return before, normalized(after)
    raise AssertionError("unreachable")


def cycle(rows: Sequence[Op]) -> Plant:
    """A plant that inserts these rows, in this order, among those of the history."""

    def plant(source: random.Random, ops: list[Op]) -> list[Op]:
        moved = [replace(op, process=op.process + 50) for op in rows]
        # Of logs the drains stay last: what was sent is known to be there only if it was drained after that.
        drains = [op for op in ops if op.f == "drain"]
        at = sorted(source.randint(0, len(ops) - len(drains)) for _ in moved)
        changed = list(ops)
        for place, op in reversed(list(zip(at, moved, strict=True))):
            changed.insert(place, op)
        return changed

    return plant


def drained(rows: Sequence[Op], *drains: Ends) -> Plant:
    """The same, with drains at the end."""
    among = cycle(rows)

    def plant(source: random.Random, ops: list[Op]) -> list[Op]:
        return [*(among(source, ops) or ()), *(op for pair in drains for op in pair)]

    return plant


def changed(what: Callable[[list], list | None], f: str = "txn") -> Plant:
    """A plant that changes the value of an operation that ended in ok and allows it."""

    def plant(source: random.Random, ops: list[Op]) -> list[Op] | None:
        cases = [(op, new) for op in ops if op.type == "ok" and op.f == f if (new := what(op.value)) is not None]
        if not cases:
            return None
        chosen, new = source.choice(cases)
        return [replace(op, value=new) if op is chosen else op for op in ops]

    return plant


def first(micro_ops: list, word: str, change: Callable[[list], list | None]) -> list | None:
    """The micro-operations with the first of this f changed that allows it."""
    for at, micro_op in enumerate(micro_ops):
        new = change(micro_op) if micro_op[0] == word else None
        if new is not None:
            return [*micro_ops[:at], new, *micro_ops[at + 1 :]]
    return None


def writer_failed(word: str, error: str = "aborted") -> Plant:
    """A transaction whose write was read by another failed with this error."""

    def plant(source: random.Random, ops: list[Op]) -> list[Op] | None:
        ends = [
            op for op in ops if op.type == "ok" and op.f == "txn" and any(micro_op[0] == word for micro_op in op.value)
        ]
        ends = [
            op for op in ends if all(read_by_another(ops, op, micro_op) for micro_op in op.value if micro_op[0] == word)
        ]
        chosen = source.choice(ends) if ends else None
        return [replace(op, type="fail", error=error) if op is chosen else op for op in ops] if chosen else None

    return plant


def read_by_another(ops: Sequence[Op], own: Op, micro_op: list) -> bool:
    """Whether another operation that ended in ok read this write."""
    changed = [other for op in ops if op is not own and op.type == "ok" and op.f == "txn" for other in op.value]
    if micro_op[0] == "append":
        return any(other[0] == "r" and other[1] == micro_op[1] and micro_op[2] in (other[2] or []) for other in changed)
    if micro_op[0] == "w":
        return any(other[0] == "r" and other[1] == micro_op[1] and other[2] == micro_op[2] for other in changed)
    return any(op.f == "drain" and op.type == "ok" and op.key == micro_op[1] and micro_op[2] in op.value for op in ops)


def fenced_after_a_send(micro_ops: list) -> list | None:
    """The micro-operations with a fence after the first send."""
    at = next((at for at, micro_op in enumerate(micro_ops) if micro_op[0] == "send"), None)
    return None if at is None else [*micro_ops[: at + 1], ["fence"], *micro_ops[at + 1 :]]


def own_append_unseen(micro_ops: list) -> list | None:
    """A list's reader misses its own append."""
    for at, micro_op in enumerate(micro_ops):
        own = {other[2] for other in micro_ops[:at] if other[:2] == ["append", micro_op[1]]}
        if micro_op[0] == "r" and own:
            return [
                *micro_ops[:at],
                ["r", micro_op[1], [value for value in micro_op[2] if value not in own]],
                *micro_ops[at + 1 :],
            ]
    return None


def read_in_another_order(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Two reads of a list have its first two elements in different orders."""
    rows = one_by_one(txn(0, append("g", 1)), txn(1, append("g", 2)), txn(2, read("g", 1, 2)), txn(3, read("g", 2, 1)))
    return list(cycle(rows)(source, ops) or ())


def appended_twice(source: random.Random, ops: list[Op]) -> list[Op]:
    """Two transactions append one value."""
    return list(cycle(one_by_one(txn(0, append("g", 1)), txn(1, append("g", 1))))(source, ops) or ())


def phantom_element(micro_op: list) -> list | None:
    """A read shows one element more."""
    return ["r", micro_op[1], [*micro_op[2], NEW]] if micro_op[2] is not None else None


def own_record_polled(micro_ops: list) -> list | None:
    """A transaction polls a record that it has itself sent."""
    sent = [micro_op for micro_op in micro_ops if micro_op[0] == "send"]
    return [*micro_ops, poll(sent[0][1], sent[0][2])] if sent else None


def record_gone(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """The only record of a committed transaction is in no drain and no poll."""
    sends = [op.value for op in ops if op.type == "ok" and op.f == "txn"]
    alone = [[micro_op for micro_op in micro_ops if micro_op[0] == "send"] for micro_ops in sends]
    gone = [sent[0] for sent in alone if len(sent) == 1]
    return without_record(ops, source.choice(gone)) if gone else None


def half_a_transaction_gone(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """One record of a transaction is in no drain and no poll, and the others are."""
    sends = [
        [micro_op for micro_op in op.value if micro_op[0] == "send"] for op in ops if op.type == "ok" and op.f == "txn"
    ]
    several = [sent for sent in sends if len(sent) > 1]
    return without_record(ops, source.choice(source.choice(several))) if several else None


def without_record(ops: Sequence[Op], sent: list) -> list[Op]:
    """The history in which no operation reads a record."""
    _, key, record = sent
    return [replace(op, value=unread(op, key, record)) if op.type == "ok" else op for op in ops]


def unread(op: Op, key: str, record: list) -> Any:
    """An operation's value without a record that it read."""
    if op.f == "drain":
        return [each for each in op.value if op.key != key or each != record]
    return [
        ["poll", {log: [each for each in got if log != key or each != record] for log, got in micro_op[1].items()}]
        if micro_op[0] == "poll"
        else micro_op
        for micro_op in op.value
    ]


def drains_gone(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A log to which a committed transaction sent is not drained."""
    keys = sorted(
        {
            micro_op[1]
            for op in ops
            if op.type == "ok" and op.f == "txn"
            for micro_op in op.value
            if micro_op[0] == "send"
        }
    )
    chosen = source.choice(keys) if keys else None
    return [op for op in ops if not (op.f == "drain" and op.key == chosen)] if chosen else None


def named(*names: str) -> frozenset[str]:
    """Findings."""
    return frozenset(names)


def register(micro_op: str, version: list | None) -> list:
    """A register's read or write, of key g."""
    return [micro_op, "g", version]


BOTH = (append("g", 1), append("h", 1))
SENT_BOTH = (send("g", 0, 1), send("h", 1, 2))
CORRUPTIONS: Mapping[str, Corruption] = {
    "lists: writes in different orders": Corruption(
        "list", cycle(together(txn(0, *BOTH), txn(1, append("g", 2), append("h", 2)),
                               txn(2, read("g", 1, 2), read("h", 2, 1)))), "G0", named("G-single", "G2"),
    ),
    "lists: a circle of information": Corruption(
        "list", cycle(together(txn(0, append("g", 1), read("h", 2)), txn(1, append("h", 2), read("g", 1)))), "G1c",
    ),
    "lists: a torn read": Corruption(
        "list", cycle(together(txn(0, *BOTH), txn(1, read("g", 1), read("h")), txn(2, read("h", 1)))), "G-single",
    ),
    "lists: write skew": Corruption(
        "list", cycle(together(txn(0, append("g", 1), read("h")), txn(1, append("h", 1), read("g")),
                               txn(2, read("g", 1), read("h", 1)))), "G2",
    ),
    "lists: a long fork": Corruption(
        "list", cycle(together(txn(0, append("g", 1)), txn(1, append("h", 1)), txn(2, read("g", 1), read("h")),
                               txn(3, read("g"), read("h", 1)))), "G2",
    ),
    "lists: a process forgets its append": Corruption(
        "list", cycle(one_by_one(txn(0, append("g", 1)), txn(0, read("g")), txn(1, read("g", 1)))),
        "G-single-process",
    ),
    "lists: a process appends before itself": Corruption(
        "list", cycle(one_by_one(txn(0, append("g", 1)), txn(0, append("g", 2)), txn(1, read("g", 2, 1)))),
        "G0-process",
    ),
    "lists: a process reads its own future": Corruption(
        "list", cycle(one_by_one(txn(0, read("g", 1)), txn(0, append("g", 1)))), "G1c-process",
    ),
    "lists: a stale read": Corruption(
        "list", cycle(one_by_one(txn(0, append("g", 1)), txn(1, read("g")), txn(2, read("g", 1)))),
        "G-single-realtime",
    ),
    "lists: an append before what was there": Corruption(
        "list", cycle(one_by_one(txn(0, append("g", 1)), txn(1, append("g", 2)), txn(2, read("g", 2, 1)))),
        "G0-realtime",
    ),
    "lists: a read of the future": Corruption(
        "list", cycle(one_by_one(txn(0, read("g", 1)), txn(1, append("g", 1)))), "G1c-realtime",
    ),
    "lists: a long fork in real time": Corruption(
        "list", cycle([*txn(0, append("g", 1)), *txn(1, append("h", 1)), *txn(2, read("g", 1), read("h")),
                       *txn(3, read("g"), read("h", 1))]), "G-single-realtime", named("G2"),
    ),
    "lists: a failed append is read": Corruption("list", writer_failed("append"), "G1a"),
    "lists: an append overwritten is read": Corruption(
        "list", cycle(together(txn(0, append("g", 1), append("g", 2)), txn(1, read("g", 1)), txn(2, read("g", 1, 2)))),
        "G1b", named("G-single"),
    ),
    "lists: an own append unseen": Corruption("list", changed(own_append_unseen), "internal"),
    "lists: reads in different orders": Corruption("list", read_in_another_order, "incompatible-order"),
    "lists: an element from nowhere": Corruption(
        "list", changed(lambda micro_ops: None if any(m[0] == "append" for m in micro_ops) or sum(m[0] == "r" for m in
        micro_ops) > 1
                        else first(micro_ops, "r", phantom_element)), "phantom-read", named("incompatible-order"),
    ),
    "lists: a value appended twice, unknown": Corruption("list", appended_twice, "value-written-twice"),
    "registers: a lost update": Corruption(
        "register", cycle(together(txn(0, register("r", None), register("w", [0, 5])),
                                   txn(1, register("r", None), register("w", [1, 6])))), "G-single",
    ),
    "registers: a stale read": Corruption(
        "register", cycle(one_by_one(txn(0, register("w", [0, 5])), txn(1, register("w", [1, 6])),
                                     txn(2, register("r", [0, 5])))), "G-single-realtime",
    ),
    "registers: a write before what was there": Corruption(
        "register", cycle(one_by_one(txn(0, register("w", [1, 5])), txn(1, register("w", [0, 6])))), "G0-realtime",
    ),
    "registers: a failed write is read": Corruption("register", writer_failed("w", "_FENCED"), "G1a"),
    "registers: a version at two positions": Corruption(
        "register", cycle(one_by_one(txn(0, register("w", [0, 5])), txn(1, register("r", [3, 5])))),
        "incompatible-order",
    ),
    "logs: a failed send is drained": Corruption("log", writer_failed("send"), "aborted-read"),
    "logs: a fenced producer's send is drained": Corruption(
        "log", writer_failed("send", "sending 7 to log-0: _FENCED: Local: fenced by a newer instance"), "zombie-write",
    ),
    "logs: a fenced transaction is committed": Corruption("log", changed(fenced_after_a_send), "zombie-write"),
    "logs: a circle of information": Corruption(
        "log", drained(together(txn(0, send("g", 0, 1), poll("h", [0, 2])), txn(1, send("h", 0, 2), poll("g", [0, 1]))),
                       drain("g", [0, 1]), drain("h", [0, 2])), "G1c",
    ),
    "logs: a poll of the future": Corruption(
        "log", drained(one_by_one(txn(0, poll("g", [0, 1])), txn(1, send("g", 0, 1))), drain("g", [0, 1])),
        "G1c-realtime",
    ),
    "logs: writes interleaved, tolerated": Corruption(
        "log", drained(together(txn(0, *SENT_BOTH), txn(1, send("g", 1, 3), send("h", 0, 4))),
                       drain("g", [0, 1], [1, 3]), drain("h", [0, 4], [1, 2])), "G0",
    ),
    "logs: an own record polled": Corruption("log", changed(own_record_polled), "precommitted-read"),
    "logs: a record gone": Corruption("log", record_gone, "lost-write"),
    "logs: half a transaction gone": Corruption(
        "log", half_a_transaction_gone, "torn-transaction", named("lost-write")
    ),
    "logs: a record from nowhere": Corruption(
        "log", changed(lambda records: [*records, [len(records), NEW]], "drain"), "phantom-read",
    ),
    "logs: no drain, unknown": Corruption("log", drains_gone, "not-drained"),
}  # fmt: skip
