"""Registers: reads, writes and compare-and-sets.

If the values written to a key are unique, checking it takes linear time without compare-and-sets (kernels/zones.py) and
the time of a sort with them (kernels/chains.py); otherwise the searches decide (portfolio.py).

Contains the choice among them, and the message for each verdict.
"""

from __future__ import annotations

import json

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import Keys
from checkers.framework.operations import Batch, register_operations
from checkers.kernels import chains, zones
from checkers.kernels.rows import CAS, INVOKE, NOBODY, READ, Rows
from checkers.linearizability import signatures
from checkers.linearizability.models.model import Model, Outcome, Problem
from checkers.linearizability.portfolio import searched
from harness.model.records.evidence import Zone, Zones

GUARANTEE = "reads see the latest write"


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Check each key by the fastest algorithm that applies."""
    values = len(keys.texts) + 1
    verdicts, witnesses = zones.judge_registers(keys.starts, keys.kind, keys.f, keys.value, keys.partner, values)
    counts = operations_of(keys)
    hard = np.flatnonzero(verdicts == zones.NOT_UNIQUE)
    batch = register_operations(keys) if len(hard) else None
    scratch = np.full((len(batch.texts) if batch else 0, chains.BY_VALUE), NOBODY, np.int64)
    outcomes = []
    for which, verdict in enumerate(verdicts.tolist()):
        if verdict == zones.NOT_UNIQUE and batch is not None:
            outcomes.append(with_swaps(keys, batch, which, scratch, settings.search_steps))
        else:
            problem = problem_of(keys, verdict, witnesses[which])
            outcomes.append(Outcome("zones of unique values", int(counts[which]), problem))
    return outcomes


def operations_of(keys: Keys) -> Rows:
    """How many operations each key has."""
    return np.add.reduceat(keys.kind == INVOKE, keys.starts[:-1]) if len(keys.names) else np.zeros(0, np.int64)


def with_swaps(keys: Keys, batch: Batch, which: int, scratch: Rows, steps_max: int) -> Outcome:
    """A key with compare-and-sets, or with values that repeat."""
    operations = batch.of(which)
    witness = np.full(zones.WITNESSES, NOBODY, np.int64)
    verdict = chains.judge_chains(operations, scratch, witness)
    if verdict == zones.NOT_UNIQUE:
        return searched(keys, operations, GUARANTEE, steps_max, batch.texts.__getitem__)
    return Outcome("chains of unique values", len(operations.call), problem_of(keys, verdict, witness))


def problem_of(keys: Keys, verdict: int, witness: Rows) -> Problem | None:
    """The problem that a kernel's verdict stands for, if any."""
    if verdict == zones.VALID:
        return None
    rows = [int(row) for row in witness if row != NOBODY]
    if verdict in (chains.SWAPPED_TWICE, chains.CIRCLE, chains.OUT_OF_ORDER):
        rows += [int(keys.partner[row]) for row in rows]
    bounds = zones_of(keys, witness) if verdict in (zones.ZONES_CROSS, zones.ZONE_INSIDE) else None
    return Problem("non-linearizable", "invalid", explain(keys, verdict, witness), rows, bounds)


def zones_of(keys: Keys, witness: Rows) -> Zones:
    """The two values' zones, which witness bounds."""
    bounds = witness.reshape(-1, 2).tolist()
    return Zones(tuple(Zone(zone_name(keys, *each), *(index_at(keys, row) for row in each)) for each in bounds))


def zone_name(keys: Keys, first_return: int, last_call: int) -> str:
    """The value, or a chain's at either end of its zone."""
    held = dict.fromkeys(value_at(keys, row) for row in (first_return, last_call) if row != NOBODY)
    return " … ".join(held)


def value_at(keys: Keys, row: int) -> str:
    """The value that the operation of this row leaves or returns."""
    # A read's value is in its completion, that of other operations in the invocation.
    is_here = (keys.kind[row] == INVOKE) != (keys.f[row] == READ)
    held = int(keys.value[row if is_here else keys.partner[row]])
    return json.dumps(json.loads(keys.texts[held])[1]) if keys.f[row] == CAS else keys.shown(held)


def index_at(keys: Keys, row: int) -> int:
    """The history index of a row; NOBODY stays NOBODY."""
    return NOBODY if row == NOBODY else int(keys.index[row])


def explain(keys: Keys, verdict: int, witness: Rows) -> str:
    """Why no order exists, in terms of the operations that bound it."""
    ops = [keys.describe(at) for at in witness if at != NOBODY and at >= 0]
    if verdict == zones.NEVER_WRITTEN:
        return (
            f"reads return written values: {ops[0]} returned a value that was never written, or only by a failed write"
        )
    if verdict == zones.FUTURE_READ:
        return f"reads return written values: {ops[0]} ended before {ops[1]} began"
    if verdict == chains.SWAPPED_TWICE:
        return f"a value written once is swapped once: {ops[0]} and {ops[1]} both replaced it"
    if verdict == chains.CIRCLE:
        return f"a swap finds a value written before it: {ops[0]} replaced a value that only its own new value led to"
    if verdict == chains.OUT_OF_ORDER:
        return f"{GUARANTEE}: {ops[0]} ended before {ops[1]} began, which must precede it"
    if len(ops) < 4:
        return f"{GUARANTEE}: {ops[1]} ended before {ops[0]} began, which returned the initial value"
    return (
        f"{GUARANTEE}: no order exists, because "
        f"{ops[0]} ended before {ops[3]} began, and {ops[2]} ended before {ops[1]} began"
    )


REGISTER = Model(signatures.REGISTER, judge)
CAS_REGISTER = Model(signatures.CAS_REGISTER, judge)
