"""How fast histories are judged, each by the algorithm that its data allow, beside something plain in the same run.

    python benchmarks/bench_linearizability.py            # a minute
    python benchmarks/bench_linearizability.py --large    # and 10^7 operations, from Parquet on Spark too

Histories are made from seeds: clients take turns at random, an operation takes effect at some moment while it is open.
One read may be made wrong: it returns another value, which no order explains. Each part runs once warm; best of three
for kernels.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from tabulate import tabulate

from checkers.contract import JudgeSettings
from checkers.elsewhere import Source, judge_files
from checkers.kernels import chains, zones
from checkers.kernels.ranks import NOTHING, overtaken
from checkers.kernels.rows import CAS, INVOKE, NEVER, NIL, NOBODY, OK, READ, WRITE, partners
from checkers.kernels.search import INVALID, VALID
from checkers.kernels.steps import NO_TEXTS, READ_OF, REFUSED_SWAP, SWAP, WRITE_OF, Operations
from checkers.portfolio import decide
from checkers.session import spark_session
from checkers.twins import registers as twins
from harness.histories.importing import imported
from harness.model.tables import HISTORY

STEPS = 20_000_000
LARGE = 10_000_000


def clients(count: int, processes: int, values: int, swaps: float, crashes: int, seed: int) -> list[list]:
    """A register's operations as [call, back or None, code, a, b], in order of invocation."""
    source = random.Random(seed)
    held, now, crashed = 0, 0, 0
    operations: list[list] = []
    running: dict[int, tuple[list, bool]] = {}
    names = list(range(processes))
    while len(operations) < count or running:
        process = source.choice(names)
        if process not in running:
            if len(operations) < count:
                operations.append([now, None, *asked(source, held, values, swaps)])
                running[process] = (operations[-1], False)
                now += 1
            continue
        operation, is_done = running.pop(process)
        if is_done:
            operation[1] = now
            now += 1
        elif operation[2] != READ_OF and crashed < crashes and source.random() < 0.01:
            held = source.choice((held, happen(list(operation), held)))
            crashed += 1
            names[names.index(process)] = process + processes * (crashed + 1)
        else:
            held = happen(operation, held)
            running[process] = (operation, True)
    return operations


def asked(source: random.Random, held: int, values: int, swaps: float) -> tuple[int, int, int]:
    """A code and its two arguments; half of the swaps expect what is there."""
    value = source.randint(1, values)
    kind = source.random()
    if kind < swaps:
        return SWAP, source.choice((held, source.randint(1, values))), value
    return (READ_OF if kind < (1 + swaps) / 2 else WRITE_OF), value, NIL


def happen(operation: list, held: int) -> int:
    """Let it take effect: a read learns its value, a swap whether it is refused; what the register holds then."""
    code, a, b = operation[2:]
    if code == READ_OF:
        operation[3] = held
    elif code == WRITE_OF:
        return int(a)
    elif a == held:
        return int(b)
    else:
        operation[2] = REFUSED_SWAP
    return held


def with_stale_read(count: int, processes: int, swaps: float, crashes: int) -> list[list]:
    """The first history by seed that no order explains once a read at nine tenths of it returns another value."""
    for seed in range(1000):
        operations = clients(count, processes, 5, swaps, crashes, seed)
        read = [operation for operation in operations if operation[2] == READ_OF][int(0.9 * count * (1 - swaps) / 2)]
        read[3] = read[3] % 5 + 1
        if decide(columns_of(operations), NO_TEXTS, NIL, STEPS).verdict == INVALID:
            return operations
    raise SystemExit("no seed below 1,000 gives a history that no order explains")


