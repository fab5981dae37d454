"""Collects what nodes and proxies leave behind, as tables in the run's directory, once the servers have ended.

Contains the conversion of files to tables. Does not read formats (nodes/) or judge what was read (checkers/).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.engine.records import write_chunk
from harness.model import EnvironmentFailure
from harness.model.hosts import HostView
from harness.model.records.tables import BATCHES, RECORDS, RPCS
from harness.model.systems import NodeSystem
from nodes.observe.log_batches import QUORUM_LOG, partitions_in, read_log
from nodes.observe.log_records import read_records
from nodes.proxy.record import read_rows
from results.store import RunDirectory

CHUNK = "00000001.parquet"


def collect_logs(views: Mapping[int, HostView], system: NodeSystem, run: RunDirectory) -> None:
    """Store the batches of every node's logs, and the records of users' topics; nothing if no node has a log."""
    logs = [(node, folder) for node, view in views.items() for folder in partitions_in(system.files(view).data)]
    topics = [(node, folder) for node, folder in logs if folder.name != QUORUM_LOG]
    try:
        _store(run.batches, BATCHES, (batch for node, log in logs for batch in read_log(node, log)))
        _store(run.records, RECORDS, (record for node, log in topics for record in read_records(node, log)))
    except OSError as error:
        raise EnvironmentFailure(f"{run.path}: cannot store the nodes' logs: {error.strerror}") from error


def collect_rpcs(run: RunDirectory) -> None:
    """Store the proxy's record; nothing if the run had no proxy."""
    if run.rpc_record.exists():
        _store(run.rpcs, RPCS, read_rows(run.rpc_record))


def _store(folder: Path, schema: pa.Schema, values: Iterable[Any]) -> None:
    rows = [astuple(value) for value in values]
    if rows:
        folder.mkdir(exist_ok=True)
        write_chunk(folder / CHUNK, schema, rows)
