"""Planted corruptions of the models' histories: each breaks a valid one as its docstring says.

Each history is certainly broken, whatever else it contains: values are unique and the planted operations bound
themselves, so no operation with an unknown outcome can explain them. A plant returns None for a history that it cannot
break.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from checkers.twins.models import TWINS, explained
from harness.model import Op
from tests.support.checks.model_histories import calls_of, random_history, sequential_history
from tests.support.checks.small_histories import history

Plant = Callable[[random.Random, list[Op]], list[Op] | None]

A, B, C = 1_000_001, 1_000_002, 1_000_003
"""Values that no generated history has."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """The model, the change to a history of it, and its operations' f if not all may occur."""

    model: str
    plant: Plant
    words: tuple[str, ...] = ()
    unique: float = 1


class Did(NamedTuple):
    """An operation that ended in ok: its two rows."""

    start: Op
    end: Op


def valid_history(corruption: Corruption, source: random.Random) -> list[Op]:
    """A history that the twin can explain; locks are contended, and no outcome of theirs is unknown."""
    model = corruption.model
    if model == "mutex":
        return waiting(source, sequential_history(model, source, 14))
    while True:
        ops = random_history(model, source, 12, 3, (0,), corruption.unique, corruption.words)
        if explained(calls_of(ops), TWINS[model][1], TWINS[model][0]):
            return ops


def waiting(source: random.Random, ops: Sequence[Op]) -> list[Op]:
    """The history in which some operations begin a little before they take effect."""
    moved = list(ops)
    for at in range(2, len(moved)):
        one, process = moved[at], moved[at].process
        if one.type == "invoke" and source.random() < 0.5 and process not in {op.process for op in moved[at - 2 : at]}:
            moved[at - 1], moved[at] = one, moved[at - 1]
    return history(*moved)


def planted(name: str, seed: int) -> tuple[list[Op], list[Op]]:
    """A valid history and its corruption."""
    corruption = CORRUPTIONS[name]
    for attempt in count():
        source = random.Random(f"{name}/{seed}/{attempt}")
        before = valid_history(corruption, source)
        after = corruption.plant(source, before)
        if after is not None:
            return before, history(*after)
    raise AssertionError("unreachable")


def done(ops: Sequence[Op], *fs: str) -> list[Did]:
    """The operations of these words that ended in ok."""
    running: dict[int, Op] = {}
    found = []
    for op in ops:
        if op.type == "invoke":
            running[op.process] = op
        elif op.type == "ok" and op.f in fs:
            found.append(Did(running[op.process], op))
    return found


def before(one: Did, other: Did) -> bool:
    """Whether one ended before the other began."""
    return one.end.index < other.start.index


def any_of(source: random.Random, cases: Sequence[Any], change: Callable[..., list[Op]]) -> list[Op] | None:
    """The history changed at one of the cases, if there is any."""
    return change(*source.choice(cases)) if cases else None


def returning(ops: Sequence[Op], did: Did, value: Any) -> list[Op]:
    """The history in which an operation returned another value."""
    return [replace(op, value=value) if op is did.end else op for op in ops]


def failing(ops: Sequence[Op], did: Did) -> list[Op]:
    """The history in which an operation failed."""
    return [did.start.fail("refused") if op is did.end else op for op in ops]


def without(ops: Sequence[Op], did: Did) -> list[Op]:
    """The history without an operation."""
    return [op for op in ops if op is not did.start and op is not did.end]


def among(source: random.Random, ops: Sequence[Op], *more: tuple[str, Any, Any]) -> list[Op]:
    """The history with more operations one after the other, somewhere: each as f, its argument and its result.

    One that returned REFUSED or FAILED ended so.
    """
    at = source.randint(0, len(ops))
    rows: list[Op] = []
    for f, argument, returned in more:
        start = Op("invoke", f, 50, "x", argument)
        end = start.fail(returned) if returned in (REFUSED, FAILED) else replace(start, type="ok", value=returned)
        rows += (start, end)
    return [*ops[:at], *rows, *ops[at:]]


REFUSED, FAILED = "mismatch", "refused"


