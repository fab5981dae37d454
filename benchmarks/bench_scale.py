"""How long a large history takes from Parquet to verdict on this machine's cores, and how much memory.

    python benchmarks/bench_scale.py                                    # 10^7 operations, in each shape
    python benchmarks/bench_scale.py --operations 100000000 --shape skewed --directory /var/tmp

The histories are valid ones of registers with unique values, recorded as runs are: by twenty clients, in chunks. They
differ in how the operations fall on keys:

    one      one key
    skewed   a thousand keys, each asked as often as its rank says (Zipf's law)
    small    keys of ten operations each, all open from the first to the last minute
    beside   half of the operations on one key, half on keys of ten

A judgement of a tenth of the operations goes first, so that `ratio` tells whether the time grows with the size: it is
the time an operation takes, over the time it takes there. Memory is the most that this process and all below it (Java,
Python workers) held at once: resident pages, those that they share counted in each. Java's heap is bounded by --memory.
"""

from __future__ import annotations

import argparse
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numba import njit
from tabulate import tabulate

from checkers.contract import JudgeSettings
from checkers.judge import judge
from checkers.session import spark_session
from harness.model.tables import HISTORY

CLIENTS = 20
CHUNK_ROWS = 2_000_000
TYPES, FS = pa.array(["invoke", "ok"]), pa.array(["read", "write"])
SHAPES = ("one", "skewed", "small", "beside")
SKEWED_KEYS = 1000
SMALL = 10
IDLE = -1
OPEN_KEY, OPEN_VALUE = 0, 1


@dataclass(frozen=True, slots=True)
class Clients:
    """What goes on between one chunk and the next: each client's open operation, what each key holds, the count."""

    running: np.ndarray
    held: np.ndarray
    begun: np.ndarray


def write_history(directory: Path, operations: int, shape: str) -> None:
    """A run's history, in chunks of bounded size."""
    directory.mkdir(parents=True)
    source = np.random.default_rng(1)
    keys = keys_of(shape, operations)
    clients = Clients(np.full((CLIENTS, 2), IDLE), np.zeros(keys, np.int64), np.zeros(1, np.int64))
    for chunk, first in enumerate(range(0, 2 * operations, CHUNK_ROWS)):
        rows = min(CHUNK_ROWS, 2 * operations - first)
        # A client is drawn for each row, and more for those that find nothing left to begin.
        draws = source.integers(CLIENTS, size=rows + 100 * CLIENTS)
        asked = drawn_keys(source.random(rows), shape, keys)
        columns = play(draws, asked, clients.running, clients.held, clients.begun, operations, rows)
        parquet.write_table(table_of(first, *columns), directory / f"{chunk:06}.parquet")


def keys_of(shape: str, operations: int) -> int:
    """How many keys a history of this shape has."""
    return {"one": 1, "skewed": SKEWED_KEYS, "small": operations // SMALL, "beside": operations // SMALL // 2 + 1}[
        shape
    ]


def drawn_keys(draws: np.ndarray, shape: str, keys: int) -> np.ndarray:
    """A key for each draw from [0, 1)."""
    if shape == "skewed":
        return (np.exp(draws * math.log(keys + 1)) - 1).astype(np.int64)
    if shape == "beside":
        return np.where(draws < 0.5, 0, 1 + (2 * (draws - 0.5) * (keys - 1)).astype(np.int64))
    return (draws * keys).astype(np.int64)


