"""Outcomes of transactions and sends in the brokers' own logs: each once, on one partition or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.model import Op
from harness.model.records.logged_record import LoggedRecord
from tests.support.checks.run_types import FindInRun, FindInRuns, Tables
from tests.support.checks.small_histories import history
from tests.support.checks.small_logs import drain as drain_log
from tests.support.checks.small_logs import lost_send, send
from tests.support.checks.small_transactions import drain

pytestmark = pytest.mark.spark

Found = Mapping[str, Sequence[tuple[str, str]]]
"""The names and messages of the findings about each run."""


def txn(process: int, end: str, *micro_ops: list) -> tuple[Op, Op]:
    """A transaction's invocation and its end."""
    start = Op("invoke", "txn", process, value=list(micro_ops))
    return start, {"ok": start.ok(list(micro_ops)), "fail": start.fail("aborted"), "info": start.info("timeout")}[end]


def log(partition: int, *content: Any, node: int = 1) -> list[LoggedRecord]:
    """A partition's log on a node: (producer, value) is a record, (producer, "commit" or "abort") a marker."""
    return [
        LoggedRecord(
            *(node, "t", partition, offset, producer, 0),
            marker=what if isinstance(what, str) else None,
            value=None if isinstance(what, str) else str(what),
        )
        for offset, (producer, what) in enumerate(content)
    ]


@pytest.fixture(scope="module")
def found(find_in_runs: FindInRuns) -> Found:
    """What is found in each run, from one Spark job."""
    runs = {
        "unknown outcomes": UNKNOWN_OUTCOMES,
        "aborted and read": ABORTED_AND_READ,
        "torn": TORN,
        "committed and not read": COMMITTED_AND_NOT_READ,
        "fenced and committed": FENCED_AND_COMMITTED,
        "without a marker": WITHOUT_A_MARKER,
    }
    results = find_in_runs("transactions", runs)
    return {name: [(finding.name, finding.message) for finding in findings] for name, findings in results.items()}


UNKNOWN_OUTCOMES = Tables(
    history(
        *txn(0, "ok", ["send", "t-0", [0, 1]]),
        *txn(1, "info", ["send", "t-0", 2]),  # its own producer's marker commits it
        *txn(2, "info", ["send", "t-0", 3]),  # aborted, and the same producer's next transaction is committed
        *txn(2, "ok", ["send", "t-0", [6, 4]]),
        *txn(3, "info", ["send", "t-0", 5]),  # no marker
        *txn(4, "info", ["send", "t-0", 6]),  # no record
        *txn(5, "info", ["send", "t-1", 7]),  # one replica has its marker, the other not yet
        *txn(6, "info", ["send", "t-2", 8]),  # the replicas contradict each other
        *drain("t-0", [0, 1], [2, 2], [6, 4]),
        *drain("t-1", [0, 7]),
    ),
    records=[
        *log(0, (10, 1), (10, "commit"), (11, 2), (12, 3), (11, "commit"), (12, "abort"), (12, 4), (12, "commit")),
        *log(0, (13, 5)),
        *(*log(1, (10, 7), node=2), *log(1, (10, 7), (10, "commit"))),
        *(*log(2, (10, 8), (10, "commit")), *log(2, (10, 8), (10, "abort"), node=2)),
    ],
)


def test_unknown_outcomes_are_counted_by_the_markers_after_their_records(found: Found) -> None:
    words = (
        "of 6 transactions with an unknown outcome, the brokers' logs show 2 committed and 1 aborted; 1 left no "
        "record, and 2 are open"
    )
    assert found["unknown outcomes"] == [("settled", words)]


ABORTED_AND_READ = Tables(
    history(
        *txn(0, "info", ["send", "t-0", 1]),
        *txn(1, "ok", ["send", "t-0", [2, 7]]),
        *drain("t-0", [0, 1], [2, 7]),
    ),
    records=log(0, (10, 1), (10, "abort"), (11, 7), (11, "commit")),
)


