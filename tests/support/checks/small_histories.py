"""Small histories for the tests: literal ones in a few words, or random ones from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from checkers.kernels.rows import CAS, FAIL, INFO, INVOKE, NIL, OK, READ, WRITE, Place
from harness.model import NEMESIS, Op

KINDS = {"invoke": INVOKE, "ok": OK, "fail": FAIL, "info": INFO}
FS = {"read": READ, "write": WRITE, "cas": CAS}
MS = 1_000_000


def history(*ops: Op) -> list[Op]:
    """The ops with indexes from 0 on; an op without a time has one millisecond for each index."""
    return [
        replace(op, index=index, time_ns=index * MS if op.time_ns < 0 else op.time_ns) for index, op in enumerate(ops)
    ]


def read(process: int, value: Any, key: str = "x", node: int = 1) -> tuple[Op, Op]:
    """A read's invocation and its ok."""
    start = Op("invoke", "read", process, key, node=node)
    return start, start.ok(value)


def write(process: int, value: Any, key: str = "x", node: int = 1) -> tuple[Op, Op]:
    """A write's invocation and its ok."""
    start = Op("invoke", "write", process, key, value, node)
    return start, start.ok()


def nemesis_op(f: str, value: Any = None, node: int | None = None) -> tuple[Op, Op]:
    """The two rows of an operation of the nemesis."""
    return Op("invoke", f, NEMESIS, value=value, node=node), Op("info", f, NEMESIS, value=value, node=node)


def row(op: Op) -> dict[str, Any]:
    """The op as a row of the history table."""
    names = ("index", "time_ns", "process", "type", "f", "key", "node", "error")
    columns = {name: getattr(op, name) for name in names}
    return columns | {"value": None if op.value is None else json.dumps(op.value)}


def arrays(ops: Sequence[Op]) -> dict[str, np.ndarray]:
    """One key's ops as the kernels take them; values are numbers, None the initial one."""
    return {
        "kind": np.array([KINDS[op.type] for op in ops], np.int8),
        "f": np.array([FS[op.f] for op in ops], np.int8),
        "process": np.array([op.process for op in ops], Place),
        "value": np.array([NIL if op.value is None else op.value for op in ops], Place),
        "node": np.array([op.node or 0 for op in ops], Place),
    }


def random_register(
    random_source: random.Random,
    writes_are_unique: bool,
    swaps: bool,
    noises: Sequence[float] = (0, 0.1, 0.4),
    size_max: int = 8,
) -> list[Op]:
    """A register's history of few operations, from a simulated register with some reads disturbed."""
    held: Any = None
    ops: list[Op] = []
    running: dict[int, tuple[Op, Op | None]] = {}
    fresh, processes, begun = 0, list(range(random_source.randint(1, 4))), 0
    size, noise = random_source.randint(1, size_max), random_source.choice(noises)
    while begun < size or running:
        process = random_source.choice(processes)
        if process not in running:
            if begun == size:
                continue
            begun, fresh = begun + 1, fresh + 1
            start = begin(random_source, process, fresh if writes_are_unique else random_source.randint(1, 3), swaps)
            ops.append(start)
            running[process] = (start, None)
        elif running[process][1] is None:
            start = running[process][0]
            held, end = happen(random_source, start, held)
            if end.type == "ok" and start.f == "read" and random_source.random() < noise:
                end = replace(end, value=random_source.choice([None, *range(1, fresh + 2)]))
            running[process] = (start, end)
        else:
            _, finished = running.pop(process)
            assert finished is not None
            ops.append(finished)
            if finished.type == "info":
                processes[processes.index(process)] = process + 10
    return history(*ops)


def begin(random_source: random.Random, process: int, value: int, swaps: bool) -> Op:
    """A random invocation, on one of two nodes."""
    f = random_source.choice(["read", "read", "write", "write", *(["cas", "cas"] if swaps else [])])
    argument = {"read": None, "write": value, "cas": [random_source.randint(1, 3), value]}[f]
    return Op("invoke", f, process, "x", argument, random_source.randint(1, 2))


def happen(random_source: random.Random, start: Op, held: Any) -> tuple[Any, Op]:
    """Apply the operation to the register, or not; the register's value after it, and the completion."""
    outcome = random_source.random()
    if outcome < 0.1:
        return held, start.fail("refused")
    applies = start.f == "write" or (start.f == "cas" and start.value[0] == held)
    after = (start.value if start.f == "write" else start.value[1]) if applies else held
    if outcome < 0.25:
        return random_source.choice([held, after]), start.info("timeout")
    if start.f == "read":
        return held, replace(start, type="ok", value=held)
    return after, start.ok() if applies else start.fail("mismatch")
