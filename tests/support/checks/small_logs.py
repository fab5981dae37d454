"""Small histories of a log's clients: literal ones in a few words, or random ones from a simulated log, disturbed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from checkers.kafka_log import client_log as log
from checkers.kafka_log import group_offsets
from checkers.kernels import log as kernel
from checkers.twins import group_offsets as offsets_twin
from checkers.twins import log as log_twin
from checkers.twins.zombies import is_fenced
from harness.model import Op
from tests.support.checks.small_histories import history

KEY = "log-0"
Records = list[list[int]]


def send(process: int, value: int, offset: int, key: str = KEY) -> tuple[Op, Op]:
    """A send's invocation and its acknowledgement at this offset."""
    start = Op("invoke", "send", process, key, value)
    return start, start.ok({"offset": offset, "value": value})


def led_send(process: int, value: int, offset: int) -> tuple[Op, Op]:
    """A send's invocation and its acknowledgement by the leader alone at this offset."""
    start = Op("invoke", "send", process, KEY, value)
    return start, start.ok({"offset": offset, "value": value, "acks": 1})


def lost_send(
    process: int, value: int, end: str = "info", key: str = KEY, refusal: str = "UNKNOWN_TOPIC_OR_PART"
) -> tuple[Op, Op]:
    """A send's invocation and a completion other than ok; refusal is a failure's error."""
    start = Op("invoke", "send", process, key, value)
    return start, start.info("timeout") if end == "info" else start.fail(refusal)


def send_all(process: int, *records: tuple[int, int]) -> tuple[Op, Op]:
    """One send of several records, acknowledged; each is its offset and its value."""
    start = Op("invoke", "send", process, KEY, [value for _, value in records])
    return start, start.ok([{"offset": offset, "value": value} for offset, value in records])


def poll(process: int, *records: Sequence[int], key: str = KEY) -> tuple[Op, Op]:
    """A poll's invocation and its ok with these offsets and values."""
    start = Op("invoke", "poll", process)
    return start, start.ok({key: [list(record) for record in records]} if records else {})


def drain(process: int, *records: Sequence[int], key: str = KEY) -> tuple[Op, Op]:
    """A drain's invocation and its ok with these offsets and values."""
    start = Op("invoke", "drain", process, key)
    return start, start.ok([list(record) for record in records])


def assigned(process: int, f: str = "assign") -> tuple[Op, Op]:
    """A process assigns itself every partition, or joins its group."""
    start = Op("invoke", f, process)
    return start, start.ok()


def commit(process: int, offset: int, key: str = KEY) -> tuple[Op, Op]:
    """A member's commit of its position."""
    start = Op("invoke", "commit", process)
    return start, start.ok({key: offset})


def lost_commit(process: int, offset: int, end: str = "info", key: str = KEY) -> tuple[Op, Op]:
    """A commit that the coordinator refused, or with an unknown outcome."""
    start = Op("invoke", "commit", process)
    ended = start.info("REQUEST_TIMED_OUT") if end == "info" else start.fail("ILLEGAL_GENERATION")
    return start, replace(ended, value={key: offset})


def committed(process: int, offset: int | None, key: str = KEY, at_last: bool = False) -> tuple[Op, Op]:
    """The coordinator's answer about one partition; at_last for the final read of that partition alone."""
    start = Op("invoke", "committed", process, key if at_last else None)
    return start, start.ok({key: offset})


