"""How fast the checks are, as ratios against something plain on the same machine.

    python benchmarks/bench_checkers.py

A history of 1,000,000 operations on unique-value registers from Parquet to verdict; the zones kernel against the plain
twin and the search; a session's start with and without the archive of classes. Each part runs once warm, best of three
for kernels.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from tabulate import tabulate

from checkers.archive import write_archive
from checkers.contract import JudgeSettings
from checkers.judge import judge
from checkers.kernels import search, zones
from checkers.kernels.rows import NEVER, NIL
from checkers.kernels.steps import NO_TEXTS
from checkers.keyed import Keys, keys_of
from checkers.operations import register_operations
from checkers.session import archive_file, cache_directory, spark_session
from checkers.twins import registers as twins
from harness.model.tables import HISTORY

OPERATIONS = 1_000_000
START = """
from pathlib import Path
from checkers.session import spark_session
spark_session(archive=Path({!r})).range(9).count()
"""


def rows_of(operations_count: int, keys: int, processes: int, seed: int) -> pa.Table:
    """Histories of registers in turn-by-turn concurrency: each process invokes, takes effect and returns at random."""
    source = random.Random(seed)
    held = [None] * keys
    columns: dict[str, list] = {name: [] for name in ("process", "type", "f", "key", "value")}
    running: dict[int, tuple[str, int, int | None]] = {}
    begun = 0
    while begun < operations_count or running:
        process = source.randrange(processes)
        if process not in running:
            if begun == operations_count:
                process = next(iter(running))
            else:
                begun += 1
                f, key = source.choice(("read", "write")), source.randrange(keys)
                running[process] = (f, key, begun)
                add(columns, process, "invoke", f, key, begun if f == "write" else None)
                continue
        f, key, value = running.pop(process)
        if f == "write":
            held[key] = value
        add(columns, process, "ok", f, key, held[key])
    count = len(columns["process"])
    numbers = {"index": range(count), "time_ns": range(count), "node": [1] * count, "error": [None] * count}
    return pa.table({**columns, **numbers}).select(HISTORY.names).cast(HISTORY)


def add(columns: dict[str, list], process: int, kind: str, f: str, key: int, value: int | None) -> None:
    """One row; what takes effect does so as it returns, which any order of returns explains."""
    fields = {
        "process": process,
        "type": kind,
        "f": f,
        "key": f"k{key}",
        "value": None if value is None else str(value),
    }
    for name, field in fields.items():
        columns[name].append(field)


def as_keys(table: pa.Table) -> Keys:
    """A single key's rows as the kernels take them."""
    kinds = {"invoke": 0, "ok": 1}
    codes = {"read": 0, "write": 1}
    kind = pa.array([kinds[text] for text in table.column("type").to_pylist()])
    f = pa.array([codes[text] for text in table.column("f").to_pylist()])
    final = pa.array(np.zeros(table.num_rows, bool))
    columns = {name: table.column(name) for name in ("key", "index", "time_ns", "process", "value", "node")}
    return keys_of(pa.table({**columns, "kind": kind, "f": f, "final": final}))


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """The best of several runs."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def kernels() -> list[list]:
    """ns an operation of each kernel on one key, and of the plain twin on what it can bear."""
    large, small = as_keys(rows_of(200_000, 1, 10, 1)), as_keys(rows_of(60, 1, 4, 1))

    def run_zones() -> None:
        zones.judge_registers(large.starts, large.kind, large.f, large.value, large.partner, len(large.texts) + 1)

    columns = register_operations(large).of(0)
    plain = [
        twins.Operation(int(call), None if back == NEVER else int(back), int(code), int(a), int(b))
        for call, back, code, a, b in zip(*register_operations(small).of(0), strict=True)
    ]
    run_zones()
    fast = seconds(run_zones) / 200_000
    searched = seconds(lambda: search.search(columns, NO_TEXTS, NIL, 10**7, 1 << 30)) / 200_000
    twin = seconds(lambda: twins.linearizable(plain)) / 60
    return [
        ["zones kernel, ns an op", fast * 1e9, 1.0],
        ["search kernel, ns an op", searched * 1e9, searched / fast],
        ["plain twin (60 ops), ns an op", twin * 1e9, twin / fast],
    ]


def parquet_to_verdict() -> list[list]:
    """Seconds from Parquet to verdict, the session warm, with many keys and with one."""
    spark = spark_session()
    results = []
    for keys in (1, 1000):
        with TemporaryDirectory() as directory:
            (Path(directory) / "history").mkdir()
            parquet.write_table(rows_of(OPERATIONS, keys, 20, 2), Path(directory) / "history" / "0.parquet")
            judge(Path(directory), ["register"], JudgeSettings(), spark)
            judgement = judge(Path(directory), ["register"], JudgeSettings(), spark)
            told = f"10^6 ops, {keys} keys, Parquet to {judgement.verdict.value}, s"
            results.append([told, judgement.seconds, judgement.seconds / results[0][1] if results else 1.0])
    spark.stop()
    return results


def session_start() -> list[list]:
    """Seconds from a cold interpreter to a first count, without the archive and with it."""
    archive = archive_file(cache_directory())
    if not archive.exists():
        subprocess.run([sys.executable, "-m", write_archive.__module__], check=True, capture_output=True)
    starts = {}
    for name, file in (("without", "/nonexistent"), ("with", str(archive))):
        command = [sys.executable, "-c", START.format(file)]
        starts[name] = seconds(lambda command=command: subprocess.run(command, check=True, capture_output=True), 2)
    return [[f"session {name} the archive, s", taken, taken / starts["without"]] for name, taken in starts.items()]


if __name__ == "__main__":
    table = [*kernels(), *parquet_to_verdict(), *session_start()]
    print(tabulate(table, headers=["measured", "value", "ratio"], floatfmt=".2f"))
