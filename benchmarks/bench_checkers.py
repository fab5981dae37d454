"""Compares the speed of the register's algorithms and their plain twin, and measures what the class archive saves.

    python benchmarks/bench_checkers.py

Measures the same histories with the kernel for unique values, the one for unique values with swaps, and both searches;
a history small enough for the twin; and a session's start with and without the archive. The best of three counts.
bench_targets.py has the project's targets, bench_scale.py large histories.
"""

from __future__ import annotations

import subprocess
import sys

import generators
import numpy as np
import pyarrow as pa
from bench_targets import STEPS, searchable, seconds_of
from generators import Recipe
from tabulate import tabulate
from timing import best

from checkers.archive import write_archive
from checkers.framework.contract import JudgeSettings
from checkers.framework.encoding import encoded
from checkers.framework.keyed import REGISTER_FS, keys_of
from checkers.framework.session import archive_file
from checkers.kernels import chains, layers, search, zones
from checkers.kernels.rows import NEVER, NIL, NOBODY
from checkers.kernels.steps import NO_TEXTS, REFUSED_SWAP, Operations
from checkers.linearizability.portfolio import MEMORY_BYTES
from checkers.twins import registers as twins

OPERATIONS = 200_000
SMALL = 60
START = """
from pathlib import Path
from checkers.framework.session import spark_session
spark_session(archive=Path({!r})).range(9).count()
"""


def unique_values() -> list[list]:
    """ns an operation of each algorithm that applies to a history of unique values."""
    recipe = Recipe(OPERATIONS)
    keys = keys_of(encoded(pa.concat_tables(generators.tables(recipe)), JudgeSettings(), REGISTER_FS))
    operations = searchable(generators.whole(recipe))

    def by_zones() -> int:
        return int(zones.judge_registers(*arrays)[0][0])

    arrays = keys.starts, keys.kind, keys.f, keys.value, keys.partner, len(keys.texts) + 1
    rows = [
        ["zones", by_zones],
        ["depth-first search", lambda: search.search(operations, NO_TEXTS, NIL, STEPS, MEMORY_BYTES)[0]],
        ["breadth-first search", lambda: layers.search_in_layers(operations, NO_TEXTS, NIL, STEPS, MEMORY_BYTES)[0]],
    ]
    return [[f"{name}, ns an operation", taken] for name, taken in timed(rows, OPERATIONS)]


def swapped_values() -> list[list]:
    """The same for chains of unique values, each swapped for the next at most once, compared with the search."""
    operations_made = searchable(generators.whole(Recipe(OPERATIONS, swaps=0.5)))
    operations = Operations(*(column[operations_made.code != REFUSED_SWAP] for column in operations_made))
    values = int(max(operations.a.max(), operations.b.max())) + 1
    scratch, witness = np.full((values, chains.BY_VALUE), NOBODY, np.int64), np.full(4, NOBODY, np.int64)
    rows = [
        ["chains", lambda: chains.judge_chains(operations, scratch, witness)],
        ["depth-first search, swaps", lambda: search.search(operations, NO_TEXTS, NIL, STEPS, MEMORY_BYTES)[0]],
    ]
    return [[f"{name}, ns an operation", taken] for name, taken in timed(rows, len(operations.code))]


def plain_twin() -> list[list]:
    """The same for the twin on a small history, since it tries every order."""
    columns = searchable(generators.whole(Recipe(SMALL, processes=4)))
    operations = [
        twins.Operation(int(call), None if back == NEVER else int(back), int(code), int(a), int(b))
        for call, back, code, a, b in zip(*columns, strict=True)
    ]
    rows = [
        [f"plain twin, {SMALL} operations", lambda: search.VALID if twins.linearizable(operations) else search.INVALID]
    ]
    return [[f"{name}, ns an operation", taken] for name, taken in timed(rows, SMALL)]


def timed(rows: list[list], operations: int) -> list[tuple[str, float]]:
    """(name, ns an operation) of each; all must find the history valid."""
    for name, run in rows:
        if run() != search.VALID:
            raise SystemExit(f"{name}: expected valid for a valid history, found another verdict")
    return [(name, best(run) / operations * 1e9) for name, run in rows]


def session_start() -> list[list]:
    """Seconds from a cold interpreter to a first count, with the archive and without it."""
    archive = archive_file()
    if not archive.exists():
        subprocess.run([sys.executable, "-m", write_archive.__module__], check=True, capture_output=True)
    files = {"with": str(archive), "without": "/nonexistent"}
    taken = {
        name: min(seconds_of([sys.executable, "-c", START.format(file)]) for _ in range(2))
        for name, file in files.items()
    }
    return [[f"session {name} the archive, s", each] for name, each in taken.items()]


if __name__ == "__main__":
    parts = ([*unique_values(), *swapped_values(), *plain_twin()], session_start())
    table = [[name, taken, taken / part[0][1]] for part in parts for name, taken in part]
    print(tabulate(table, headers=["measured", "value", "ratio to the first"], floatfmt=".2f"))