def random_log(source: random.Random, first_process: int, key: str, size_max: int = 14) -> list[Op]:
    """Two senders, two pollers and a group on a correct log, drained at the end or not.

    Some sends end in info or fail; indexes are from 0 on.
    """
    log: Records = []
    ops: list[Op] = []
    positions: dict[int, int] = {}
    group: list[int | None] = [None]
    processes = [first_process + number for number in range(4)]
    for value in range(1, source.randint(2, size_max)):
        process = source.choice(processes)
        if process < first_process + 2:
            ops += _sent(source, process, value, log, key)
        elif source.random() < 0.1:
            ops += assigned(process, source.choice(["assign", "subscribe"]))
            positions[process] = 0
        else:
            start = positions.get(process, 0)
            positions[process] = source.randint(start, len(log))
            ops += poll(process, *[(at, value) for at, value in log[start : positions[process]]], key=key)
        if source.random() < 0.35:
            member = source.choice(processes[2:])
            ops += _of_group(source, member, group, len(log), key)
        if len(ops) >= 4 and source.random() < 0.3:
            _overlap(ops)
    if source.random() < 0.5:
        ops += committed(first_process, group[-1], key, at_last=True)
    if source.random() < 0.8:
        ops += drain(first_process, *[(at, value) for at, value in log], key=key)
    return history(*ops)


def _sent(source: random.Random, process: int, value: int, log: Records, key: str) -> tuple[Op, Op]:
    outcome, offset = source.random(), len(log)
    if outcome < 0.7 or (outcome < 0.9 and source.random() < 0.5):
        log.append([offset, value])
    if outcome < 0.7:
        return send(process, value, offset, key)
    return lost_send(process, value, "info" if outcome < 0.9 else "fail", key)


def _of_group(source: random.Random, process: int, group: list[int | None], end: int, key: str) -> tuple[Op, Op]:
    """A commit ahead of the others, or a committed; group has every offset committed, end is the log's."""
    ahead, outcome = source.randint(group[-1] or 0, end), source.random()
    if outcome < 0.5:
        group.append(ahead)
        return commit(process, ahead, key) if outcome < 0.4 else lost_commit(process, ahead, "info", key)
    if outcome < 0.6:
        return lost_commit(process, source.randint(0, ahead), source.choice(["info", "fail"]), key)
    return committed(process, group[-1], key)


def _overlap(ops: list[Op]) -> None:
    """The history in which the last two operations, if by two processes, are concurrent and end in the same order."""
    first, first_end, second, second_end = ops[-4:]
    if first.process != second.process and (first.type, second.type) == ("invoke", "invoke"):
        ops[-4:] = [first, second, first_end, second_end]


def disturbed(source: random.Random, ops: Sequence[Op]) -> list[Op]:
    """The history with a random violation, and the same indexes."""
    return DISTURBANCES[source.choice(list(DISTURBANCES))](source, list(ops))


def _in_reads(change: Callable[[random.Random, Records], Records]) -> Callable[[random.Random, list[Op]], list[Op]]:
    """A change to the records of one read."""

    def disturb(source: random.Random, ops: list[Op]) -> list[Op]:
        reads = [at for at, op in enumerate(ops) if op.type == "ok" and op.f in ("poll", "drain") and op.value]
        if reads:
            at = source.choice(reads)
            ops[at] = replace(ops[at], value=_changed(ops[at].value, lambda records: change(source, records)))
        return ops

    return disturb


def _changed(value: Any, change: Callable[[Records], Records]) -> Any:
    """A read's value with its records changed."""
    if isinstance(value, dict):
        return {key: change(records) for key, records in value.items() if records}
    return change(value) if value else value


def _other_value(source: random.Random, records: Records) -> Records:
    at = source.randrange(len(records))
    return [[offset, source.randint(1, 20) if at == place else value] for place, (offset, value) in enumerate(records)]


def _other_offset(source: random.Random, records: Records) -> Records:
    at = source.randrange(len(records))
    return [[source.randint(0, 12) if at == place else offset, value] for place, (offset, value) in enumerate(records)]


def _one_left_out(source: random.Random, records: Records) -> Records:
    at = source.randrange(len(records))
    return [*records[:at], *records[at + 1 :]]


def _shuffled(source: random.Random, records: Records) -> Records:
    return source.sample(records, len(records))


