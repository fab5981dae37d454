"""The table that compares runs, from literal batches on disk."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from harness.model import Finding, Quantity, Verdict
from harness.model.records.tables import BATCHES
from results.comparison_table import EpochRange, compared, comparison_table, logs_of, merged
from results.run_verdict import RunVerdict
from results.store import RunDirectory, new_run

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def run_with(store: Path, *batches: tuple[str, int, int, int, int]) -> RunDirectory:
    """A run with these batches: topic, node, epoch, first and last offset."""
    run = new_run(store, "LD-02", NOW)
    empty = dict.fromkeys(BATCHES.names)
    rows = [
        {**empty, "topic": topic, "partition": 0, "node": node, "leader_epoch": epoch}
        | {"base_offset": first, "last_offset": last}
        for topic, node, epoch, first, last in batches
    ]
    run.batches.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, schema=BATCHES), run.batches / "0001.parquet")
    return run


def verdict(*findings: str, rounds: int | None = None) -> RunVerdict:
    found = tuple(Finding("divergence", name, "invalid", "it broke") for name in findings)
    measured = () if rounds is None else (Quantity("divergence", "truncation_rounds_max", rounds, "answers"),)
    outcome = Verdict.INVALID if findings else Verdict.VALID
    return RunVerdict("LD-02", outcome, "", findings=found, quantities=measured)


def test_log_is_its_epochs_with_their_offsets_without_internal_topics(tmp_path: Path) -> None:
    run = run_with(
        tmp_path, ("t", 3, 1, 0, 10), ("t", 3, 1, 11, 20), ("t", 3, 3, 21, 30), ("t", 4, 1, 0, 10), ("__x", 3, 1, 0, 9)
    )
    assert {name: [str(each) for each in log] for name, log in logs_of(run).items()} == {
        "n3 t-0": ["epoch 1: 0-20", "epoch 3: 21-30"],
        "n4 t-0": ["epoch 1: 0-10"],
    }


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(1, 0, 10), (1, 11, 20)], [(1, 0, 20)]),
        ([(1, 0, 10), (1, 21, 30)], [(1, 0, 10), (1, 21, 30)]),
        ([(1, 0, 10), (2, 11, 20), (1, 21, 30)], [(1, 0, 10), (2, 11, 20), (1, 21, 30)]),
    ],
    ids=["adjacent", "a hole", "an epoch that returns"],
)
def test_only_adjacent_ranges_of_one_epoch_are_joined(
    ranges: list[tuple[int, int, int]], expected: list[tuple[int, int, int]]
) -> None:
    assert merged([EpochRange(*each) for each in ranges]) == [EpochRange(*each) for each in expected]


def test_table_shows_the_switches_in_which_runs_differ(tmp_path: Path) -> None:
    equal = run_with(tmp_path, ("t", 3, 1, 0, 20), ("t", 4, 1, 0, 20))
    other = run_with(tmp_path, ("t", 3, 1, 0, 20), ("t", 4, 2, 0, 20))
    same = {"broker.session.timeout.ms": "3000"}
    without_logs = run_with(tmp_path, ("__x", 3, 1, 0, 20))
    rows = compared(
        [
            ("UR-16 good", {}, without_logs, verdict()),
            ("LD-02 bad", {**same, "reference.truncation": "kip-101"}, other, verdict("diverged-logs", rounds=1)),
            ("LD-02 good", {**same, "reference.truncation": "kip-279"}, equal, verdict()),
        ]
    )
    assert [line.split() for line in comparison_table(rows).splitlines()[2:]] == [
        ["LD-02", "bad", "truncation=kip-101", "1", "n3", "t-0:", "epoch", "1:", "0-20", "diverged-logs"],
        ["n4", "t-0:", "epoch", "2:", "0-20"],
        ["LD-02", "good", "truncation=kip-279", "n3", "t-0:", "epoch", "1:", "0-20", "valid"],
        ["n4", "t-0:", "epoch", "1:", "0-20"],
    ]


def test_there_is_no_table_of_one_run_or_of_runs_without_brokers(tmp_path: Path) -> None:
    of_quorum = ("PV-01 bad", {}, run_with(tmp_path, ("__cluster_metadata", 1, 1, 0, 9)), verdict())
    assert compared([of_quorum, of_quorum]) == []
    assert compared([("LD-02 good", {}, run_with(tmp_path, ("t", 3, 1, 0, 20)), verdict())]) == []
