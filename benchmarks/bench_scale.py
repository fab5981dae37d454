"""How long a large history takes from Parquet to verdict on this machine's cores, and how much memory.

    python benchmarks/bench_scale.py                                    # 10^7 operations, in each shape
    python benchmarks/bench_scale.py --operations 100000000 --shape skewed --directory /var/tmp

The histories are valid ones of registers with unique values, recorded as runs are: by twenty clients, in chunks. They
differ in how the operations fall on keys:

    one      one key
    skewed   a thousand keys, each used as often as its rank says (Zipf's law)
    small    keys of about ten operations each, from the first minute to the last
    beside   half of the operations on one key, half on keys of about ten

A history of a tenth of the operations is judged twice before. `ratio` shows whether the time grows linearly: it is the
time of an operation in the large history, divided by the best in the small one. Memory is the peak of the resident
pages of this process and all processes below it (Java, Python workers); shared pages are counted in each. --memory
bounds Java's heap.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import generators
import pyarrow.parquet as parquet
from generators import Recipe
from tabulate import tabulate

from checkers.framework.contract import JudgeSettings
from checkers.framework.session import spark_session
from checkers.linearizability.register import REGISTER_CHECK
from checkers.run_checks import judge

CLIENTS = 20
SMALL = 10


def recipe_of(shape: str, operations: int) -> Recipe:
    """The history of a shape."""
    small = operations // SMALL
    return {
        "one": Recipe(operations, processes=CLIENTS),
        "skewed": Recipe(operations, processes=CLIENTS, keys=1000, skew=1.0),
        "small": Recipe(operations, processes=CLIENTS, keys=small),
        "beside": Recipe(operations, processes=CLIENTS, keys=small // 2, first=0.5),
    }[shape]


SHAPES = ("one", "skewed", "small", "beside")


def write_history(directory: Path, operations: int, shape: str) -> None:
    """A run's history, in chunks of bounded size."""
    directory.mkdir(parents=True)
    for chunk, table in enumerate(generators.tables(recipe_of(shape, operations))):
        parquet.write_table(table, directory / f"{chunk:06}.parquet")


@contextmanager
def peak_of_tree() -> Iterator[list[int]]:
    """The peak of the bytes of this process and all below it, as the list's only number."""
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
    own = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= below
    return sum(pages.get(pid, 0) for pid in own) * os.sysconf("SC_PAGE_SIZE")


def measured(directory: Path, operations: int, shape: str) -> tuple[float, int]:
    """Seconds from Parquet to verdict, and the peak of memory meanwhile."""
    run = directory / f"{shape}-{operations}"
    if not run.exists():
        write_history(run / "history", operations, shape)
    with peak_of_tree() as peak:
        results = judge(run, {"register": REGISTER_CHECK}, JudgeSettings(), spark_session())
    if results.findings:
        raise SystemExit(f"{run}: expected no findings for a valid history, found {results.findings[0]}")
    return results.seconds, peak[0]


def main() -> None:
    """Measure, and print a line for each shape."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--operations", type=int, default=10_000_000)
    arguments.add_argument("--shape", choices=SHAPES, action="append", help="one or more; all by default")
    arguments.add_argument("--memory", default="1g", help="Java's heap")
    arguments.add_argument("--cores", default="*", help="how many cores; all by default")
    arguments.add_argument(
        "--directory", type=Path, help="where histories are written and kept; a temporary directory by default"
    )
    options = arguments.parse_args()
    spark = spark_session(f"local[{options.cores}]", options.memory, large=True)
    rows = []
    with TemporaryDirectory() as scratch:
        for shape in options.shape or SHAPES:
            directory = options.directory or Path(scratch)
            before, _ = min(measured(directory, options.operations // 10, shape) for _ in range(2))
            seconds, peak = measured(directory, options.operations, shape)
            rows.append([shape, options.operations, seconds, seconds / before / 10, peak / 2**30])
            print(tabulate(rows[-1:], tablefmt="plain", floatfmt=".2f"), flush=True)
    spark.stop()
    print(tabulate(rows, headers=["shape", "operations", "seconds", "ratio", "peak, GiB"], floatfmt=".2f"))


if __name__ == "__main__":
    main()