def _never_read(source: random.Random, ops: list[Op]) -> list[Op]:
    """No read returns an acknowledged value."""
    gone = source.randint(1, 10)
    is_read = {op.index for op in ops if op.type == "ok" and op.f in ("poll", "drain")}
    return [
        replace(op, value=_changed(op.value, lambda records: [one for one in records if one[1] != gone]))
        if op.index in is_read
        else op
        for op in ops
    ]


def _reported_failed(source: random.Random, ops: list[Op]) -> list[Op]:
    """An acknowledgement becomes a failure, by fencing or not."""
    acked = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "send" and isinstance(op.value, dict)]
    if acked:
        at = source.choice(acked)
        error = source.choice([None, "UNKNOWN_TOPIC_OR_PART", "_FENCED", "INVALID_PRODUCER_EPOCH"])
        ops[at] = replace(ops[at], type="fail", value=ops[at].value["value"], error=error)
    return ops


def _reported_unknown(source: random.Random, ops: list[Op]) -> list[Op]:
    """An acknowledgement becomes an error with an offset, which counts only if a read shows the value."""
    acked = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "send" and isinstance(op.value, dict)]
    if acked:
        at = source.choice(acked)
        ops[at] = replace(ops[at], type="info", value={**ops[at].value, "offset": source.randint(0, 12)})
    return ops


def _by_leader(source: random.Random, ops: list[Op]) -> list[Op]:
    """Only the leader acknowledged a send, perhaps at an offset that another record has in the end."""
    acked = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "send" and isinstance(op.value, dict)]
    if acked:
        at = source.choice(acked)
        offset = source.choice([ops[at].value["offset"], source.randint(0, 12)])
        ops[at] = replace(ops[at], value={**ops[at].value, "offset": offset, "acks": 1})
    return ops


def _other_committed_offset(source: random.Random, ops: list[Op]) -> list[Op]:
    """A commit, or an answer of the coordinator, has another offset."""
    ends = [at for at, op in enumerate(ops) if op.type == "ok" and op.f in ("commit", "committed")]
    if ends:
        at = source.choice([ends[-1], *ends])
        nothing = [None] if ops[at].f == "committed" else []
        other = source.choice([0, *nothing, source.randrange(12)])
        ops[at] = replace(ops[at], value=dict.fromkeys(ops[at].value, other))
    return ops


def _offset_of_a_send(source: random.Random, ops: list[Op]) -> list[Op]:
    """An acknowledgement at another offset."""
    acked = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "send" and isinstance(op.value, dict)]
    if acked:
        at = source.choice(acked)
        ops[at] = replace(ops[at], value={**ops[at].value, "offset": source.randint(0, 12)})
    return ops


def _joined_sends(source: random.Random, ops: list[Op]) -> list[Op]:
    """Two acknowledged sends become one, in either order, where the first was; the row numbers of the second stay
    empty."""
    acked = [op for op in ops if op.type == "ok" and op.f == "send" and isinstance(op.value, dict)]
    if len(acked) < 2:
        return ops
    first, second = sorted(source.sample(acked, 2), key=lambda op: op.index)
    both = source.sample([first.value, second.value], 2)
    joined = {_begun(ops, first).index: [one["value"] for one in both], first.index: both}
    gone = {_begun(ops, second).index, second.index}
    return [replace(op, value=joined.get(op.index, op.value)) for op in ops if op.index not in gone]


def _begun(ops: Sequence[Op], end: Op) -> Op:
    """The invocation of a completion."""
    return [op for op in ops if op.process == end.process and op.type == "invoke" and op.index < end.index][-1]


def _sent_twice(source: random.Random, ops: list[Op]) -> list[Op]:
    """Two sends have the same value."""
    values = [op.value for op in ops if op.f == "send" and op.type == "invoke" and isinstance(op.value, int)]
    sends = [at for at, op in enumerate(ops) if op.f == "send" and op.type == "invoke" and op.value in values]
    if sends:
        at = source.choice(sends)
        ops[at] = replace(ops[at], value=source.choice(values))
    return ops


