"""Histories of registers of any size from a seed, as tables in the shape of our history, block by block.

    python benchmarks/generators.py history.parquet --operations 10000000 --keys 1000 --skew 1.1 --seed 7
    python benchmarks/generators.py stale.parquet --operations 100000 --swaps 0.3 --crashed 20 --stale
    splitbrain check --model cas-register history.parquet stale.parquet

Operation i takes effect at time i, begins a little before and returns a little after, on process i modulo their number.
So everything is arrays, and no step is simulated. The history is valid. With `stale`, one read returns a value that was
overwritten long before: with unique values (`values` 0) the history is then certainly invalid; where values repeat, the
value may have been written again meanwhile.

Contains the generation of histories. The benchmarks measure.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from harness.model.records.tables import HISTORY

READ, WRITE, SWAP, REFUSED = range(4)
WORDS = ("read", "write", "cas", "cas")
ENDED_OK, ENDED_FAIL, ENDED_INFO = range(3)
ENDS = ("ok", "fail", "info")
BLOCK = 1 << 20
"""How many operations are made at once."""

STALE_AT = 0.9
"""How far into the history the stale read is looked for."""

TOO_SHORT = "the history is too short, or has too few writes of a key, for a read to be stale"

Ints = np.ndarray


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a history is like.

    keys are drawn with a probability that falls with the power `skew` of their rank; the first key gets a share `first`
    of all operations in addition. values: how many different ones, 0 if each write has its own. writes, swaps: their
    shares of the operations; half of the swaps are refused. crashed: how many writes have an unknown outcome; half of
    them took effect.
    """

    operations: int
    seed: int = 1
    processes: int = 10
    keys: int = 1
    skew: float = 0.0
    first: float = 0.0
    values: int = 0
    writes: float = 0.5
    swaps: float = 0.0
    crashed: int = 0
    stale: bool = False


@dataclass(slots=True)
class Made:
    """The state between blocks: each key's value, how often each process was replaced, rows made, and later events."""

    held: Ints
    replaced: Ints
    rows: int
    waiting: pa.Table
    needs_stale: bool


@dataclass(slots=True)
class Operations:
    """A block's operations in the order of their effects: when each was called and returned, and what it did.

    before is the key's value before, argument the value that a write or swap writes, old what a swap expects, returned
    what a read returns; 0 is nil.
    """

    number: Ints
    call: Ints
    back: Ints
    process: Ints
    key: Ints
    code: Ints
    ended: Ints
    old: Ints
    argument: Ints
    returned: Ints


def tables(recipe: Recipe, block: int = BLOCK) -> Iterator[pa.Table]:
    """The history, some rows at a time, in order."""
    source, crashes, made = begun(recipe)
    for first in range(0, recipe.operations, block):
        numbers = np.arange(first, min(first + block, recipe.operations))
        operations = operations_of(recipe, source, numbers, np.isin(numbers, crashes), made)
        if made.needs_stale and numbers[-1] >= STALE_AT * (recipe.operations - 1):
            made.needs_stale = not make_stale(recipe, operations)
        is_last = numbers[-1] + 1 == recipe.operations
        yield settled(made, rows_of(operations), np.inf if is_last else numbers[-1] + 1 - recipe.processes / 2)
    if made.needs_stale:
        raise SystemExit(TOO_SHORT)


def whole(recipe: Recipe) -> Operations:
    """The history's operations in one block, in the order of their effects."""
    source, crashes, made = begun(recipe)
    numbers = np.arange(recipe.operations)
    operations = operations_of(recipe, source, numbers, np.isin(numbers, crashes), made)
    if recipe.stale and not make_stale(recipe, operations):
        raise SystemExit(TOO_SHORT)
    return operations