@njit(cache=True)
def play(
    draws: np.ndarray, asked: np.ndarray, running: np.ndarray, held: np.ndarray, begun: np.ndarray,
    total: int, rows: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The next rows: process, type, f, key and value (0 for none); an operation takes effect as it returns."""
    process, kind, f = np.empty(rows, np.int32), np.zeros(rows, np.int8), np.zeros(rows, np.int8)
    key, value = np.empty(rows, np.int64), np.zeros(rows, np.int64)
    row, at = 0, 0
    while row < rows:
        # The last rows of a history only return: then the clients take turns.
        client = draws[at] if at < draws.shape[0] else at % running.shape[0]
        at += 1
        if running[client, OPEN_KEY] == IDLE:
            if begun[0] == total:
                continue
            begun[0] += 1
            key[row] = asked[row]
            if begun[0] % 2:
                f[row], value[row] = 1, begun[0]
            running[client, OPEN_KEY], running[client, OPEN_VALUE] = key[row], value[row]
        else:
            kind[row], key[row] = 1, running[client, OPEN_KEY]
            if running[client, OPEN_VALUE]:
                f[row], held[key[row]] = 1, running[client, OPEN_VALUE]
            value[row] = held[key[row]]
            running[client, OPEN_KEY] = IDLE
        process[row] = client
        row += 1
    return process, kind, f, key, value


def table_of(
    first: int, process: np.ndarray, kind: np.ndarray, f: np.ndarray, key: np.ndarray, value: np.ndarray
) -> pa.Table:
    """Rows as the recorder writes them; first is the first one's index."""
    index = np.arange(first, first + len(kind))
    columns = {
        "index": index,
        "time_ns": index * 1000,
        "process": process,
        "type": TYPES.take(pa.array(kind)),
        "f": FS.take(pa.array(f)),
        "key": pa.array(key).cast(pa.string()),
        "value": pa.array(value, mask=value == 0).cast(pa.string()),
        "node": process % 3 + 1,
        "error": pa.nulls(len(kind)),
    }
    return pa.table(columns).select(HISTORY.names).cast(HISTORY)


@contextmanager
def peak_of_tree() -> Iterator[list[int]]:
    """The most bytes that this process and all below it held at once: the list's one number, at the end."""
    peak, is_done = [0], threading.Event()

    def watch() -> None:
        while not is_done.wait(0.1):
            peak[0] = max(peak[0], tree_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        is_done.set()
        watcher.join()


def tree_bytes() -> int:
    """The resident bytes of this process and all below it."""
    parents, pages = {}, {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(directory.name)] = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            pages[int(directory.name)] = int((directory / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    mine = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= below
    return sum(pages.get(pid, 0) for pid in mine) * os.sysconf("SC_PAGE_SIZE")


def measured(directory: Path, operations: int, shape: str) -> tuple[float, int]:
    """Seconds from Parquet to verdict, and the peak of memory meanwhile."""
    run = directory / f"{shape}-{operations}"
    if not run.exists():
        write_history(run / "history", operations, shape)
    with peak_of_tree() as peak:
        judgement = judge(run, ["register"], JudgeSettings(), spark_session())
    if judgement.findings:
        raise SystemExit(f"{run}: a valid history is found fault with: {judgement.findings[0]}")
    return judgement.seconds, peak[0]


def main() -> None:
    """Measure, and print a line for each shape."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--operations", type=int, default=10_000_000)
    arguments.add_argument("--shape", choices=SHAPES, action="append", help="one or more; all by default")
    arguments.add_argument("--memory", default="1g", help="Java's heap")
    arguments.add_argument("--cores", default="*", help="how many cores; all by default")
    arguments.add_argument(
        "--directory", type=Path, help="where histories are made and kept; gone afterwards by default"
    )
    asked = arguments.parse_args()
    spark = spark_session(f"local[{asked.cores}]", asked.memory, large=True)
    rows = []
    with TemporaryDirectory() as scratch:
        for shape in asked.shape or SHAPES:
            directory = asked.directory or Path(scratch)
            before, _ = measured(directory, asked.operations // 10, shape)
            seconds, peak = measured(directory, asked.operations, shape)
            rows.append([shape, asked.operations, seconds, seconds / before / 10, peak / 2**30])
            print(tabulate(rows[-1:], tablefmt="plain", floatfmt=".2f"), flush=True)
    spark.stop()
    print(tabulate(rows, headers=["shape", "operations", "seconds", "ratio", "peak, GiB"], floatfmt=".2f"))


if __name__ == "__main__":
    main()
