"""How long the first check of a process takes: a history of four lines, from the command's start to its end.

Each row is a process of its own, the median of five that take turns. The baseline starts Spark as PySpark does without
any setting, and ends. The second starts it as splitbrain does. The third also runs one query that reads a row of
Parquet and passes it through a Python function: the least that a check can do, since Spark's first query loads most of
its classes, and starts the process that runs Python.

    .venv/bin/python benchmarks/bench_first_check.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tabulate import tabulate

ROUNDS = 5
HISTORY = """\
{:type :invoke, :f :write, :value 1, :process 0, :time 0, :index 0}
{:type :ok, :f :write, :value 1, :process 0, :time 10, :index 1}
{:type :invoke, :f :read, :value nil, :process 1, :time 20, :index 2}
{:type :ok, :f :read, :value 1, :process 1, :time 30, :index 3}
"""
PLAIN = "from pyspark.sql import SparkSession; SparkSession.builder.master('local[*]').getOrCreate()"
START = "from harness.judging.spark import start_spark; spark = start_spark().result()"
QUERY = """
import sys
import pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"id": [1]}), sys.argv[1])
def same(batches):
    yield from batches
assert spark.read.parquet(sys.argv[1]).mapInArrow(same, "id bigint").collect()[0].id == 1
"""


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        history, row = Path(folder) / "history.edn", str(Path(folder) / "row.parquet")
        history.write_text(HISTORY)
        splitbrain = str(Path(sys.executable).with_name("splitbrain"))
        commands = {
            "start Spark without settings (baseline)": [sys.executable, "-c", PLAIN],
            "start Spark as splitbrain does": [sys.executable, "-c", START],
            "and one query with a Python function": [sys.executable, "-c", START + QUERY, row],
            "check four lines": [splitbrain, "check", "--model", "register", str(history), "--report", f"{folder}/new"],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(ROUNDS):
            commands["check four lines"][-1] = f"{folder}/report-{number}"
            for name, argv in commands.items():
                began = time.perf_counter()
                subprocess.run(argv, check=True, capture_output=True)
                taken[name].append(time.perf_counter() - began)
    baseline, *_ = (median(each) for each in taken.values())
    rows = [(name, median(each), median(each) / baseline) for name, each in taken.items()]
    print(tabulate(rows, headers=("process", "seconds", "ratio"), floatfmt=".2f"))


if __name__ == "__main__":
    main()