def begun(recipe: Recipe) -> tuple[np.random.Generator, Ints, Made]:
    """The parameters of a history, which of its operations crash, and the values before the first block."""
    source = np.random.default_rng(recipe.seed)
    crashes = np.sort(source.choice(recipe.operations, recipe.crashed, replace=False))
    nothing = HISTORY.append(pa.field("at", pa.float64())).empty_table()
    made = Made(np.zeros(recipe.keys, np.int64), np.zeros(recipe.processes, np.int64), 0, nothing, recipe.stale)
    return source, crashes, made


def operations_of(recipe: Recipe, source: np.random.Generator, number: Ints, crashes: Ints, made: Made) -> Operations:
    """A block of operations; each saw the value that its key held."""
    count, reach = len(number), recipe.processes / 2 - 0.5
    draw = source.random(count)
    code = np.select([draw < recipe.writes, draw < recipe.writes + recipe.swaps], [WRITE, SWAP], READ)
    code[(code == SWAP) & (source.random(count) < 0.5)] = REFUSED
    code[crashes] = WRITE
    takes_effect = (code == WRITE) | (code == SWAP)
    takes_effect[crashes] = source.random(int(crashes.sum())) < 0.5
    key = np.searchsorted(chances_of(recipe), source.random(count))
    argument = source.integers(1, recipe.values + 1, count) if recipe.values else number + 1
    before = held_before(key, argument, takes_effect, made.held)
    other = before % recipe.values + 1 if recipe.values > 1 else -1 - number
    return Operations(
        number,
        number - source.random(count) * reach,
        number + source.random(count) * reach,
        process_of(number, crashes, made.replaced),
        key,
        code,
        np.where(crashes, ENDED_INFO, np.where(code == REFUSED, ENDED_FAIL, ENDED_OK)),
        np.where(code == REFUSED, other, before),
        argument,
        before,
    )


@cache
def chances_of(recipe: Recipe) -> np.ndarray:
    """The cumulative probability of each key."""
    weights = 1.0 / np.arange(1, recipe.keys + 1) ** recipe.skew
    weights *= (1 - recipe.first) / weights.sum()
    weights[0] += recipe.first
    return np.cumsum(weights) / weights.sum()


def held_before(key: Ints, argument: Ints, takes_effect: Ints, held: Ints) -> Ints:
    """What each operation's key held before it; held becomes what the keys hold at the end."""
    order = np.argsort(key, kind="stable")
    places = np.arange(len(key))
    last = np.maximum.accumulate(np.where(takes_effect[order], places, -1))
    latest = np.append(-1, last[:-1])
    firsts = np.searchsorted(key[order], key[order])
    found = np.where(latest >= firsts, argument[order][latest], held[key[order]])
    before = np.empty_like(found)
    before[order] = found
    ends = np.flatnonzero(np.diff(key[order], append=-1))
    changed = ends[last[ends] >= firsts[ends]]
    held[key[order][changed]] = argument[order][last[changed]]
    return before


def process_of(number: Ints, crashes: Ints, replaced: Ints) -> Ints:
    """Each operation's process: one whose operation crashed never runs again, and another takes its place."""
    processes = len(replaced)
    process = number % processes
    generation = replaced[process]
    for at in np.flatnonzero(crashes):
        place = process[at]
        generation[at + 1 :][process[at + 1 :] == place] += 1
        replaced[place] += 1
    return process + processes * generation


def make_stale(recipe: Recipe, operations: Operations) -> bool:
    """Let one read return a value that was overwritten long before; False if no read can."""
    key = np.bincount(operations.key).argmax()
    own = operations.key == key
    sets = np.flatnonzero(own & np.isin(operations.code, (WRITE, SWAP)) & (operations.ended == ENDED_OK))
    reads = np.flatnonzero(own & (operations.code == READ) & (operations.number >= STALE_AT * recipe.operations))
    apart = 2 * recipe.processes
    for read in reads:
        newer = np.searchsorted(sets, read - apart) - 1
        older = np.searchsorted(sets, sets[newer] - apart) - 1 if newer >= 0 else -1
        if older >= 0 and operations.argument[sets[older]] != operations.returned[read]:
            operations.returned[read] = operations.argument[sets[older]]
            return True
    return False


