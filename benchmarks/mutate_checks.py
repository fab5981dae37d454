"""Mutants of the checks: comparison with the plain twins must find each of them.

    python benchmarks/mutate_checks.py [--histories 20000]

A mutant is a copy of the source with one changed line. In the copy runs benchmarks/fuzz_checks.py, or the tests of a
check that it does not compare; they must end in a disagreement or a crash, and must not without the change. Prints each
mutant with what was found, and exits 1 if one survived.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tabulate import tabulate

ROOT = Path(__file__).parents[1]
COPIED = ("checkers", "harness", "nemesis", "nodes", "workloads", "results", "tests", "benchmarks")
OUTPUT_MAX = 60
"""How much of a disagreement is printed."""


class Mutant(NamedTuple):
    """A file of checkers, the original text, its replacement, and the subject or test that must detect it."""

    file: str
    text: str
    instead: str
    subject: str


MUTANTS = (
    Mutant("kernels/zones.py", "return ZONE_INSIDE", "return VALID", "register"),
    Mutant("kernels/zones.py", "return ZONES_CROSS", "return VALID", "register"),
    Mutant("kernels/zones.py", "if f[row] == WRITE and ended != FAIL:", "if f[row] == WRITE:", "register"),
    Mutant("kernels/chains.py", "return SWAPPED_TWICE", "return VALID", "cas-register"),
    Mutant("kernels/chains.py", "return CIRCLE, chains", "return VALID, chains", "cas-register"),
    Mutant("kernels/chains.py", "back[one] < zone_to[chain]:", "back[one] < zone_from[chain]:", "cas-register"),
    Mutant("kernels/windows.py", "while cursor < alive + windows.crashed_open[at]:", "while cursor < alive:", "kv"),
    Mutant("kernels/queues.py", "]]] > back[dequeuer]", "]]] > call[dequeuer]", "fifo-queue"),
    Mutant("kernels/queues.py", "!= NOBODY and not crashed:", "!= NOBODY:", "fifo-queue"),
    Mutant("kernels/queues.py", "not_sure |= value[one] == NIL and back[one] != NEVER", "pass", "fifo-queue"),
    Mutant("kernels/inclusion.py", "known < sizes[order[place - 1]]", "known + 1 < sizes[order[place - 1]]", "set"),
    Mutant("kernels/inclusion.py", "2 * sizes[read] - 1", "2 * sizes[read] + 1", "set"),
    Mutant("framework/operations.py", "kept = (ended != FAIL) &", "kept =", "kv"),
    Mutant(
        "linearizability/models/lock.py", "code, releases, 1 - releases", "code, 0 * releases, 1 - releases", "mutex"
    ),
    Mutant("kernels/log.py", "log.rank(neighbours[:, 0]) > 1]", "log.rank(neighbours[:, 0]) > 2]", "log"),
    Mutant("kernels/ranks.py", "or offset[own] >= top:", "or offset[own] >= top - 1:", "log"),
    Mutant("kernels/log.py", "np.isin(what, (UNKNOWN, BY_LEADER))", "(what == FAILED)", "log"),
    Mutant("kernels/log.py", "refused[is_fenced]", "refused", "log"),
    Mutant("kafka_log/group_offsets.py", "offset[operation] + 1, NOTHING", "offset[operation], NOTHING", "log"),
    Mutant("transactions/edges.py", "over(in_order) == 1)", "over(in_order) == 2)", "transactions-list"),
    Mutant("transactions/rules.py", "not is_last and writer != txn", "is_last and writer != txn", "transactions-list"),
    Mutant("transactions/rules.py", "'fence' and status = 'ok'", "'fence' and status = 'fail'", "transactions-log"),
    Mutant("transactions/rules.py", "and was_drained and not was_read", "and not was_read", "transactions-log"),
    Mutant("kafka_log/divergence.py", "coalesce(found, -1) != epoch", "found is null", "kafka_log/test_divergence.py"),
    Mutant(
        "kafka_log/divergence.py",
        "(fn.max(name).alias(name)",
        "(fn.min(name).alias(name)",
        "kafka_log/test_divergence.py",
    ),
    Mutant(
        "kafka_log/divergence.py", 'fn.col("agreed") >= fn', 'fn.col("agreed") > fn', "kafka_log/test_divergence.py"
    ),
    Mutant(
        "kafka_log/divergence.py",
        'fn.col("logs") + fn.col("snapshots") >=',
        'fn.col("logs") >=',
        "kafka_log/test_divergence.py",
    ),
    Mutant("quorum/safety.py", '"next": "epoch = before + 1"', '"next": "epoch > before"', "quorum/test_safety.py"),
    Mutant("quorum/safety.py", "high_watermark < floor", "high_watermark < own", "quorum/test_safety.py"),
    Mutant(
        "announcements/votes.py", '"request") | fn.col("granted")', '"request")', "announcements/test_announcements.py"
    ),
    Mutant("announcements/votes.py", "(keeps & ~leads)", "keeps", "announcements/test_announcements.py"),
    Mutant(
        "announcements/commits.py", "<= fn.size(voters)", "< fn.size(voters)", "announcements/test_announcements.py"
    ),
    Mutant(
        "announcements/commits.py",
        '(fn.col("offset") < fn',
        '(fn.col("offset") <= fn',
        "announcements/test_announcements.py",
    ),
)


def planted(mutant: Mutant, copy: Path) -> str:
    """Apply the mutant and return the file's text before. Exits unless the original text occurs once."""
    path = copy / "checkers" / mutant.file
    before = path.read_text()
    if before.count(mutant.text) != 1:
        raise SystemExit(f"{mutant.file}: expected {mutant.text!r} once, found it {before.count(mutant.text)} times")
    path.write_text(before.replace(mutant.text, mutant.instead))
    return before


