"""Registers: reads, writes and compare-and-sets.

Where the values written to a key are unique, the verdict takes linear time without compare-and-sets (kernels/zones.py)
and that of a sort with them (kernels/chains.py); otherwise the searches judge (portfolio.py).

What may live here: which of these, and what each verdict says in words. What may not: kernels.
"""

from __future__ import annotations

import json

import numpy as np

from checkers.framework.contract import JudgeSettings
from checkers.framework.keyed import REGISTER_FS, Keys
from checkers.framework.operations import Batch, register_operations
from checkers.kernels import chains, zones
from checkers.kernels.rows import CAS, INVOKE, NOBODY, READ, Rows
from checkers.linearizability.models.model import Model, Outcome, Problem
from checkers.linearizability.portfolio import searched
from harness.model.records.evidence import Zone, Zones

GUARANTEE = "reads see the latest write"


def judge(keys: Keys, settings: JudgeSettings) -> list[Outcome]:
    """Each key by the quickest algorithm that can."""
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
    return np.add.reduceat(keys.kind == 0, keys.starts[:-1]) if len(keys.names) else np.zeros(0, np.int64)


def with_swaps(keys: Keys, batch: Batch, which: int, scratch: Rows, steps_max: int) -> Outcome:
    """A key with compare-and-sets, or with values that repeat."""
    operations = batch.of(which)
    witness = np.full(zones.WITNESSES, NOBODY, np.int64)
    verdict = chains.judge_chains(operations, scratch, witness)
    if verdict == zones.NOT_UNIQUE:
        return searched(keys, operations, GUARANTEE, steps_max, batch.texts.__getitem__)
    return Outcome("chains of unique values", len(operations.call), problem_of(keys, verdict, witness))


def problem_of(keys: Keys, verdict: int, witness: Rows) -> Problem | None:
    """What a kernel's verdict says, if anything is wrong."""
    if verdict == zones.VALID:
        return None
    rows = [int(row) for row in witness if row != NOBODY]
    if verdict in (chains.SWAPPED_TWICE, chains.CIRCLE, chains.OUT_OF_ORDER):
        rows += [int(keys.partner[row]) for row in rows]
    zones_told = zones_of(keys, witness) if verdict in (zones.ZONES_CROSS, zones.ZONE_INSIDE) else None
    return Problem("non-linearizable", "invalid", explain(keys, verdict, witness), rows, zones_told)


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
    # A read's value stands in its completion, what was asked for in the invocation.
    is_told_here = (keys.kind[row] == INVOKE) != (keys.f[row] == READ)
    held = int(keys.value[row if is_told_here else keys.partner[row]])
    return json.dumps(json.loads(keys.texts[held])[1]) if keys.f[row] == CAS else keys.shown(held)


def index_at(keys: Keys, row: int) -> int:
    """The history index of a row; NOBODY stays what it is."""
    return NOBODY if row == NOBODY else int(keys.index[row])


def explain(keys: Keys, verdict: int, witness: Rows) -> str:
    """Why no order exists, in terms of the operations that bound it."""
    told = [keys.describe(at) for at in witness if at != NOBODY and at >= 0]
    if verdict == zones.NEVER_WRITTEN:
        return f"reads return written values: {told[0]} saw what was never written, or only by a write that failed"
    if verdict == zones.FUTURE_READ:
        return f"reads return written values: {told[0]} ended before {told[1]} began"
    if verdict == chains.SWAPPED_TWICE:
        return f"a value written once is swapped once: {told[0]} and {told[1]} both took it"
    if verdict == chains.CIRCLE:
        return f"a swap finds what was written before it: {told[0]} took what only came of what it wrote"
    if verdict == chains.OUT_OF_ORDER:
        return f"{GUARANTEE}: {told[0]} ended before {told[1]} began, which must precede it"
    if len(told) < 4:
        return f"{GUARANTEE}: {told[1]} ended before {told[0]} began, which still saw the initial value"
    return (
        f"{GUARANTEE}: no order exists, for "
        f"{told[0]} ended before {told[3]} began, and {told[2]} ended before {told[1]} began"
    )


REGISTER = Model("register", REGISTER_FS, judge)
CAS_REGISTER = Model("cas-register", REGISTER_FS, judge)
