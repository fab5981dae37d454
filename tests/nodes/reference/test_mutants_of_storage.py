"""What each mutant of the disk breaks, and that the same story is right without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodes.reference.core.events import Election
from nodes.reference.core.mutants import Mutant
from nodes.reference.core.settings import NodeSettings
from nodes.reference.disk import Disk
from tests.support.nodes.mutant_cases import log_of, with_and_without


def disk(directory: Path, mutant: str | None) -> Disk:
    """The disk of n1, opened anew."""
    return Disk(directory, NodeSettings(1, (1, 2, 3), "test", mutant=mutant), lambda _: None)


def log_file(directory: Path) -> Path:
    """The file with the log of n1."""
    return directory / "__cluster_metadata-0" / f"{0:020d}.log"


def sync_count(monkeypatch: pytest.MonkeyPatch, act: Any) -> int:
    """How often the action syncs a file or a directory."""
    calls: list[int] = []
    with monkeypatch.context() as patched:
        for name in ("fsync", "fdatasync"):
            patched.setattr(os, name, calls.append)
        act()
    return len(calls)


@with_and_without("log-not-synced")
def test_records_are_synced(mutant: Mutant | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = disk(tmp_path, mutant)
    assert sync_count(monkeypatch, lambda: opened.append(log_of(1))) == (0 if mutant else 3), (
        "the log, and its epochs' file"
    )
    assert sync_count(monkeypatch, lambda: opened.append(log_of(1, 1)[len(log_of(1)) :])) == (0 if mutant else 1)
    assert sync_count(monkeypatch, lambda: opened.persist(Election(1))) == 2


@with_and_without("quorum-state-not-synced")
def test_quorum_state_is_synced(mutant: Mutant | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = disk(tmp_path, mutant)
    assert sync_count(monkeypatch, lambda: opened.persist(Election(1))) == (0 if mutant else 2)
    assert sync_count(monkeypatch, lambda: opened.append(log_of(1))) == 3
    assert disk(tmp_path, mutant).load().election == Election(1)


@with_and_without("restart-loses-last-batch")
def test_restart_keeps_the_whole_log(mutant: Mutant | None, tmp_path: Path) -> None:
    disk(tmp_path, mutant).append(log_of(1, 1, 1))
    assert disk(tmp_path, mutant).load().log == (log_of(1, 1) if mutant else log_of(1, 1, 1))


@with_and_without("checksums-not-verified")
def test_restart_drops_a_batch_whose_checksum_is_wrong(mutant: Mutant | None, tmp_path: Path) -> None:
    disk(tmp_path, mutant).append(log_of(1, 1))
    data = bytearray(log_of(1, 1))
    data[-2] ^= 1
    log_file(tmp_path).write_bytes(data)
    assert disk(tmp_path, mutant).load().log == (bytes(data) if mutant else log_of(1))


@with_and_without("torn-tail-kept")
def test_batches_after_a_torn_tail_can_be_read(mutant: Mutant | None, tmp_path: Path) -> None:
    disk(tmp_path, mutant).append(log_of(1))
    log_file(tmp_path).write_bytes(log_of(1, 1)[:-7])
    opened = disk(tmp_path, mutant)
    assert opened.load().log == log_of(1)
    opened.append(log_of(1, 2)[len(log_of(1)) :])
    assert disk(tmp_path, mutant).load().log == (log_of(1) if mutant else log_of(1, 2))
