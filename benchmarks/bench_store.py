"""How long a large store takes: listing its runs, and comparing two halves of them.

The store has generated runs, 10,000 by default, each with plan, status and verdict. `runs` reads them all the first
time and their table from then on; `compare` runs one query on Spark; `serve` reads the table for a page. The baseline,
in the same run, is reading every verdict once, without anything else. The command `compare` reads the store while Spark
starts; what it takes beyond that is the difference to a process that starts Spark and counts one row.

    .venv/bin/python benchmarks/bench_store.py [RUNS]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tabulate import tabulate

from checkers.framework.session import spark_session
from harness.comparing.report import compare_words
from harness.judging.index import index
from harness.judging.known import Known
from harness.judging.spark import start_spark
from harness.model import Finding, Quantity, Verdict
from harness.model.errors import EXIT_INVALID
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from harness.serving.application import application
from harness.serving.store import MAX_AGE_SECONDS
from results.files import write_json
from results.run_verdict import RunVerdict, write_verdict
from results.store import RunDirectory

RUNS = 10_000
CASES = 100
STARTS = 3
PROGRAM = Path(sys.executable).with_name("splitbrain")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PAGES = ("/", "/runs", "/runs?text=case-7", "/trends")
LOST = Finding("register", "lost-write", "invalid", "the write of 7 was lost")


def generate(store: Path, count: int) -> None:
    """Runs of CASES workloads; the second half is a day later, and in it every tenth case fails."""
    for number in range(count):
        is_later, case = number >= count // 2, number % CASES
        now = BEGIN + timedelta(days=is_later, seconds=number)
        run = RunDirectory(store / f"{now:%Y%m%dT%H%M%SZ}-run-{number:05}")
        run.path.mkdir(parents=True)
        story = [StoryStep(f="kill", value={"who": "leader"})]
        run.plan.write_text(Plan(name=f"case-{case}", seed=number, workload="register", story=story).as_json())
        times = {"created": now.isoformat(), "running": now.isoformat(), "recorded": now.isoformat()}
        write_json(run.status_file, {"kind": "run", "status": "judged", "times": times})
        findings = (LOST,) if is_later and case % 10 == 0 else ()
        quantities = tuple(Quantity("q", f"quantity_{each}_ms", float(number % 97), "ms") for each in range(20))
        gap = Quantity("availability", "commit_gap_ms", 600.0 + number % 97, "ms")
        verdict = Verdict.INVALID if findings else Verdict.VALID
        write_verdict(run, RunVerdict("run", verdict, "", findings=findings, quantities=(gap, *quantities)))


def seconds(action: Callable[[], Any]) -> float:
    """How long an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def compare(store: Path) -> None:
    """Compare the two days; the failing cases must be found."""
    result = compare_words("2026-01-01", "2026-01-02", store, Known(), start_spark(), lambda _text: None)
    assert len(result.of("newly failing")) == CASES // 10, result.headline


def command_seconds(store: Path) -> tuple[float, float]:
    """How long the command takes as a process, and how long one that only starts Spark: medians of STARTS."""
    command = [PROGRAM, "compare", "2026-01-01", "2026-01-02", "--store", store]
    alone = "from checkers.framework.session import spark_session; spark_session().range(1).count()"
    each = [(taken(command, EXIT_INVALID), taken([sys.executable, "-c", alone], 0)) for _ in range(STARTS)]
    whole, start = (statistics.median(times) for times in zip(*each, strict=True))
    return whole, start


def taken(argv: Sequence[object], code: int) -> float:
    """How long a process takes that must exit with this code."""
    began = time.perf_counter()
    done = subprocess.run([str(each) for each in argv], check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return time.perf_counter() - began


def browse(store: Path, address: str) -> float:
    """How long a page of `serve` takes when its rows are too old to be shown."""
    client = application(store, Known()).test_client()
    time.sleep(MAX_AGE_SECONDS)
    return seconds(lambda: client.get(address).get_data())


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs"
        generate(store, count)
        baseline = seconds(lambda: [json.loads(path.read_bytes()) for path in store.glob("*/verdict.json")])
        first, again = seconds(lambda: index(store)), seconds(lambda: index(store))
        spark_session()
        compared = [seconds(lambda: compare(store)) for _ in range(2)]
        whole, start = command_seconds(store)
        listed = statistics.median(taken([PROGRAM, "runs", "--store", store], 0) for _ in range(STARTS))
        pages = {address: browse(store, address) for address in PAGES}
    rows = [
        ("reading every verdict (baseline)", baseline, 1.0),
        ("runs, first time", first, first / baseline),
        ("runs, from then on", again, again / baseline),
        ("the command runs", listed, listed / baseline),
        ("compare, first time", compared[0], compared[0] / baseline),
        ("compare, from then on", compared[1], compared[1] / baseline),
        ("the command compare", whole, whole / baseline),
        ("the command compare, beyond Spark's start", whole - start, (whole - start) / baseline),
        *((f"serve, {address}", taken, taken / baseline) for address, taken in pages.items()),
    ]
    print(tabulate(rows, headers=(f"{count:,} runs", "seconds", "ratio"), floatfmt=".2f"))


if __name__ == "__main__":
    main()