def stale_read(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A read returns a value that was overwritten before it began."""
    writes = done(ops, "write")
    cases = [
        (read, old)
        for read in done(ops, "read")
        for old in writes
        if any(before(old, new) and before(new, read) for new in writes)
    ]
    return any_of(source, cases, lambda read, old: returning(ops, read, old.start.value))


def from_nowhere(reader: str) -> Plant:
    """An operation of this f returns a value that was never written or enqueued."""
    return lambda source, ops: any_of(
        source, [(read,) for read in done(ops, reader)], lambda read: returning(ops, read, A)
    )


def of_the_future(reader: str, writer: str) -> Plant:
    """An operation of reader's f returns the value of one of writer's f that began after it had ended."""

    def plant(source: random.Random, ops: list[Op]) -> list[Op] | None:
        cases = [(read, write) for read in done(ops, reader) for write in done(ops, writer) if before(read, write)]
        return any_of(source, cases, lambda read, write: returning(ops, read, write.start.value))

    return plant


def read_of_a_failed_write(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A write whose value was read failed."""
    seen = {read.end.value for read in done(ops, "read")}
    return any_of(source, [(w,) for w in done(ops, "write") if w.start.value in seen], lambda w: failing(ops, w))


def forgotten_writes(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A read returns the initial value after a write has ended."""
    cases = [(read,) for read in done(ops, "read") if any(before(write, read) for write in done(ops, "write"))]
    return any_of(source, cases, lambda read: returning(ops, read, None))


def reads_in_turn_go_back(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Two reads, one after the other, saw two writes, one after the other: they change their values."""
    writes = {write.start.value: write for write in done(ops, "write")}
    seen = [read for read in done(ops, "read") if read.end.value in writes]
    cases = [
        (one, other)
        for one in seen
        for other in seen
        if before(one, other) and before(writes[one.end.value], writes[other.end.value])
    ]
    return any_of(source, cases, lambda one, other: exchanged(ops, one, other))


def exchanged(ops: Sequence[Op], one: Did, other: Did) -> list[Op]:
    """The history in which two operations returned each other's values."""
    return returning(returning(ops, one, other.end.value), other, one.end.value)


def write_of_unknown_end_seen_and_gone(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """An unacknowledged write is read, and then the initial value again."""
    start = Op("invoke", "write", 51, "x", A)
    return [start, start.info("timeout"), *among(source, ops, ("read", None, A), ("read", None, None))]


def values_come_back(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Among writes whose values repeat, two are read in the wrong order."""
    return among(source, ops, ("write", A, None), ("write", B, None), ("read", None, B), ("read", None, A))


def swap_of_another_value(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A compare-and-set succeeded that expected what was never there."""
    cases = [(swap,) for swap in done(ops, "cas")]
    return any_of(source, cases, lambda swap: expecting(ops, swap, B))


def expecting(ops: Sequence[Op], swap: Did, old: Any) -> list[Op]:
    """The history in which a compare-and-set expected another value."""
    pair = [old, swap.start.value[1]]
    return [replace(op, value=pair) if op is swap.start or op is swap.end else op for op in ops]


def swapped_twice(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A second compare-and-set takes what another has taken."""
    cases = [(swap.start.value[0],) for swap in done(ops, "cas")]
    return any_of(source, cases, lambda old: among(source, ops, ("cas", [old, A], [old, A])))


def refused_without_cause(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A compare-and-set is refused while the register holds what it expects."""
    return among(source, ops, ("write", A, None), ("cas", [A, B], REFUSED), ("read", None, A))


def swap_without_effect(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A read returns what a compare-and-set has taken."""
    return among(source, ops, ("write", A, None), ("cas", [A, B], [A, B]), ("read", None, A))


def swaps_in_a_circle(_source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Two compare-and-sets, open at once, each take what the other wrote."""
    one, other = Op("invoke", "cas", 51, "x", [A, B]), Op("invoke", "cas", 52, "x", [B, A])
    return [one, other, *ops, one.ok(), other.ok()]


def append_lost(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A get lacks the last append."""
    return among(source, ops, ("put", "P", None), ("append", "Q", None), ("get", None, "P"))


def append_doubled(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A get shows one append twice."""
    return among(source, ops, ("put", "P", None), ("append", "Q", None), ("get", None, "PQQ"))


def appends_in_another_order(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A get shows two appends the wrong way round."""
    more = ("put", "P", None), ("append", "Q", None), ("append", "R", None)
    return among(source, ops, *more, ("get", None, "PRQ"))


def put_ignored(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A get shows what was there before a put."""
    return among(source, ops, ("put", "P", None), ("put", "R", None), ("get", None, "P"))


def append_from_nowhere(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A get shows a letter that was never written."""
    cases = [(get,) for get in done(ops, "get")]
    return any_of(source, cases, lambda get: returning(ops, get, f"{get.end.value or ''}Z"))


def failed_append_seen(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A get shows an append that failed."""
    return among(source, ops, ("put", "P", None), ("append", "Q", FAILED), ("get", None, "PQ"))


def difference(ops: Sequence[Op]) -> int:
    """How many more acquires than releases there are: 0 or 1 in a valid history."""
    return len(done(ops, "acquire")) - len(done(ops, "release"))


def release_lost(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A release never happened: two more acquired the lock than released it."""
    cases = [(release,) for release in done(ops, "release")] if difference(ops) == 1 else []
    return any_of(source, cases, lambda release: without(ops, release))


def acquire_lost(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """An acquire never happened: more released the lock than acquired it."""
    cases = [(acquire,) for acquire in done(ops, "acquire")] if difference(ops) == 0 else []
    return any_of(source, cases, lambda acquire: without(ops, acquire))


def acquired_when_held(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """One more acquires a lock that is left held at the end."""
    return among(source, ops, ("acquire", None, None)) if difference(ops) == 1 else None


def released_when_free(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """One more releases a lock that is left free at the end."""
    return among(source, ops, ("release", None, None)) if difference(ops) == 0 else None


def element_gone(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A read lacks an element that had been added before it began."""
    cases = [(read, add.start.value) for read in done(ops, "read") for add in done(ops, "add") if before(add, read)]
    return any_of(source, cases, lambda read, gone: returning(ops, read, [e for e in read.end.value if e != gone]))


def element_from_nowhere(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A read shows an element that was never added."""
    return any_of(source, [(r,) for r in done(ops, "read")], lambda r: returning(ops, r, [*r.end.value, A]))


def element_of_the_future(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A read shows an element whose add began after it had ended."""
    cases = [(read, add.start.value) for read in done(ops, "read") for add in done(ops, "add") if before(read, add)]
    return any_of(source, cases, lambda read, new: returning(ops, read, [*read.end.value, new]))


def failed_add_seen(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """An add whose element was read failed."""
    seen = {element for read in done(ops, "read") for element in read.end.value}
    return any_of(source, [(add,) for add in done(ops, "add") if add.start.value in seen], lambda a: failing(ops, a))


def reads_of_a_set_go_back(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Two reads, one after the other, change their elements: the set has shrunk."""
    reads = done(ops, "read")
    cases = [(a, b) for a in reads for b in reads if before(a, b) and len(a.end.value) < len(b.end.value)]
    return any_of(source, cases, lambda one, other: exchanged(ops, one, other))


def reads_of_a_set_disagree(_source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Of two elements added at once, each of two reads shows another."""
    adds = [Op("invoke", "add", 50 + number, "x", value) for number, value in enumerate((A, B))]
    reads = [Op("invoke", "read", 60 + number, "x") for number in range(2)]
    held: list[Any] = max((read.end.value for read in done(ops, "read")), key=len, default=[])
    ends = [read.ok([*held, add.value]) for read, add in zip(reads, adds, strict=True)]
    return [*ops, *adds, *reads, *ends, *(add.ok() for add in adds)]


def queue_values(ops: Sequence[Op]) -> tuple[dict[int, Did], list[Did]]:
    """Enqueues by value, and the dequeues of their values."""
    put = {did.start.value: did for did in done(ops, "enqueue")}
    return put, [took for took in done(ops, "dequeue") if took.end.value in put]


def values_change_places(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Of two values enqueued and dequeued one after the other, the second is dequeued first."""
    put, took = queue_values(ops)
    cases = [(a, b) for a in took for b in took if before(a, b) and before(put[a.end.value], put[b.end.value])]
    return any_of(source, cases, lambda one, other: exchanged(ops, one, other))


def value_leaves_twice(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A second dequeue returns the value of another."""
    took = queue_values(ops)[1]
    cases = [(other, one) for other in done(ops, "dequeue") for one in took if other.end is not one.end]
    return any_of(source, cases, lambda other, one: returning(ops, other, one.end.value))


def failed_enqueue_dequeued(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """An enqueue whose value was dequeued failed."""
    put, took = queue_values(ops)
    return any_of(source, [(put[each.end.value],) for each in took], lambda one: failing(ops, one))


def second_leaves_first(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """Two values come one after the other, and leave the wrong way round."""
    more = ("enqueue", A, None), ("enqueue", B, None), ("dequeue", None, B), ("dequeue", None, A)
    return among(source, ops, *more)


def empty_though_it_is_not(source: random.Random, ops: list[Op]) -> list[Op] | None:
    """A dequeue finds nothing while a value is there that leaves later."""
    return among(source, ops, ("enqueue", A, None), ("dequeue", None, None), ("dequeue", None, A))


PLAIN = ("read", "write")
CORRUPTIONS: Mapping[str, Corruption] = {
    "register: a stale read": Corruption("register", stale_read, PLAIN),
    "register: a read from nowhere": Corruption("register", from_nowhere("read"), PLAIN),
    "register: a read of the future": Corruption("register", of_the_future("read", "write"), PLAIN),
    "register: a failed write is read": Corruption("register", read_of_a_failed_write, PLAIN),
    "register: writes forgotten": Corruption("register", forgotten_writes, PLAIN),
    "register: reads go back": Corruption("register", reads_in_turn_go_back, PLAIN),
    "register: a write seen and gone": Corruption("register", write_of_unknown_end_seen_and_gone, PLAIN),
    "cas-register: a stale read": Corruption("cas-register", stale_read),
    "cas-register: values come back": Corruption("cas-register", values_come_back, unique=0),
    "cas-register: a swap of another value": Corruption("cas-register", swap_of_another_value),
    "cas-register: a value swapped twice": Corruption("cas-register", swapped_twice),
    "cas-register: refused without cause": Corruption("cas-register", refused_without_cause),
    "cas-register: a swap without effect": Corruption("cas-register", swap_without_effect),
    "cas-register: swaps in a circle": Corruption("cas-register", swaps_in_a_circle),
    "kv: an append lost": Corruption("kv", append_lost),
    "kv: an append doubled": Corruption("kv", append_doubled),
    "kv: appends in another order": Corruption("kv", appends_in_another_order),
    "kv: a put ignored": Corruption("kv", put_ignored),
    "kv: an append from nowhere": Corruption("kv", append_from_nowhere),
    "kv: a failed append seen": Corruption("kv", failed_append_seen),
    "mutex: a release lost": Corruption("mutex", release_lost),
    "mutex: an acquire lost": Corruption("mutex", acquire_lost),
    "mutex: acquired when held": Corruption("mutex", acquired_when_held),
    "mutex: released when free": Corruption("mutex", released_when_free),
    "set: an element gone": Corruption("set", element_gone),
    "set: an element from nowhere": Corruption("set", element_from_nowhere),
    "set: an element of the future": Corruption("set", element_of_the_future),
    "set: a failed add seen": Corruption("set", failed_add_seen),
    "set: reads go back": Corruption("set", reads_of_a_set_go_back),
    "set: reads disagree": Corruption("set", reads_of_a_set_disagree),
    "fifo-queue: values change places": Corruption("fifo-queue", values_change_places),
    "fifo-queue: a value leaves twice": Corruption("fifo-queue", value_leaves_twice),
    "fifo-queue: a value from nowhere": Corruption("fifo-queue", from_nowhere("dequeue")),
    "fifo-queue: a value of the future": Corruption("fifo-queue", of_the_future("dequeue", "enqueue")),
    "fifo-queue: a failed enqueue dequeued": Corruption("fifo-queue", failed_enqueue_dequeued),
    "fifo-queue: the second leaves first": Corruption("fifo-queue", second_leaves_first),
    "fifo-queue: empty though it is not": Corruption("fifo-queue", empty_though_it_is_not),
}