def columns_of(operations: list[list]) -> Operations:
    """As the searches take them."""
    rows = [(call, NEVER if back is None else back, code, a, b) for call, back, code, a, b in operations]
    return Operations(*np.array(rows, np.int64).T.copy())


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """The best of several runs."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


def searches() -> list[list]:
    """The portfolio on histories whose values repeat, in ms, and as a ratio to the first."""
    cases = {
        "10 clients, 5,000 ops": (clients(5000, 10, 5, 0, 0, 1), VALID),
        "10 clients, 5,000 ops, one stale read": (with_stale_read(5000, 10, 0, 0), INVALID),
        "20 clients, 2,000 ops, swaps": (clients(2000, 20, 5, 0.33, 0, 2), VALID),
        "20 clients, 2,000 ops, swaps, one stale read": (
            with_stale_read(2000, 20, 0.33, 0),
            INVALID,
        ),
        "10 clients, 2,000 ops, swaps, 10 crashed": (clients(2000, 10, 5, 0.33, 10, 3), VALID),
        "10 clients, 2,000 ops, swaps, 10 crashed, one stale read": (
            with_stale_read(2000, 10, 0.33, 10),
            INVALID,
        ),
        "5 clients, 1,000 ops, swaps, 30 crashed": (clients(1000, 5, 5, 0.33, 30, 4), VALID),
        "30 clients, 2,000 ops, swaps": (clients(2000, 30, 5, 0.33, 0, 5), VALID),
        "10 clients, 100,000 ops, swaps": (clients(100_000, 10, 5, 0.33, 0, 6), VALID),
    }
    rows: list[list] = []
    for name, (operations, expected) in cases.items():
        columns = columns_of(operations)
        decision = decide(columns, NO_TEXTS, NIL, STEPS)
        if decision.verdict != expected:
            raise SystemExit(f"{name}: expected verdict {expected}, found {decision}")
        taken = seconds(lambda columns=columns: decide(columns, NO_TEXTS, NIL, STEPS)) * 1e3
        rows.append([f"{name}, ms ({decision.algorithm})", taken, taken / rows[0][1] if rows else 1.0])
    return rows


def beside_the_twin() -> list[list]:
    """The portfolio and the plain twin on what the twin can bear, in µs a history."""
    histories = [clients(12, 4, 3, 0.33, 1, seed) for seed in range(200)]
    columns = [columns_of(operations) for operations in histories]
    plain = [[twins.Operation(*operation) for operation in operations if drawn(operation)] for operations in histories]
    fast = seconds(lambda: [decide(each, NO_TEXTS, NIL, STEPS) for each in columns]) / len(histories) * 1e6
    slow = seconds(lambda: [twins.linearizable(each) for each in plain], 1) / len(histories) * 1e6
    return [["portfolio, 12 ops, µs", fast, 1.0], ["plain twin, 12 ops, µs", slow, slow / fast]]


def drawn(operation: list) -> bool:
    """Whether it may have happened: a crashed read asks nothing."""
    return operation[1] is not None or operation[2] != READ_OF


def unique(count: int, processes: int, swaps: float, seed: int) -> dict[str, np.ndarray]:
    """Rows of a register whose values are unique; what takes effect does so as it returns."""
    source = np.random.default_rng(seed)
    who, draw = source.integers(processes, size=4 * count), source.random(4 * count)
    columns = {name: np.zeros(2 * count, np.int64) for name in ("kind", "f", "process", "value", "old")}
    kind, f, process, value, old = columns.values()
    opened = [NOBODY] * processes
    held, fresh, begun, row, at = 0, 0, 0, 0, 0
    while row < 2 * count:
        client = int(who[at % len(who)])
        at += 1
        start = opened[client]
        if start == NOBODY:
            if begun == count:
                continue
            begun, opened[client] = begun + 1, row
            kind[row], f[row] = INVOKE, READ if draw[row] < 0.5 else CAS if draw[row] < 0.5 + swaps else WRITE
            if f[row] != READ:
                fresh += 1
                value[row] = fresh
        else:
            opened[client] = NOBODY
            kind[row], f[row], old[start] = OK, f[start], held
            held = held if f[start] == READ else int(value[start])
            value[row] = held
        process[row] = client
        row += 1
    return columns


def unique_kernels(count: int) -> list[list]:
    """Seconds for so many operations on one key, by the kernels for unique values."""
    columns = unique(count, 10, 0, 1)
    kind, f, process, value, _ = columns.values()
    partner = partners(kind, process, np.zeros(2 * count, np.int64), 10)
    starts, values = np.array([0, 2 * count]), int(value.max()) + 1

    def run_zones() -> int:
        return int(zones.judge_registers(starts, kind, f, value, partner, values)[0][0])

    if run_zones() != zones.VALID:
        raise SystemExit("the zones kernel finds fault with a valid history")
    taken = [[f"zones, {count:,} ops, s", seconds(run_zones), 1.0]]
    operations, values = swap_operations(unique(count, 10, 0.25, 2), count)
    scratch, witness = np.full((values, chains.BY_VALUE), NOBODY, np.int64), np.full(4, NOBODY, np.int64)
    if chains.judge_chains(operations, scratch, witness) != zones.VALID:
        raise SystemExit("the chains kernel finds fault with a valid history")
    chained = seconds(lambda: chains.judge_chains(operations, scratch, witness))
    scanned = rank_scan(count)
    return [
        *taken,
        [f"chains, {count:,} ops, s", chained, chained / taken[0][1]],
        [f"rank scan of a log, {count:,} sends, s", scanned, scanned / taken[0][1]],
    ]


def rank_scan(count: int) -> float:
    """Seconds for so many sends to a log, each acknowledged before the next begins."""
    value = np.repeat(np.arange(count), 2)
    is_acknowledged = np.tile([False, True], count)
    first_sent, place = 2 * np.arange(count), 2 * np.arange(count) + 1
    offset = np.where(is_acknowledged, value, NOTHING)

    def run() -> int:
        return len(overtaken(is_acknowledged, offset, value, first_sent, place))

    if run():
        raise SystemExit("the rank scan finds fault with a log in order")
    return seconds(run)


def swap_operations(columns: dict[str, np.ndarray], count: int) -> tuple[Operations, int]:
    """The rows as operations; and one more than the highest value."""
    kind, f, process, value, old = columns.values()
    partner = partners(kind, process, np.zeros(2 * count, np.int64), 10)
    rows = np.flatnonzero(kind == INVOKE)
    ends, words = partner[rows], f[rows]
    code = np.choose(words, (READ_OF, WRITE_OF, SWAP)).astype(np.int64)
    a = np.where(words == READ, value[ends], np.where(words == WRITE, value[rows], old[rows]))
    return Operations(rows, ends, code, a, np.where(words == CAS, value[rows], NIL)), int(value.max()) + 1


def log_text(operations: list[list]) -> str:
    """The operations as Jepsen's log has them."""
    words = {READ_OF: "read", WRITE_OF: "write", SWAP: "cas", REFUSED_SWAP: "cas"}
    events = []
    for process, (call, back, code, a, b) in enumerate(operations):
        value = {READ_OF: "nil", WRITE_OF: str(a)}.get(code, f"[{a or 'nil'} {b}]")
        events.append((call, process, "invoke", words[code], value))
        if back is not None:
            ended = "fail" if code == REFUSED_SWAP else "ok"
            events.append((back, process, ended, words[code], (str(a) if a else "nil") if code == READ_OF else value))
    return "".join(f"INFO  jepsen.util - {p}\t:{t}\t:{f}\t{v}\n" for _, p, t, f, v in sorted(events))


