"""The checks' targets, one row each: what is measured, the target, and a ratio to something in the same run.

    python benchmarks/bench_targets.py                                     # two minutes
    python benchmarks/bench_targets.py --logs FOLDER                       # and Jepsen's logs of etcd in a folder
    python benchmarks/bench_targets.py --porcupine CHECKOUT                # and Porcupine on the same histories
    python benchmarks/bench_targets.py --large                             # 10^7 operations in place of 10^6

Kernels are warm and the best of three runs counts; the command is timed from the start of its process to its end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import generators
import numpy as np
import porcupine
import pyarrow as pa
import pyarrow.parquet as parquet
from bench_transactions import EDGES, graph
from generators import Recipe
from tabulate import tabulate
from timing import best

from checkers.framework.contract import JudgeSettings
from checkers.framework.encoding import encoded
from checkers.framework.keyed import keys_of
from checkers.framework.operations import register_operations
from checkers.kernels import log, zones
from checkers.kernels.rows import INVOKE, NEVER, NIL, OK, Place
from checkers.kernels.steps import NO_TEXTS, READ_OF, REFUSED_SWAP, SWAP, WRITE_OF, Operations
from checkers.linearizability.models.register import CAS_REGISTER
from checkers.linearizability.portfolio import decide
from checkers.transactions.cycles import cycles
from harness.histories.importing import import_histories, listed
from harness.model.records.logged_batch import LoggedBatch
from harness.model.records.observation import Observation
from harness.model.records.tables import BATCHES, OBSERVATIONS
from harness.planning.plan import Plan
from results.store import RunDirectory, new_run

STEPS = 20_000_000
VERDICTS = {0: "valid", 1: "invalid", 2: "unknown"}
CODES = np.array([READ_OF, WRITE_OF, SWAP, REFUSED_SWAP])
PEER_SECONDS = 60
PEER_MS_LEAST = 5.0
"""The target holds from this time of the peer on."""


class Row(NamedTuple):
    """A line of the table; ratio is to the first row of its kind."""

    measured: str
    value: float
    unit: str
    target: str
    ratio: float


def events_of(made: generators.Operations) -> tuple[np.ndarray, np.ndarray]:
    """The rows, in order of time, of each operation's call and of its return."""
    order = np.argsort(np.concatenate([made.call, made.back]), kind="stable")
    rows = np.empty_like(order)
    rows[order] = np.arange(len(order))
    return rows[: len(made.call)], rows[len(made.call) :]


def searchable(made: generators.Operations) -> Operations:
    """The operations as the searches take them."""
    call, back = events_of(made)
    code = CODES[made.code]
    a = np.select(
        [made.code == generators.READ, made.code == generators.WRITE], [made.returned, made.argument], made.old
    )
    b = np.where(code == SWAP, made.argument, NIL)
    columns = call, np.where(made.ended == generators.ENDED_INFO, NEVER, back), code, a, b
    order = np.argsort(call)
    return Operations(*(np.ascontiguousarray(column[order], np.int64) for column in columns))


def broken(recipe: Recipe) -> Operations:
    """The first history by seed that no order explains; where values repeat, a stale read may be valid."""
    for seed in range(1, 1000):
        operations = searchable(generators.whole(replace(recipe, seed=seed, stale=True)))
        if VERDICTS[decide(operations, NO_TEXTS, NIL, STEPS).verdict] == "invalid":
            return operations
    raise SystemExit("no seed below 1,000 gives a history that no order explains")


def histories() -> Iterator[tuple[str, Operations]]:
    """The histories that the searches are measured on; values repeat."""
    plain = Recipe(5000, processes=10, values=5)
    swaps = Recipe(2000, processes=20, values=5, writes=1 / 3, swaps=1 / 3)
    crashes = replace(swaps, processes=10, crashed=10)
    for name, recipe in (
        ("10 clients, 5,000 ops", plain),
        ("20 clients, 2,000 ops with swaps", swaps),
        ("10 clients, 2,000 ops with swaps, 10 crashed", crashes),
        ("5 clients, 50,000 ops with swaps", replace(swaps, processes=5, operations=50_000)),
    ):
        yield name, searchable(generators.whole(recipe))
        yield f"{name}, one stale read", broken(recipe)


def searches(peer: Path | None, directory: Path) -> Iterator[Row]:
    """Each history by the portfolio, and by the peer in turn."""
    for name, operations in histories():
        decision = decide(operations, NO_TEXTS, NIL, STEPS)
        verdict = VERDICTS[decision.verdict]
        ms = best(lambda operations=operations: decide(operations, NO_TEXTS, NIL, STEPS)) * 1e3
        yield Row(f"{name}: {verdict}", ms, "ms", "1,000 at most", 1.0)
        if peer is not None:
            yield compared(peer, name, operations, verdict, ms, directory)