def found(mutant: Mutant, copy: Path, histories: int) -> str:
    """The result of the comparison in a copy with the mutant; empty if it finds nothing."""
    before = planted(mutant, copy)
    try:
        return compared(copy, histories, mutant.subject)
    finally:
        (copy / "checkers" / mutant.file).write_text(before)
        shutil.rmtree(copy / "cache", ignore_errors=True)


def compared(copy: Path, histories: int, *subjects: str) -> str:
    """The last line of the first failure of the comparisons in a copy; empty if all pass."""
    tests = [f"tests/checkers/{subject}" for subject in subjects if subject.endswith(".py")]
    output = ran(copy, "-m", "pytest", "-q", "-x", *tests) if tests else ""
    others = [word for subject in subjects if not subject.endswith(".py") for word in ("--only", subject)]
    if output or not others:
        return output
    return ran(copy, "benchmarks/fuzz_checks.py", "--histories", str(histories), *others)


def ran(copy: Path, *arguments: str) -> str:
    """The last line of Python's output in a copy; empty if it ends with exit code 0."""
    environment = os.environ | {"PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(copy / "cache")}
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = [text for text in ended.stdout.splitlines() if text.strip()] or ["no message"]
    return output[-1].removeprefix("check and twin differ: ") if ended.returncode else ""


def main() -> None:
    """Plant one after the other, and print the result of each."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--histories", type=int, default=10_000, help="how many for each mutant")
    arguments.add_argument("--only", choices=sorted({mutant.file for mutant in MUTANTS}), help="mutants of this file")
    chosen = arguments.parse_args()
    mutants = [mutant for mutant in MUTANTS if chosen.only in (None, mutant.file)]
    rows = []
    with TemporaryDirectory() as name:
        copy = Path(name)
        for directory in COPIED:
            shutil.copytree(ROOT / directory, copy / directory, ignore=shutil.ignore_patterns("__pycache__", "runs"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if output := compared(copy, 100, *sorted({mutant.subject for mutant in mutants})):
            raise SystemExit(f"without a mutant: {output}")
        shutil.rmtree(copy / "cache", ignore_errors=True)
        for mutant in mutants:
            began = time.perf_counter()
            output = found(mutant, copy, chosen.histories)
            rows.append([mutant.file, mutant.instead, output[:OUTPUT_MAX] or "SURVIVED", time.perf_counter() - began])
            print(*rows[-1][:3], sep=": ", file=sys.stderr, flush=True)
    print(tabulate(rows, headers=["file", "is now", "found", "s"], floatfmt=".0f"))
    raise SystemExit(any(row[2] == "SURVIVED" for row in rows))


if __name__ == "__main__":
    main()
