"""Writes the archive of loaded classes (Java's AppCDS) that shortens the start of a Spark session.

    python -m checkers.archive        # once per Spark and Java; 190 MB beside Python's packages

A session checks a run of a few rows and compares a store of one run with itself. Java records the classes that this
loads and writes them when it exits. The file appears whole or not at all, so a session that starts meanwhile does
without it.

Contains the making of that file. checkers/framework/session.py uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import SparkSession

from checkers.framework.contract import Check, JudgeSettings
from checkers.framework.session import archive_file, spark_session
from checkers.run_checks import CheckResults, judge
from checkers.store.samples import samples
from harness.model import NEMESIS, EnvironmentFailure
from harness.model.records.tables import BATCHES, HISTORY, OBSERVATIONS, RECORDS, RPCS, RUNS

WRITING_MS_MAX = 120_000

CALLS = (
    (NEMESIS, "mark", None, '"story"', None),
    (0, "write", "x", "1", "1"),
    (1, "read", "x", None, "1"),
    (2, "send", "log-0", "2", '{"offset": 0, "value": 2}'),
    (3, "poll", None, None, '{"log-0": [[0, 2]]}'),
    (3, "drain", "log-0", None, "[[0, 2]]"),
    (4, "txn", None, '[["append", "y", 3], ["r", "y", null]]', '[["append", "y", 3], ["r", "y", [3]]]'),
)
"""Process, f, key, and the values of invocation and completion."""

OPS = [
    {"process": process, "type": kind, "f": f, "key": key, "value": value}
    for process, f, key, *values in CALLS
    for kind, value in zip(("info", "info") if process == NEMESIS else ("invoke", "ok"), values, strict=True)
]
CLAIM: Mapping[str, Any] = {
    "kind": "claim",
    "epoch": 1,
    "high_watermark": 1,
    "log_end_offset": 1,
    "detail": '{"voters": {"1": 1, "2": 1}}',
}
SEEN: Sequence[Mapping[str, Any]] = [
    {"kind": "started"},
    {"kind": "transition", "state": "Unattached", "epoch": 1},
    {"kind": "durable", "epoch": 1},
]
BATCH: Mapping[str, Any] = {
    "topic": "__cluster_metadata",
    "base_offset": 0,
    "last_offset": 0,
    "leader_epoch": 1,
    "crc": 7,
    "intact": True,
    "voters": "[1, 2]",
}
RECORD: Mapping[str, Any] = {"topic": "log", "offset": 0, "producer_id": 5, "producer_epoch": 0, "value": "2"}
FETCH: Mapping[str, Any] = {"api_key": 1, "epoch": 1, "action": "pass"}
NODES = (1, 2)

TABLES: Mapping[str, tuple[pa.Schema, Sequence[Mapping[str, Any]]]] = {
    "history": (HISTORY, [{"index": index, "time_ns": index, **op} for index, op in enumerate(OPS)]),
    "observations": (
        OBSERVATIONS,
        [{"time_ns": time_ns, "node": node, **seen} for node in NODES for time_ns, seen in enumerate(SEEN)]
        + [{"time_ns": len(SEEN), "node": NODES[0], **CLAIM}],
    ),
    "batches": (BATCHES, [{"node": node, "partition": 0, **BATCH} for node in NODES]),
    "records": (RECORDS, [{"node": node, "partition": 0, **RECORD} for node in NODES]),
    "rpcs": (
        RPCS,
        [
            {"time_ns": 1, "source": 2, "target": 1, "direction": "request", "fetch_offset": 1, **FETCH},
            {"time_ns": 2, "source": 1, "target": 2, "direction": "response", "high_watermark": 1, **FETCH},
        ],
    ),
}
"""A run's tables, by column; a missing column is null."""

JUDGED: Mapping[str, Any] = {
    "run": "run",
    "kind": "run",
    "case": "case",
    "outcome": "passed",
    "problems": [],
    "commit_gap_ms": 1.0,
}
"""A row of a store's table; a missing column is null."""


def write_archive() -> Path:
    """Write the archive and return its path. Raises EnvironmentFailure if Java cannot write it."""
    target = archive_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name("unfinished.jsa")
    target.unlink(missing_ok=True)
    unfinished.unlink(missing_ok=True)
    session = spark_session(java_options=f"-XX:ArchiveClassesAtExit={unfinished}")
    with TemporaryDirectory() as scratch:
        rehearse(session, Path(scratch))
        rehearse_comparison(session, Path(scratch) / "runs.parquet")
    stop_and_wait(session)
    if not unfinished.exists():
        raise EnvironmentFailure(
            f"writing the class archive {unfinished}: expected Java to write it at its exit, found none"
        )
    return unfinished.rename(target)


def rehearse(session: SparkSession, run: Path) -> CheckResults:
    """Run every check on a few rows: this loads the classes that any check loads, and compiles the kernels."""
    for name, (schema, rows) in TABLES.items():
        (run / name).mkdir(parents=True, exist_ok=True)
        parquet.write_table(_table(schema, rows), run / name / "rehearsal.parquet")
    checks: dict[str, Check] = {point.name: point.load() for point in entry_points(group="splitbrain.checks")}
    return judge(run, checks, JudgeSettings(), session)


def rehearse_comparison(session: SparkSession, file: Path) -> list[dict[str, Any]]:
    """Run a comparison's query on a store of one run, compared with itself."""
    parquet.write_table(_table(RUNS, [JUDGED]), file)
    name = JUDGED["run"]
    return samples(session, [file], {"base": [name], "head": [name]})


def _table(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = [[row.get(column) for row in rows] for column in schema.names]
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema)


def stop_and_wait(session: SparkSession) -> None:
    """Stop the session and its Java machine, and wait for the exit, at which Java writes the archive."""
    gateway = session.sparkContext._gateway
    assert gateway is not None, "a running session has a gateway"
    machine = gateway.proc
    session.stop()
    machine.stdin.close()
    machine.wait(WRITING_MS_MAX / 1000)


if __name__ == "__main__":
    print(write_archive())