def _ended_badly(source: random.Random, ops: list[Op]) -> list[Op]:
    """A read ends in info, with its records."""
    reads = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "poll"]
    if reads:
        at = source.choice(reads)
        ops[at] = replace(ops[at], type="info", error="_TRANSPORT")
    return ops


def _swapped_polls(source: random.Random, ops: list[Op]) -> list[Op]:
    """Two polls exchange their records."""
    polls = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "poll" and op.value]
    if len(polls) >= 2:
        one, other = source.sample(polls, 2)
        ops[one], ops[other] = (
            replace(ops[one], value=ops[other].value), replace(ops[other], value=ops[one].value),
        )  # fmt: skip
    return ops


DISTURBANCES: dict[str, Callable[[random.Random, list[Op]], list[Op]]] = {
    "nothing": lambda _source, ops: ops,
    "another value in a read": _in_reads(_other_value),
    "another offset in a read": _in_reads(_other_offset),
    "a record left out of a read": _in_reads(_one_left_out),
    "a read out of order": _in_reads(_shuffled),
    "two polls that are swapped": _swapped_polls,
    "a value that is never read": _never_read,
    "a send that failed": _reported_failed,
    "a send of unknown end with an offset": _reported_unknown,
    "a send that the leader alone acknowledged": _by_leader,
    "another offset of a send": _offset_of_a_send,
    "another committed offset": _other_committed_offset,
    "two sends in one": _joined_sends,
    "a value sent twice": _sent_twice,
    "a poll that ended badly": _ended_badly,
}


def random_case(seed: int, first_process: int = 0, key: str = KEY) -> list[Op]:
    """A random log with up to two violations."""
    source = random.Random(seed)
    ops = random_log(source, first_process, key)
    for _ in range(source.choice([0, 1, 1, 2])):
        ops = disturbed(source, ops)
    return ops


def found_by_kernel(ops: list[Op]) -> list[log_twin.Found]:
    """The kernel's findings about one key's operations, without Spark."""
    rows = [events_row(one) for one in log_twin.events_of(KEY, ops)]
    empty = [op for op in ops if op.f == "drain" and op.value == []]
    began = {end: call for call, end in log_twin.drains_of(KEY, ops)}
    rows += [events_row(log_twin.Event(op, began[op.index], (), None, kernel.NOTHING)) for op in empty]
    found = log.judge(KEY, pa.Table.from_pylist(sorted(rows, key=lambda one: one["index"]))).to_pylist() if rows else []
    offsets = [offsets_row(event) for event in offsets_twin.events_of(ops)]
    found += group_offsets.judge(KEY, pa.Table.from_pylist(offsets), "log").to_pylist() if offsets else []
    return [(one["key"], one["name"], one["severity"], tuple(one["witnesses"])) for one in found]


def offsets_row(event: offsets_twin.OffsetEvent) -> dict:
    """A committed offset of an operation, as the kernel takes it."""
    what = group_offsets.SEEN if event.is_stale_at_worst else group_offsets.COMMITTED_BY
    return {"call": event.call, "index": event.end, "what": what, "offset": event.offset}


def events_row(one: log_twin.Event) -> dict:
    """A record of an operation, as the kernel takes it."""
    failed = kernel.FENCED if is_fenced(one.op.error) else kernel.FAILED
    acked = kernel.BY_LEADER if one.is_by_leader else kernel.ACKED
    sends = {"invoke": kernel.SENT, "ok": acked, "fail": failed, "info": kernel.UNKNOWN}
    reads = {"poll": kernel.POLLED if one.op.type == "ok" else kernel.POLLED_BADLY, "drain": kernel.DRAINED}
    return {
        "index": one.op.index,
        "call": one.call,
        "process": one.op.process,
        "assignment": len(one.assignments),
        "subscribed": one.assignments[-1:] == ("subscribe",),
        "what": sends[one.op.type] if one.op.f == "send" else reads[one.op.f],
        "offset": kernel.NOTHING if one.offset is None else one.offset,
        "value": one.value,
    }