def many_logs() -> list[list]:
    """A hundred logs of 80 operations, from text to verdicts in one go, the session warm; and the searches' share."""
    spark = spark_session()
    with TemporaryDirectory() as directory:
        for seed in range(102):
            (Path(directory) / f"{seed:03}.log").write_text(log_text(clients(80, 5, 5, 0.4, 8, seed)))
        best, judging = 1e9, 0.0
        for _ in range(3):
            began = time.perf_counter()
            with imported([Path(directory)], ("read", "write", "cas"), False) as histories:
                sources = [Source((histories.common,))] if histories.common else []
                judged = judge_files(spark, sources, 102, "cas-register", JudgeSettings())
            best = min(best, time.perf_counter() - began)
            judging = sum(each.seconds for each in judged)
    if any(each.findings for each in judged):
        raise SystemExit("a valid log is found fault with")
    return [["102 logs of 80 ops, text to verdicts, s", best, 1.0], ["their kernels alone, ms", judging * 1e3, 1.0]]


def on_spark(count: int, keys: int) -> list[list]:
    """Seconds from Parquet to verdict for so many operations on so many keys of skewed sizes."""
    columns = unique(count, 20, 0, 3)
    spark = spark_session(memory="2g", large=True)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "0.parquet"
        parquet.write_table(history_of(columns, count, keys), path, row_group_size=500_000)
        del columns
        judge_files(spark, [Source((path,), 0)], 1, "register", JudgeSettings())
        began = time.perf_counter()
        (judged,) = judge_files(spark, [Source((path,), 0)], 1, "register", JudgeSettings())
        taken = time.perf_counter() - began
    if judged.findings:
        raise SystemExit(f"a valid history is found fault with: {judged.findings[0]}")
    return [[f"{judged.operations:,} ops, {judged.keys} keys, Parquet to verdict, s", taken, 1.0]]


def history_of(columns: dict[str, np.ndarray], count: int, keys: int) -> pa.Table:
    """The rows as a history: each key has a stretch of the operations, nine in ten keys a tenth of them all."""
    kind, f, process, value, _ = columns.values()
    source = np.random.default_rng(4)
    early = source.integers(0, count // 5, size=9 * keys // 10)
    cuts = np.sort(np.append(early, source.integers(0, 2 * count, size=keys - 1 - len(early))))
    partner = partners(kind, process, np.zeros(2 * count, np.int64), 20)
    begins = np.where(kind == INVOKE, np.arange(2 * count), partner)
    key = np.searchsorted(cuts, begins, side="right")
    writes = np.flatnonzero((kind == INVOKE) & (f == WRITE))
    written_to = np.zeros(int(value.max()) + 1, np.int64)
    written_to[value[writes]] = key[writes]
    # A read that spans a cut saw another key's value, and is left out.
    ends = np.where(kind == OK, np.arange(2 * count), partner)
    kept = (f != READ) | (written_to[value[ends]] == key)
    value = np.where((f == READ) & (kind == INVOKE), NIL, value)[kept]
    rows = pa.array(np.arange(len(value)))
    text = pa.array(value).cast(pa.string())
    nothing = pa.nulls(len(value))
    columns_of_history = {
        "index": rows,
        "time_ns": rows,
        "process": pa.array(process[kept]),
        "type": pa.array(["invoke", "ok"]).take(pa.array(kind[kept])),
        "f": pa.array(["read", "write"]).take(pa.array(f[kept])),
        "key": pa.array(key[kept]).cast(pa.string()),
        "value": pc.if_else(pa.array(value == NIL), pa.scalar(None, pa.string()), text),
        "node": nothing,
        "error": nothing,
    }
    return pa.table(columns_of_history).select(HISTORY.names).cast(HISTORY)


if __name__ == "__main__":
    large = "--large" in sys.argv
    table = [*searches(), *beside_the_twin(), *unique_kernels(LARGE if large else LARGE // 10), *many_logs()]
    table += on_spark(LARGE if large else LARGE // 10, 1000)
    print(tabulate(table, headers=["measured", "value", "ratio"], floatfmt=".2f"))