def rows_of(operations: Operations) -> pa.Table:
    """Each operation's two rows, in no order."""
    invoked = texts_of(operations, np.zeros(len(operations.number), np.int64))
    ended = texts_of(operations, operations.returned)
    codes = pa.array(operations.code)
    words, keys = pa.array(WORDS).take(codes), pa.array(operations.key).cast(pa.string())
    process = pa.array(operations.process.astype(np.int32))
    refused = pc.if_else(pa.array(operations.ended == ENDED_FAIL), pa.scalar("mismatch"), pa.scalar(None, pa.string()))
    nothing = pa.nulls(len(words), pa.string())
    kinds = pa.array(ENDS).take(pa.array(operations.ended))
    ends = [
        (operations.call, pa.array(["invoke"] * len(words)), invoked, nothing),
        (operations.back, kinds, ended, refused),
    ]
    halves = [
        pa.table({"process": process, "type": kind, "f": words, "key": keys, "value": value, "error": error, "at": at})
        for at, kind, value, error in ends
    ]
    both = pa.concat_tables(halves)
    numbers = pa.nulls(both.num_rows, pa.int64())
    columns = {"index": numbers, "time_ns": numbers, "node": pa.nulls(both.num_rows, pa.int32())}
    for name, column in columns.items():
        both = both.append_column(name, column)
    return both.select([*HISTORY.names, "at"])


def texts_of(operations: Operations, returned: Ints) -> pa.Array:
    """Values as JSON: what was read, what was written, or the pair of a swap."""
    old = pc.if_else(pa.array(operations.old == 0), "null", pa.array(operations.old).cast(pa.string()))
    argument = pa.array(operations.argument).cast(pa.string())
    pair = pc.binary_join_element_wise("[", old, ", ", argument, "]", "")
    seen = pc.if_else(pa.array(returned == 0), pa.scalar(None, pa.string()), pa.array(returned).cast(pa.string()))
    is_read, is_write = pa.array(operations.code == READ), pa.array(operations.code == WRITE)
    return pc.if_else(is_read, seen, pc.if_else(is_write, argument, pair))


def settled(made: Made, rows: pa.Table, until: float) -> pa.Table:
    """The rows until a time in order, with their indexes; the others wait."""
    both = pa.concat_tables([made.waiting, rows])
    at = both.column("at").to_numpy()
    order = np.argsort(at, kind="stable")
    ready = order[: np.searchsorted(at[order], until)]
    made.waiting = both.take(order[len(ready) :])
    index = pa.array(np.arange(made.rows, made.rows + len(ready)))
    made.rows += len(ready)
    rows = both.take(ready).drop_columns("at")
    rows = rows.set_column(0, "index", index)
    return rows.set_column(1, "time_ns", pc.multiply(index, 1000)).cast(HISTORY)


def write(recipe: Recipe, path: Path) -> int:
    """Write the history as one Parquet file; its number of rows."""
    rows = 0
    with parquet.ParquetWriter(path, HISTORY) as file:
        for table in tables(recipe):
            file.write_table(table)
            rows += table.num_rows
    return rows


def main() -> None:
    """The recipe from the command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("path", type=Path, help="the Parquet file to write")
    for each in fields(Recipe):
        name = f"--{each.name}"
        if each.name == "stale":
            arguments.add_argument(name, action="store_true")
        elif each.name == "operations":
            arguments.add_argument(name, type=int, required=True)
        else:
            arguments.add_argument(name, type=type(each.default), default=each.default)
    chosen = vars(arguments.parse_args())
    path = chosen.pop("path")
    print(f"{path}: {write(Recipe(**chosen), path):,} rows")


if __name__ == "__main__":
    main()
