"""Planted corruptions of a log's histories: each breaks a valid one as its docstring says.

A corruption may break more than one guarantee: a record that no read returns is lost, and the poll that passed over it
skipped it. So each corruption names the findings that it must cause, and those that it may cause in addition. A plant
returns None for a history that it cannot break.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from checkers.twins import log as log_twin
from harness.model import Op
from tests.support.checks.small_histories import history
from tests.support.checks.small_logs import (
    KEY,
    Records,
    assigned,
    commit,
    committed,
    drain,
    poll,
    random_log,
    send,
    send_all,
)

Plant = Callable[[random.Random, list[Op], Records], Sequence[Op] | None]
"""A function from a history, and the log that its drain returned, to a broken history."""

NEW = 1_000_001
"""A value that no generated history has."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """The change, the findings that it must cause, and those that it may cause."""

    plant: Plant
    must: frozenset[str]
    may: frozenset[str] = frozenset()


def valid_log(source: random.Random) -> tuple[list[Op], Records]:
    """A history without findings that ends with a drain of at least three records, and these records."""
    while True:
        ops = random_log(source, 0, KEY, 20)
        if ops and ops[-1].f == "drain" and len(ops[-1].value) >= 3 and not log_twin.findings(ops):
            return ops, ops[-1].value


def planted(name: str, seed: int) -> tuple[list[Op], list[Op]]:
    """A valid history and its corruption."""
    for attempt in count():
        source = random.Random(f"{name}/{seed}/{attempt}")
        before, log = valid_log(source)
        after = CORRUPTIONS[name].plant(source, before, log)
        if after is not None:
            return before, history(*after)
    raise AssertionError("unreachable")


def reads(ops: Sequence[Op]) -> list[Op]:
    """The polls and the drain that returned records."""
    return [op for op in ops if op.type == "ok" and op.f in ("poll", "drain") and records_of(op)]


def records_of(op: Op) -> Records:
    """What a read returned."""
    return list(op.value.get(KEY, [])) if isinstance(op.value, dict) else list(op.value)


def polled(ops: Sequence[Op]) -> Records:
    """The records that polls returned."""
    return [record for op in reads(ops) if op.f == "poll" for record in records_of(op)]


def acked(ops: Sequence[Op]) -> list[Op]:
    """The acknowledgements."""
    return [op for op in ops if op.type == "ok" and op.f == "send"]


def returning(ops: Sequence[Op], read: Op, records: Records) -> list[Op]:
    """The history in which a read returned other records."""
    value = {KEY: records} if read.f == "poll" else records
    return [replace(op, value=value) if op is read else op for op in ops]


def unread(ops: Sequence[Op], value: int, fs: Sequence[str] = ("poll", "drain")) -> list[Op]:
    """The history in which these reads do not return a value."""
    for read in reads(ops):
        if read.f in fs:
            ops = returning(ops, read, [record for record in records_of(read) if record[1] != value])
    return list(ops)


def before_the_drain(ops: Sequence[Op], more: Sequence[Op], *records: list[int]) -> list[Op]:
    """The history with more operations before its drain, which returns more records."""
    return [*ops[:-2], *more, ops[-2], replace(ops[-1], value=[*ops[-1].value, *records])]


def two_values_at_an_offset(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A read returns at one offset the value of another."""
    read = source.choice(reads(ops))
    records = records_of(read)
    at = source.randrange(len(records))
    offset, value = records[at]
    other = source.choice([held for _, held in log if held != value])
    return returning(ops, read, [*records[:at], [offset, other], *records[at + 1 :]])