def test_a_transaction_aborted_by_the_logs_is_never_read_though_its_client_got_no_answer(found: Found) -> None:
    assert [name for name, _ in found["aborted and read"]] == ["aborted-read", "settled"]


TORN = Tables(
    history(
        *txn(0, "fail", ["send", "t-0", [0, 1]], ["send", "t-1", [0, 2]]),
        *txn(1, "ok", ["send", "t-1", [2, 7]]),
        *drain("t-0"),
        *drain("t-1", [2, 7]),
    ),
    records=[*log(0, (10, 1), (10, "commit")), *log(1, (10, 2), (10, "abort"), (11, 7), (11, "commit"))],
)


def test_a_transaction_that_the_logs_commit_and_abort_is_torn(found: Found) -> None:
    words = "a transaction is committed as a whole or not at all: of T0 the brokers' logs commit t-0=1 and abort t-1=2"
    assert found["torn"] == [("torn-transaction", words)]


COMMITTED_AND_NOT_READ = Tables(
    history(*txn(0, "info", ["send", "t-0", 1]), *txn(1, "ok", ["send", "t-0", [2, 7]]), *drain("t-0", [2, 7])),
    records=log(0, (10, 1), (10, "commit"), (11, 7), (11, "commit")),
)


def test_a_transaction_committed_by_the_logs_is_read_though_its_client_got_no_answer(found: Found) -> None:
    assert [name for name, _ in found["committed and not read"]] == ["lost-write", "settled"]


FENCED_AND_COMMITTED = Tables(
    history(
        *txn(0, "info", ["send", "t-0", [0, 1]], ["fence"]),
        *txn(1, "ok", ["send", "t-1", [0, 7]]),
        *drain("t-0", [0, 1]),
        *drain("t-1", [0, 7]),
    ),
    records=[*log(0, (10, 1), (10, "commit")), *log(1, (11, 7), (11, "commit"))],
)


def test_a_fenced_transaction_that_the_logs_commit_is_a_zombie_though_its_client_got_no_answer(found: Found) -> None:
    results = found["fenced and committed"]
    assert [name for name, _ in results] == ["settled", "zombie-write"]
    words = "a fenced producer commits nothing: T0 was committed, though a newer producer had fenced its producer"
    assert results[1][1] == words


def late(ops: Sequence[Op]) -> list[Op]:
    """The ops, all but the first two 30 s later."""
    return [replace(op, time_ns=op.time_ns + (30_000_000_000 if op.index > 1 else 0)) for op in ops]


WITHOUT_A_MARKER = Tables(
    late(
        history(
            *txn(0, "ok", ["send", "t-0", [0, 1]]),
            *txn(1, "info", ["send", "t-1", 2]),
            *txn(2, "ok", ["send", "t-0", [1, 3]], ["send", "t-1", [1, 3]]),
            Op("invoke", "drain", 9, key="t-0"),
            *drain("t-1", [1, 3]),
        )
    ),
    records=[*log(0, (10, 1), (12, 3), (12, "commit")), *log(1, (11, 2), (12, 3), (12, "commit"))],
)


def test_a_transaction_without_a_marker_hangs_after_the_brokers_timeout(found: Found) -> None:
    (hanging, results) = found["without a marker"]
    assert hanging[0] == "hanging-transaction"
    assert hanging[1].startswith("every transaction ends: no log has a marker after t-0=1, which T0 wrote, 30 s after")
    assert results[0] == "settled"


def test_sends_with_an_unknown_outcome_are_counted_by_presence_in_the_logs(find_in_run: FindInRun) -> None:
    ops = history(*send(0, 1, 0), *lost_send(1, 2), *lost_send(2, 3), *drain_log(3, (0, 1), (1, 2)))
    records = [replace(record, topic="log") for record in log(0, (-1, 1), (-1, 2))]
    (results,) = find_in_run("log", ops, (), records=records)
    words = "of 2 sends with an unknown outcome, 1 are in the brokers' logs and 1 are not"
    assert (results.name, results.severity, results.message) == ("settled", "tolerated", words)
