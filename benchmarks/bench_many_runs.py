"""How long a store of small runs takes to judge: all at once, and one by one on a sample, in the same session.

Each generated run has 2,000 operations on ten registers, three nodes that elect a leader and commit, the batches of
their logs, and a fault that is healed; one run in ten has a stale read. All standard checks of a register's run judge
them. Spark's start and a first judgement, which compiles the kernels, are left out. The baseline is one by one.

    .venv/bin/python benchmarks/bench_many_runs.py [RUNS] [--master MASTER]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parent))

import generators
from generators import Recipe

from checkers.framework.contract import Check, JudgeSettings
from checkers.framework.session import LARGE_BYTES, SparkSession, spark_session
from checkers.framework.tables import Chunks, chunks_of
from checkers.run_checks import CheckResults, RunInput, judge_runs
from harness import plugins
from harness.judging.batches import BATCH_ROWS
from harness.model import NEMESIS, Observation
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS

RUNS, OPERATIONS, SAMPLE, NODES = 1000, 2000, 4, (1, 2, 3)
VARIETY = 20
"""How many different runs there are; the others are copies of their files."""

NAMES = ("nemesis", "servers", "register", "quorum", "divergence", "liveness", "announcements", "availability")
NEMESIS_ROWS = ((0.1, "mark", '"story"'), (0.3, "cut", '{"nodes": [1]}'), (0.6, "heal", None))
"""When, as a share of the history, and what the nemesis did."""

BATCHES_OF_LOG, CLAIMS = 330, 80


def history_of(number: int) -> pa.Table:
    """The history of a run, every tenth with a stale read."""
    recipe = Recipe(OPERATIONS, seed=number + 1, processes=10, keys=10, stale=number % 10 == 9)
    rows = pa.concat_tables(generators.tables(recipe))
    places = {int(share * len(rows)): (f, value) for share, f, value in NEMESIS_ROWS}
    pieces, begun = [], 0
    for at, (f, value) in places.items():
        time_ns = rows["time_ns"][at].as_py()
        op = {"time_ns": time_ns, "process": NEMESIS, "type": "info", "f": f, "value": value}
        pieces += [rows.slice(begun, at - begun), pa.Table.from_pylist([op, op], HISTORY)]
        begun = at
    whole = pa.concat_tables([*pieces, rows.slice(begun)])
    return whole.set_column(0, "index", pa.array(range(len(whole)), pa.int64()))


def observations_of(end_ns: int) -> list[Observation]:
    """Three processes, an election, and the leader's answers until the end."""
    seen = [Observation(node, node, "process", "started") for node in NODES]
    seen += [Observation(10, 1, "log", "transition", "Prospective", "Unattached", 1)]
    seen += [Observation(11, 1, "log", "transition", "Candidate", "Prospective", 2)]
    seen += [Observation(12, 1, "log", "transition", "Leader", "Candidate", 2)]
    for at in range(CLAIMS):
        mark = BATCHES_OF_LOG * at // CLAIMS
        detail = json.dumps({"voters": dict.fromkeys(NODES, mark)})
        time_ns = 20 + end_ns * at // CLAIMS
        more = {"high_watermark": mark, "log_end_offset": mark, "detail": detail}
        seen.append(Observation(time_ns, 1, "describe-quorum", "claim", epoch=2, **more))
        seen += [Observation(time_ns, node, "quorum-state", "durable", epoch=2) for node in NODES]
    return seen


def generate(folder: Path, number: int) -> None:
    """The tables of a run."""
    history = history_of(number)
    end_ns = pc.max(history["time_ns"]).as_py()
    batches = [
        LoggedBatch(node, "__cluster_metadata", 0, at, at, 2, 7) for node in NODES for at in range(BATCHES_OF_LOG)
    ]
    tables = {
        "history": history,
        "observations": pa.Table.from_pylist([asdict(each) for each in observations_of(end_ns)], OBSERVATIONS),
        "batches": pa.Table.from_pylist([asdict(each) for each in batches], BATCHES),
    }
    for name, rows in tables.items():
        (folder / name).mkdir(parents=True)
        parquet.write_table(rows, folder / name / "merged.parquet")


def copy(original: Path, folder: Path) -> None:
    """A run with the tables of another."""
    for file in original.glob("*/*.parquet"):
        (folder / file.parent.name).mkdir(parents=True)
        (folder / file.parent.name / file.name).write_bytes(file.read_bytes())


def judged(
    spark: SparkSession, runs: Sequence[Chunks], checks: Mapping[str, Check], at_once: int
) -> tuple[float, list[CheckResults]]:
    """Seconds, and the results of all runs, so many at once."""
    settings = JudgeSettings(ops=plugins.ops())
    began, results = time.perf_counter(), []
    for first in range(0, len(runs), at_once):
        inputs = [RunInput(each, checks, settings) for each in runs[first : first + at_once]]
        results += judge_runs(inputs, spark)
    return time.perf_counter() - began, results


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("runs", type=int, nargs="?", default=RUNS)
    arguments.add_argument("--master", help="Spark's master; this machine by default")
    options = arguments.parse_args()
    checks = {name: plugins.check(name) for name in NAMES}
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / f"run-{number:05}" for number in range(options.runs)]
        for number, folder in enumerate(folders):
            generate(folder, number) if number < VARIETY else copy(folders[number % VARIETY], folder)
        size_bytes = sum(file.stat().st_size for folder in folders for file in folder.glob("history/*"))
        spark = spark_session(options.master, large=size_bytes > LARGE_BYTES)
        began = time.perf_counter()
        runs = [chunks_of(folder) for folder in folders]
        reading = time.perf_counter() - began
        judged(spark, runs[:1], checks, 1)
        sample, alone = judged(spark, runs[:SAMPLE], checks, 1)
        whole, together = judged(spark, runs, checks, max(1, BATCH_ROWS // runs[0].rows))
    same = [(each.findings, each.quantities) for each in together[:SAMPLE]]
    assert same == [(each.findings, each.quantities) for each in alone], "the results are not those of one by one"
    assert sum(bool(each.findings) for each in together) >= options.runs // 10
    per_run = sample / len(alone)
    rows = [
        ("one by one (baseline)", per_run * 1000, 1.0),
        ("all at once", whole / len(runs) * 1000, whole / len(runs) / per_run),
        ("looking at their files", reading / len(runs) * 1000, reading / len(runs) / per_run),
    ]
    headers = (f"{options.runs:,} runs of {OPERATIONS:,} operations", "seconds per 1,000 runs", "ratio")
    print(tabulate(rows, headers=headers, floatfmt=(".0f", ".1f", ".3f")))


if __name__ == "__main__":
    main()