def compared(peer: Path, name: str, operations: Operations, verdict: str, ms: float, directory: Path) -> Row:
    """The peer on the same history: if it has a verdict, ours must be equal; the row compares the times."""
    result = porcupine.judged(peer, operations, directory, PEER_SECONDS)
    if result.verdict in ("valid", "invalid") and result.verdict != verdict:
        raise SystemExit(f"{name}: expected {result.verdict}, as Porcupine says, found {verdict}")
    target = f"8 of ours, from {PEER_MS_LEAST:.0f} ms on"
    return Row(f"  Porcupine: {result.verdict}", result.ms, "ms", target, result.ms / ms)


def logs(folder: Path, peer: Path | None, directory: Path) -> Iterator[Row]:
    """Jepsen's logs in a folder: the register model from arrays to outcomes, the searches alone, and the peer."""
    paths = sorted(folder.glob("*.log"))
    if not paths:
        raise SystemExit(f"{folder}: expected Jepsen's logs, *.log, in it, found none")
    with import_histories(listed(paths), CAS_REGISTER.fs, False) as histories:
        table = parquet.read_table(histories.common)
    of_file = table.drop_columns("key").append_column("key", table["file"].cast(pa.string()))
    settings = JudgeSettings()
    made = keys_of(encoded(of_file, settings, CAS_REGISTER.fs), CAS_REGISTER.fs)
    outcomes = CAS_REGISTER.judge(made, settings)
    verdicts = ["invalid" if each.problem else "valid" for each in outcomes]
    counted = f"{verdicts.count('valid')} valid, {verdicts.count('invalid')} invalid"
    ms = best(lambda: CAS_REGISTER.judge(made, settings)) * 1e3
    yield Row(f"{len(paths)} logs of etcd, arrays to outcomes: {counted}", ms, "ms", "10 for 102 logs", 1.0)
    batch = register_operations(made)
    each_log = [batch.of(which) for which in range(len(outcomes))]
    searched = best(lambda: [decide(one, NO_TEXTS, NIL, STEPS) for one in each_log]) * 1e3
    yield Row("  the searches alone", searched, "ms", "", searched / ms)
    if peer is not None:
        results = [porcupine.judged(peer, one, directory, PEER_SECONDS) for one in each_log]
        if [one.verdict for one in results] != verdicts:
            raise SystemExit(f"{folder}: the verdicts differ from Porcupine's")
        total = sum(one.ms for one in results)
        yield Row("  Porcupine: the same verdicts", total, "ms", "", total / ms)


def unique_register(operations: int) -> Row:
    """The kernel for unique values, on one key, in order."""
    made = generators.whole(Recipe(operations))
    call, back = events_of(made)
    kind, f = (np.empty(2 * operations, np.int8) for _ in range(2))
    process, value, partner = (np.empty(2 * operations, Place) for _ in range(3))
    kind[call], kind[back] = INVOKE, OK
    f[call] = f[back] = made.code
    process[call] = process[back] = made.process
    value[call], value[back] = np.where(made.code == generators.WRITE, made.argument, NIL), made.returned
    value[back[made.code == generators.WRITE]] = made.argument[made.code == generators.WRITE]
    partner[call], partner[back] = back, call
    starts, values = np.array([0, 2 * operations]), operations + 1
    del made, call, back

    def run() -> int:
        return int(zones.judge_registers(starts, kind, f, value, partner, values)[0][0])

    if run() != zones.VALID:
        raise SystemExit("the zones kernel: expected valid for a valid history, found a violation")
    target = 0.5 * operations / 10**7
    return Row(f"unique-value register, {operations:,} ops, kernel", best(run), "s", f"{target:g}", 1.0)


def rank_scan(operations: int) -> Iterator[Row]:
    """A log's order in real time, and all its findings, from arrays: sends alone, each acknowledged."""
    call, back = events_of(generators.whole(Recipe(operations, writes=1.0)))
    what, offset, value, index, began = (np.empty(2 * operations, np.int64) for _ in range(5))
    what[call], what[back] = log.SENT, log.ACKED
    offset[call], offset[back] = log.NOTHING, np.arange(operations)
    value[call] = value[back] = np.arange(operations)
    index[:] = np.arange(2 * operations)
    began[call] = began[back] = call
    process = value % 10
    nothing = np.zeros(2 * operations, np.int64)
    events = log.Events(index, began, process, nothing, nothing > 0, what, offset, value)
    prepared = log.Log(events)
    if len(log.out_of_order(prepared)):
        raise SystemExit("the log's kernel: expected no findings for a valid history, found some")
    target = 0.15 * operations / 10**7
    taken = best(lambda: log.out_of_order(prepared))
    yield Row(f"log, rank scan, {operations:,} ops, kernel", taken, "s", f"{target:g}", 1.0)
    whole = best(lambda: list(log.breaches(events)), 1)
    yield Row("  all findings of a log", whole, "s", "", whole / taken)


