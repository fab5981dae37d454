"""Literal histories of transactions, each rule violated once, and random ones compared with the twin.

A transaction is written as its process, its end and its operations; those of one history follow each other, but for
`together`, whose transactions all begin before any ends.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from checkers.kernels.cycles import real_time
from checkers.transactions.cycles import LOG_WW, PROCESS, REALTIME, RW, WR, WW, cycles
from checkers.twins import transactions as twin
from harness.model import Finding, Op
from tests.support.checks.on_spark import findings_of_each
from tests.support.checks.run_types import FindInRun
from tests.support.checks.small_histories import history
from tests.support.checks.small_transactions import (
    append,
    drain,
    matched,
    one_by_one,
    poll,
    random_history,
    read,
    send,
    together,
    txn,
)

pytestmark = pytest.mark.spark

ORDER = "transactions have an order: "


def refused(ops: list[Op], error: str) -> list[Op]:
    """The history in which failed operations have this error."""
    return [replace(op, error=error) if op.type == "fail" else op for op in ops]


BROKEN: dict[str, tuple[list[Op], list[tuple[str, str, Sequence[int]]]]] = {
    "two transactions' appends stand in different orders": (
        together(txn(0, append("x", 1), append("y", 1)), txn(1, append("x", 2), append("y", 2)),
                 txn(2, read("x", 1, 2), read("y", 2, 1))),
        [("G0", ORDER + "T1 wrote y=2 before T0 wrote y=1; T0 wrote x=1 before T1 wrote x=2", (0, 1, 3, 4))],
    ),
    "two transactions read each other's appends": (
        together(txn(0, append("x", 1), read("y", 2)), txn(1, append("y", 2), read("x", 1))),
        [("G1c", ORDER + "T0 read y=2, which T1 wrote; T1 read x=1, which T0 wrote", (0, 1, 2, 3))],
    ),
    "a read is torn": (
        together(txn(0, append("x", 1), append("y", 1)), txn(1, read("x", 1), read("y")), txn(2, read("y", 1))),
        [("G-single", ORDER + "T1 read x=1, which T0 wrote; T1 read no y before T0 wrote y=1", (0, 1, 3, 4))],
    ),
    "two transactions each miss the other's append": (
        together(txn(0, append("x", 1), read("y")), txn(1, append("y", 1), read("x")),
                 txn(2, read("x", 1), read("y", 1))),
        [("G2", ORDER + "T1 read no x before T0 wrote x=1; T0 read no y before T1 wrote y=1", (0, 1, 3, 4))],
    ),
    "a process does not see its own last append": (
        one_by_one(txn(0, append("x", 1)), txn(0, read("x")), txn(1, read("x", 1))),
        [("G-single-process", ORDER + "T0 came before T2 on process 0; T2 read no x before T0 wrote x=1",
          (0, 1, 2, 3))],
    ),
    "a read misses what ended before it began": (
        one_by_one(txn(0, append("x", 1)), txn(1, read("x")), txn(2, read("x", 1))),
        [("G-single-realtime", ORDER + "T0 ended before T2 began; T2 read no x before T0 wrote x=1", (0, 1, 2, 3))],
    ),
    "what a failed transaction appended is read": (
        one_by_one(txn(0, append("x", 1), end="fail"), txn(1, read("x", 1), append("y", 1))),
        [("G1a", "what a failed transaction wrote is never read: T0 wrote x=1 and failed, and it was read "
          "1 times, first by T2", (0, 1, 2, 3))],
    ),
    "a read ends between a transaction's appends": (
        together(txn(0, append("x", 1), append("x", 2)), txn(1, read("x", 1)), txn(2, read("x", 1, 2))),
        [("G-single", ORDER + "T1 read x=1, which T0 wrote; T1 read x=1 before T0 wrote x=2", (0, 1, 3, 4)),
         ("G1b", "only the last write of a transaction is read: T1 read x=1, which T0 overwrote", (0, 1, 3, 4))],
    ),
    "a transaction does not see its own append": (
        one_by_one(txn(0, append("x", 1), read("x"))),
        [("internal", "a transaction sees its own writes, and what it read before: T0 of x read [], expected [1]",
          (0, 1))],
    ),
    "a transaction sees its own write in another place": (
        one_by_one(txn(0, ["w", "x", [2, 3]], ["r", "x", [1, 3]])),
        [("internal", "a transaction sees its own writes, and what it read before: T0 of x read [1,3], expected [2,3]",
          (0, 1))],
    ),
    "two reads disagree on the order": (
        one_by_one(txn(0, append("x", 1)), txn(1, append("x", 2)), txn(2, read("x", 1, 2)), txn(3, read("x", 2, 1))),
        [("incompatible-order", "a position has one version: at 0 of x T4 has 1, T6 has 2", (4, 6)),
         ("incompatible-order", "a position has one version: at 1 of x T6 has 1, T4 has 2", (4, 6))],
    ),
    "a value that was never appended is read": (
        one_by_one(txn(0, append("x", 1)), txn(1, read("x", 1, 7))),
        [("phantom-read", "reads return written values: T2 read x=7, which no transaction wrote", (2, 3))],
    ),
    "a value is appended twice": (
        one_by_one(txn(0, append("x", 1)), txn(1, append("x", 1))),
        [("value-written-twice", "versions are identified by their values, and T0 and T2 both wrote x=1", (0, 2))],
    ),
    "a register's version is lost": (
        together(txn(0, ["r", "x", None], ["w", "x", [1, 5]]), txn(1, ["r", "x", None], ["w", "x", [2, 6]])),
        [("G-single", ORDER + "T0 wrote x=5 before T1 wrote x=6; T1 read no x before T0 wrote x=5", (0, 1, 2, 3))],
    ),
    "a log shows what a failed transaction sent, and half of it": (
        one_by_one(txn(0, send("t-0", 1, 5), send("t-1", 1, 6), end="fail"), drain("t-0", [1, 5]), drain("t-1"),
                   txn(1, send("t-2", 1, 7)), drain("t-2", [1, 7])),
        [("aborted-read", "what a failed transaction wrote is never read: T0 wrote t-0=5 and failed, and it was read "
          "1 times, first by T2", (0, 1, 2, 3)),
         ("torn-transaction", "a transaction is visible as a whole or not at all: of T0 t-0=5 was read, and t-1=6 is "
          "missing", (0, 1))],
    ),
    "a log shows what a fenced producer sent": (
        refused(one_by_one(txn(0, send("t-0", 1, 5), end="fail"), txn(1, poll("t-0", [1, 5])), drain("t-0", [1, 5]),
                           txn(1, send("t-2", 1, 7)), drain("t-2", [1, 7])), "sending 6: _FENCED: by another"),
        [("zombie-write", "what a failed transaction wrote is never read: T0 wrote t-0=5 and failed as its producer "
          "was fenced, and it was read 2 times, first by T2", (0, 1, 2, 3))],
    ),
    "a transaction that was fenced while open is committed": (
        one_by_one(txn(0, send("t-0", 1, 5), ["fence"], send("t-0", 2, 6)), drain("t-0", [1, 5], [2, 6])),
        [("zombie-write", "a fenced producer commits nothing: T0 was committed, though a newer producer had fenced "
          "its producer", (0, 1))],
    ),
    "a transaction polls what it has yet to commit": (
        one_by_one(txn(0, send("t-0", 1, 5), poll("t-0", [1, 5])), drain("t-0", [1, 5])),
        [("precommitted-read", "records are read once committed: T0 polled t-0=5, which it had sent itself",
          (0, 1))],
    ),
    "a committed record is not in the log": (
        one_by_one(txn(0, send("t-0", 1, 5)), drain("t-0")),
        [("lost-write", "committed records are in the log: T0 wrote t-0=5, and no read returned it, T2 included",
          (0, 1, 2))],
    ),
    "a log was not drained": (
        one_by_one(txn(0, send("t-0", 1, 5)), txn(1, poll("t-0", [1, 5]))),
        [("not-drained",
          "cannot check whether T0 and later transactions are in the log of t-0: no drain began after it", (0,))],
    ),
    "two transactions poll each other's records": (
        [*together(txn(0, send("t-0", 1, 5), poll("t-1", [1, 6])), txn(1, send("t-1", 1, 6), poll("t-0", [1, 5]))),
         *drain("t-0", [1, 5]), *drain("t-1", [1, 6])],
        [("G1c", ORDER + "T0 read t-1=6, which T1 wrote; T1 read t-0=5, which T0 wrote", (0, 1, 2, 3))],
    ),
    "a log's transactions interleave, which is tolerated": (
        [*together(txn(0, send("t-0", 1, 5), send("t-1", 2, 6)), txn(1, send("t-0", 2, 7), send("t-1", 1, 8))),
         *drain("t-0", [1, 5], [2, 7]), *drain("t-1", [1, 8], [2, 6])],
        [("G0", ORDER + "T1 wrote t-1=8 before T0 wrote t-1=6; T0 wrote t-0=5 before T1 wrote t-0=7", (0, 1, 2, 3))],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Finding]]:
    """The findings about each history, from a Spark job for those with registers and one for the others."""
    histories = LEGAL | {name: ops for name, (ops, _) in BROKEN.items()}
    registers = {name: ops for name, ops in histories.items() if '"w"' in json.dumps([op.value for op in ops])}
    others = {name: ops for name, ops in histories.items() if name not in registers}
    return findings_of_each(spark, "transactions", registers) | findings_of_each(spark, "transactions", others)


@pytest.mark.parametrize("name", BROKEN)
def test_a_violated_rule_is_found_with_its_witness(name: str, found: dict[str, list[Finding]]) -> None:
    results: list[Any] = [(finding.name, finding.message, finding.witnesses) for finding in found[name]]
    assert results == BROKEN[name][1]


def test_a_run_without_a_successful_transaction_is_unknown(find_in_run: FindInRun) -> None:
    [finding] = find_in_run("transactions", one_by_one(txn(0, append("x", 1), end="info")), ())
    assert (finding.name, finding.severity) == ("no-progress", "unknown")
    assert finding.message == "no transaction with a write ended in ok"


LEGAL = {
    "lists, one transaction after the other": one_by_one(
        txn(0, append("x", 1), append("y", 1)), txn(1, read("x", 1), append("x", 2), read("x", 1, 2)),
        txn(0, read("x", 1, 2), read("y", 1)),
    ),
    "a transaction of unknown end may have taken place": one_by_one(
        txn(0, append("x", 1), end="info"), txn(1, read("x", 1), append("y", 1)),
    ),
    "a transaction of unknown end may not have": one_by_one(
        txn(0, append("x", 1), end="info"), txn(1, read("x"), append("y", 1)),
    ),
    "a register goes from version to version": one_by_one(
        txn(0, ["r", "x", None], ["w", "x", [1, 5]]),
        txn(1, ["r", "x", [1, 5]], ["w", "x", [2, 6]], ["r", "x", [2, 6]]),
    ),
    "a log is read in pieces": [
        *one_by_one(txn(0, send("t-0", 1, 5), send("t-0", 2, 6)), txn(1, poll("t-0", [1, 5])), txn(1, poll("t-0"))),
        *drain("t-0", [1, 5], [2, 6]),
    ],
    "what a fenced producer sent is not in the log": [
        *one_by_one(txn(0, send("t-0", 1, 5), ["fence"], end="fail"), txn(0, send("t-0", 3, 6))), *drain("t-0", [3, 6]),
    ],
    "what failed is not in the log": [
        *one_by_one(txn(0, send("t-0", 1, 5), end="fail"), txn(1, send("t-0", 2, 6))), *drain("t-0", [2, 6]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_history_is_valid(name: str, found: dict[str, list[Finding]]) -> None:
    assert found[name] == []


def random_graph(rng: random.Random, kinds: Sequence[int]) -> set[twin.Edge]:
    """Random edges among a few nodes."""
    nodes = rng.randint(2, 8)
    ends = [rng.sample(range(nodes), 2) for _ in range(rng.randint(1, 16))]
    return {(source, target, rng.choice(kinds)) for source, target in ends}


@pytest.mark.parametrize("kinds", [(WW, WR, RW), (WW, WR, RW, PROCESS, REALTIME), (WR, LOG_WW)], ids=str)
def test_kernel_and_twin_find_the_same_cycles(kinds: Sequence[int]) -> None:
    """Name, length and component of each, over 2,000 random graphs; each cycle's edges are of the graph."""
    source, names = random.Random(7), Counter[str]()
    for _ in range(2000):
        edges = random_graph(source, kinds)
        found = cycles(8, *np.array(sorted(edges)).T)
        names.update(cycle.name for cycle in found)
        for cycle in found:
            steps = zip(cycle.nodes, [*cycle.nodes[1:], cycle.nodes[0]], cycle.kinds, strict=True)
            assert set(steps) <= edges
        assert matched([(cycle.name, cycle.nodes, len(cycle.nodes)) for cycle in found], twin.cycles(edges))
    assert len(names) >= 2