def value_at_two_offsets(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """The drain returns a value once more at its end."""
    return before_the_drain(ops, (), [log[-1][0] + 1, source.choice(log)[1]])


def acknowledged_beyond_the_end(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A send is acknowledged with an offset beyond the end of the log."""
    ack = source.choice(acked(ops)) if acked(ops) else None
    moved = {"offset": log[-1][0] + 50, "value": ack.value["value"]} if ack else None
    return [replace(op, value=moved) if op is ack else op for op in ops] if ack else None


def passed_over(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """An acknowledged value, not the last, is in no read."""
    gone = [ack.value["value"] for ack in acked(ops) if ack.value["value"] != log[-1][1]]
    return unread(ops, source.choice(gone)) if gone else None


def vanished(source: random.Random, ops: list[Op], _log: Records) -> list[Op] | None:
    """A polled value is not in the drain."""
    seen = polled(ops)
    return unread(ops, source.choice(seen)[1], ["drain"]) if seen else None


def overwritten(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A later value has the offset of an acknowledged and polled one (KIP-101's loss)."""
    seen = [record for record in polled(ops) if record[1] in {ack.value["value"] for ack in acked(ops)}]
    if not seen:
        return None
    offset, value = source.choice(seen)
    drained = [[at, NEW if held == value else held] for at, held in log]
    return [*ops[:-2], *send(70, NEW, offset), ops[-2], replace(ops[-1], value=drained)]


def never_seen(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """The last acknowledged value is in no read."""
    last = log[-1][1]
    return unread(ops, last) if last in {ack.value["value"] for ack in acked(ops)} else None


def refused_and_read(*errors: str) -> Plant:
    """A send whose value was read failed with one of these errors."""

    def plant(source: random.Random, ops: list[Op], _log: Records) -> list[Op] | None:
        ack = source.choice(acked(ops)) if acked(ops) else None
        failure = {"type": "fail", "value": ack.value["value"], "error": source.choice(errors)} if ack else {}
        return [replace(op, **failure) if op is ack else op for op in ops] if ack else None

    return plant


def from_nowhere(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """The drain returns a value that was never sent."""
    return before_the_drain(ops, (), [log[-1][0] + 1, NEW])


def shown_by_a_poll_that_failed(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A failed poll returns a value that was never sent."""
    start = Op("invoke", "poll", 70)
    end = replace(start.info("_TRANSPORT"), value={KEY: [[log[-1][0] + 1, NEW]]})
    return before_the_drain(ops, (start, end))


def read_before_it_was_sent(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A poll returns a record before its send began."""
    return [*poll(70, log[0]), *ops]


def polls_skip(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A process polls a record, and then the one after the next."""
    at = source.randrange(len(log) - 2)
    return [*ops, *poll(70, log[at]), *poll(70, log[at + 2])]


def polls_go_back(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A process polls a record, and then it or an earlier one."""
    at = source.randrange(len(log))
    return [*ops, *poll(70, log[at]), *poll(70, log[source.randint(0, at)])]


def member_s_polls_skip(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A process whose group assigns its partitions polls a record, and then the one after the next."""
    return [*ops, *assigned(70, "subscribe"), *poll(70, log[0]), *poll(70, log[2])]


def poll_skips(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """One poll returns a record and the one after the next."""
    at = source.randrange(len(log) - 2)
    return [*ops, *poll(70, log[at], log[at + 2])]


def drain_goes_back(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """The drain returns two neighbours in reverse order."""
    at = source.randrange(len(log) - 1)
    return returning(ops, ops[-1], [*log[:at], log[at + 1], log[at], *log[at + 2 :]])


def sends_go_back(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A process sends two values, and the second is before the first."""
    end = log[-1][0] + 1
    more = (*send(70, NEW, end + 1), *send(70, NEW + 1, end))
    return before_the_drain(ops, more, [end, NEW + 1], [end + 1, NEW])


def later_send_stands_before(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A process sends a value after another's was acknowledged, and it is before that one."""
    end = log[-1][0] + 1
    more = (*send(70, NEW, end + 1), *send(71, NEW + 1, end))
    return before_the_drain(ops, more, [end, NEW + 1], [end + 1, NEW])


def send_goes_back(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """One send's second record is before its first."""
    end = log[-1][0] + 1
    return before_the_drain(ops, send_all(70, (end + 1, NEW), (end, NEW + 1)), [end, NEW + 1], [end + 1, NEW])


def send_is_parted(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """Another's record is between those of one send."""
    end = log[-1][0] + 1
    one, other = send_all(70, (end, NEW), (end + 2, NEW + 1)), send(71, NEW + 2, end + 1)
    more = (one[0], other[0], one[1], other[1])
    return before_the_drain(ops, more, [end, NEW], [end + 1, NEW + 2], [end + 2, NEW + 1])


def sent_twice(source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """Two sends are of one value."""
    value = source.choice([op.value for op in ops if op.type == "invoke" and op.f == "send"])
    end = log[-1][0] + 1
    return before_the_drain(ops, send(70, value, end), [end, value])


def drained_too_soon(_source: random.Random, ops: list[Op], log: Records) -> list[Op] | None:
    """A send is acknowledged after the drain."""
    return [*ops, *send(70, NEW, log[-1][0] + 1)]


def drain_broke_off(_source: random.Random, ops: list[Op], _log: Records) -> list[Op] | None:
    """The drain has no completion."""
    return [*ops[:-1], replace(ops[-1].info("_TIMED_OUT"), value=None)] if acked(ops) else None


def second_drain_is_empty(_source: random.Random, ops: list[Op], _log: Records) -> list[Op] | None:
    """A second drain returns nothing."""
    return [*ops, *drain(70)]


def committed_back(source: random.Random, ops: list[Op], log: Records) -> list[Op]:
    """A member commits less than another had committed before it began."""
    return behind(source, ops, log, lambda offset: commit(71, offset))


def committed_offset_lost(source: random.Random, ops: list[Op], log: Records) -> list[Op]:
    """In the final reads, the group's committed offset is below a member's commit, or missing."""
    return behind(source, ops, log, lambda offset: committed(71, source.choice([offset, None]), at_last=True))


def committed_offset_stale(source: random.Random, ops: list[Op], log: Records) -> list[Op]:
    """During faults, a coordinator's answer is below a member's commit, or empty."""
    return behind(source, ops, log, lambda offset: committed(71, source.choice([offset, None])))


def behind(source: random.Random, ops: list[Op], log: Records, late: Callable[[int], tuple[Op, Op]]) -> list[Op]:
    """The history in which a member commits the whole log, followed by a lower offset."""
    end = log[-1][0] + 1
    return [*ops, *commit(70, end), *late(source.randrange(end))]


def named(*names: str) -> frozenset[str]:
    """Findings."""
    return frozenset(names)


SKIPS = named("poll-skip", "int-poll-skip")
CORRUPTIONS: Mapping[str, Corruption] = {
    "log: two values at an offset": Corruption(
        two_values_at_an_offset, named("inconsistent-offsets", "duplicate"),
        named("phantom-read", "nonlinearizable-log", "lost-write", "unseen"),
    ),
    "log: a value at two offsets": Corruption(value_at_two_offsets, named("duplicate")),
    "log: acknowledged at another offset": Corruption(
        acknowledged_beyond_the_end, named("duplicate"), named("nonlinearizable-log", "nonmonotonic-send")
    ),
    "log: passed over": Corruption(passed_over, named("lost-write", "unseen"), SKIPS),
    "log: vanished": Corruption(vanished, named("lost-write"), SKIPS),
    "log: overwritten": Corruption(overwritten, named("lost-write", "inconsistent-offsets"),
                                   named("nonlinearizable-log", "nonmonotonic-send")),
    "log: never seen": Corruption(never_seen, named("unseen")),
    "log: emptied": Corruption(second_drain_is_empty, named("lost-write")),
    "log: failed and read": Corruption(
        refused_and_read("UNKNOWN_TOPIC_OR_PART", "FENCED_LEADER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"),
        named("aborted-read"),
    ),
    "log: fenced and read": Corruption(
        refused_and_read("_FENCED", "PRODUCER_FENCED", "sending: INVALID_PRODUCER_EPOCH: old epoch"),
        named("zombie-write"),
    ),
    "log: a record from nowhere": Corruption(from_nowhere, named("phantom-read")),
    "log: shown by a poll that failed": Corruption(shown_by_a_poll_that_failed, named("phantom-read")),
    "log: read before it was sent": Corruption(
        read_before_it_was_sent, named("phantom-read"), named("nonlinearizable-log")
    ),
    "log: polls skip": Corruption(polls_skip, named("poll-skip")),
    "log: polls go back": Corruption(polls_go_back, named("nonmonotonic-poll")),
    "log: a member's polls skip, tolerated": Corruption(member_s_polls_skip, named("poll-skip")),
    "log: a poll skips": Corruption(poll_skips, named("int-poll-skip")),
    "log: a drain goes back": Corruption(drain_goes_back, named("int-nonmonotonic-poll"), SKIPS),
    "log: sends go back": Corruption(sends_go_back, named("nonmonotonic-send", "nonlinearizable-log")),
    "log: a later send has a lower offset": Corruption(later_send_stands_before, named("nonlinearizable-log")),
    "log: a send goes back": Corruption(send_goes_back, named("int-nonmonotonic-send")),
    "log: a send is parted, tolerated": Corruption(send_is_parted, named("int-send-skip")),
    "log: a commit goes back": Corruption(committed_back, named("committed-offset-regression")),
    "log: a committed offset is lost": Corruption(committed_offset_lost, named("committed-offset-regression")),
    "log: a committed offset is stale, tolerated": Corruption(
        committed_offset_stale, named("stale-committed-offset")
    ),
    "log: a value sent twice, unknown": Corruption(sent_twice, named("values-not-unique")),
    "log: drained too soon, unknown": Corruption(drained_too_soon, named("not-drained")),
    "log: a drain broke off, unknown": Corruption(drain_broke_off, named("not-drained")),
}  # fmt: skip
