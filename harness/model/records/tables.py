"""The Arrow schemas of the tables that a run stores.

- history: one Op per row, in index order. value is JSON text (null for none), so that one schema serves all workloads
  and imported histories.
- observations: one Observation per row.
- batches: one LoggedBatch per row, for each node in log order.
- records: one LoggedRecord of a user topic per row.
- rpcs: one RpcRow per row, if a proxy was between the nodes.

RUNS is the table of a store: one row per run, reproduction, and run of a reproduction (harness.judging.index).
"""

from __future__ import annotations

import pyarrow as pa

HISTORY = pa.schema(
    [
        ("index", pa.int64()),
        ("time_ns", pa.int64()),
        ("process", pa.int32()),
        ("type", pa.string()),
        ("f", pa.string()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("node", pa.int32()),
        ("error", pa.string()),
    ]
)

OBSERVATIONS = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("node", pa.int32()),
        ("source", pa.string()),
        ("kind", pa.string()),
        ("state", pa.string()),
        ("previous", pa.string()),
        ("epoch", pa.int32()),
        ("leader", pa.int32()),
        ("voted", pa.int32()),
        ("high_watermark", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("detail", pa.string()),
    ]
)

BATCHES = pa.schema(
    [
        ("node", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("crc", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("control", pa.bool_()),
        ("intact", pa.bool_()),
        ("checkpoint_epoch", pa.int32()),
        ("voters", pa.string()),
        ("election", pa.string()),
        ("cleaned_to", pa.int64()),
    ]
)

ADDED_LATER = frozenset({"checkpoint_epoch", "voters", "election", "cleaned_to", "fetch_offset", "high_watermark"})
"""Columns that runs of earlier releases lack; they are read as null."""

RECORDS = pa.schema(
    [
        ("node", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("marker", pa.string()),
        ("value", pa.string()),
    ]
)

RPCS = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("source", pa.int32()),
        ("target", pa.int32()),
        ("api_key", pa.int32()),
        ("api_version", pa.int32()),
        ("correlation_id", pa.int64()),
        ("direction", pa.string()),
        ("size_bytes", pa.int64()),
        ("pre_vote", pa.bool_()),
        ("epoch", pa.int32()),
        ("granted", pa.bool_()),
        ("action", pa.string()),
        ("fetch_offset", pa.int64()),
        ("high_watermark", pa.int64()),
    ]
)

FINDINGS = pa.schema(
    [
        ("check", pa.string()),
        ("name", pa.string()),
        ("severity", pa.string()),
        ("message", pa.string()),
        ("key", pa.string()),
        ("node", pa.int32()),
        ("time_ns", pa.int64()),
        ("witnesses", pa.list_(pa.int64())),
        ("count", pa.int64()),
        ("evidence", pa.string()),
    ]
)

QUANTITIES = pa.schema(
    [
        ("check", pa.string()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
    ]
)

COUNTED = pa.struct([("name", pa.string()), ("severity", pa.string()), ("count", pa.int64()), ("message", pa.string())])
MEASURED = pa.struct([("name", pa.string()), ("value", pa.float64())])

COMPARED = ("recover_ms", "commit_gap_ms", "unavailable_ms_max", "no_leader_ms", "epochs_burned")
"""The quantities that comparisons read. They are columns of RUNS: Spark reads those in half the time of a list."""

RUNS = pa.schema(
    [
        ("run", pa.string()),  # the directory, in the store
        ("part_of", pa.string()),  # the reproduction that the run is a part of
        ("kind", pa.string()),
        ("night", pa.string()),  # the night that began the run
        ("case", pa.string()),  # what is compared: a scenario's side, an exploration, a workload with its faults
        ("variant", pa.string()),  # the switches that a night's plan gave
        ("system", pa.string()),
        ("workload", pa.string()),
        ("scenario", pa.string()),
        ("side", pa.string()),
        ("nodes", pa.int32()),
        ("hosts", pa.string()),
        ("seed", pa.int64()),
        ("faults", pa.list_(pa.string())),
        ("created", pa.string()),  # ISO 8601 in UTC
        ("seconds", pa.float64()),  # from the run's start until everything was recorded
        ("status", pa.string()),  # a status of results.store, or damaged
        ("verdict", pa.string()),
        ("outcome", pa.string()),  # passed, failed or unknown: whether all was as expected
        ("problems", pa.list_(COUNTED)),  # the findings and expectations for which the run did not pass
        ("quantities", pa.list_(MEASURED)),
        *[(name, pa.float64()) for name in COMPARED],  # also among the quantities; null if not measured
        ("command", pa.string()),
        ("damage", pa.string()),  # why a damaged run cannot be read
        ("stamp", pa.string()),  # when the files changed that the row was read from
    ]
)