def test_real_time_edges_imply_every_ordered_pair() -> None:
    source = random.Random(11)
    for _ in range(300):
        count = source.randint(1, 9)
        events = [(node, begins) for node in range(count) for begins in (True, False)]
        source.shuffle(events)
        firsts = {node: at for at, (node, _) in reversed(list(enumerate(events)))}
        events = [(node, at == firsts[node]) for at, (node, _) in enumerate(events)]
        nodes, begins = (np.array(column) for column in zip(*events, strict=True))
        sources, targets = real_time(nodes, begins, count)
        graph = twin.graph_of(zip(sources.tolist(), targets.tolist(), [REALTIME] * len(sources), strict=True), REALTIME)
        ends = {node: at for at, (node, _) in enumerate(events)}
        for node in range(count):
            later = {other for other in range(count) if ends[node] < firsts[other]}
            assert set(twin.reached(graph, node)) == later


CYCLES = ("G0", "G1c", "G-single", "G2")


@pytest.mark.parametrize("log", [False, True], ids=["lists", "logs"])
def test_check_and_twin_agree_on_random_histories(find_in_run: FindInRun, log: bool) -> None:
    """60 small histories with keys of their own, one after the other in one."""
    source = random.Random(3)
    ops = history(*(op for number in range(60) for op in random_history(source, number, log)))
    ops = [replace(op, value=json.loads(json.dumps(op.value))) for op in ops]
    found = find_in_run("transactions", ops, ())
    events = twin.transactions(ops)
    begins = {each.txn for each in events}
    cyclic = [finding for finding in found if finding.name.startswith(CYCLES)]
    nodes = [[index for index in finding.witnesses if index in begins] for finding in cyclic]
    cycles_found = [(finding.name, own, len(own)) for finding, own in zip(cyclic, nodes, strict=True)]
    assert matched(cycles_found, twin.cycles(twin.edges(events, registers=False)))
    names = ("phantom-read", "G1a", "aborted-read", "lost-write", "torn-transaction")
    assert Counter(f.name for f in found if f.name in names) == Counter(
        name for name, _ in twin.others(events, registers=False).elements()
    )
    assert len({finding.name for finding in found}) >= 4