def transactions() -> Iterator[Row]:
    """Edges a second, of a valid history and of one with a cycle in every hundredth transaction."""
    rates = []
    for name, is_broken in (("valid", False), ("a cycle every 300 edges", True)):
        made = graph(EDGES, is_broken, 1)
        rates.append(EDGES / best(lambda made=made: cycles(*made)))
        yield Row(f"transactions, {EDGES:,} edges, {name}", rates[-1], "edges/s", "10^6", rates[-1] / rates[0])


def command(directory: Path, operations: int) -> Iterator[Row]:
    """The real command, cold: a stored run of 10,000 operations, the session alone, and a large history."""
    run = stored_run(directory, Recipe(10_000, keys=10, processes=6))
    cold = min(timed(["check", str(run.path)]) for _ in range(2))
    yield Row("a run of 10,000 ops, cold start to verdict", cold, "s", "8", 1.0)
    started = min(seconds_of([sys.executable, "-c", SESSION]) for _ in range(2))
    yield Row("  of it Python and Spark's session", started, "s", "", started / cold)
    path = directory / "large.parquet"
    generators.write(Recipe(operations, keys=1000, processes=20, skew=0.8), path)
    large = timed(["check", "--model", "register", str(path)])
    yield Row(f"{operations:,} ops, Parquet to verdict, cold", large, "s", "25 for 10^7", large / cold)


SESSION = "from checkers.framework.session import spark_session; spark_session().range(9).count()"


def stored_run(store: Path, recipe: Recipe) -> RunDirectory:
    """A stored run of a quorum of three with this history."""
    run = new_run(store, "run", datetime.now(UTC))
    plan = Plan(name="run", seed=recipe.seed, story=[], workload="register")
    run.plan.write_text(plan.model_dump_json())
    run.history.mkdir()
    generators.write(recipe, run.history / "0.parquet")
    seen = [Observation(node, node, "process", "started") for node in (1, 2, 3)]
    seen.append(Observation(9, 1, "describe-quorum", "claim", epoch=1, high_watermark=10))
    held = [LoggedBatch(node, "__cluster_metadata", 0, 0, 9, 1, crc=7) for node in (1, 2, 3)]
    for directory, rows, schema in ((run.observations, seen, OBSERVATIONS), (run.path / "batches", held, BATCHES)):
        directory.mkdir()
        parquet.write_table(pa.Table.from_pylist([asdict(one) for one in rows], schema), directory / "0.parquet")
    for status in ("running", "recorded"):
        run.enter(status, datetime.now(UTC))
    return run


def timed(arguments: list[str]) -> float:
    """Seconds of the real command, which must find the history valid."""
    return seconds_of([str(Path(sys.executable).with_name("splitbrain")), *arguments])


def seconds_of(line: list[str]) -> float:
    """Seconds of a process from its start to its end; exits unless it ends with exit code 0."""
    began = time.perf_counter()
    ended = subprocess.run(line, capture_output=True, text=True)
    taken = time.perf_counter() - began
    if ended.returncode:
        raise SystemExit(f"{' '.join(line)}: exit {ended.returncode}: {ended.stdout}{ended.stderr}")
    return taken


def main() -> None:
    """Print a row as soon as it is measured, and the table at the end."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--logs", type=Path, help="a folder of Jepsen's logs of etcd")
    arguments.add_argument("--porcupine", type=Path, help="a checkout of Porcupine; needs Go")
    arguments.add_argument("--large", action="store_true", help="10^7 operations in place of 10^6")
    chosen = arguments.parse_args()
    operations = 10**7 if chosen.large else 10**6
    rows = []
    with TemporaryDirectory() as name:
        directory = Path(name)
        peer = porcupine.build(chosen.porcupine, directory) if chosen.porcupine else None
        for part in (
            logs(chosen.logs, peer, directory) if chosen.logs else (),
            searches(peer, directory),
            [unique_register(operations)],
            rank_scan(operations),
            transactions(),
            command(directory, operations),
        ):
            for row in part:
                rows.append(row)
                print(f"{row.measured}: {row.value:,.2f} {row.unit}", file=sys.stderr, flush=True)
    print(tabulate(rows, headers=["measured", "value", "unit", "target", "ratio"], floatfmt=",.2f"))


if __name__ == "__main__":
    main()
