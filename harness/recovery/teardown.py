"""Removes hosts that outlived their controller, from their undo record; one process at a time for each run."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from harness import plugins
from harness.model import BadInput
from harness.model.hosts import UndoRecord
from results.store import RunDirectory

HOSTS = "hosts"
"""The `fault` of their undo record; its kind is the kind of host."""
LOCK = "teardown.lock"


@contextmanager
def exclusive(run: RunDirectory) -> Iterator[None]:
    """Lock the run's teardown until the end of the block; the kernel releases the lock if this process dies."""
    with (run.path / LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def undo_hosts(record: UndoRecord) -> str:
    """Remove the hosts; returns what was done, in words.

    Raises EnvironmentFailure, and BadInput for an inventory that is gone or a record that is damaged.
    """
    assert record.fault == HOSTS
    undo = plugins.host_kind(record.kind).undo
    if undo is None:
        raise BadInput(f"undo record of {record.kind} hosts: expected a kind of host that leaves something behind")
    try:
        return undo(record.details)
    except KeyError as error:
        raise BadInput(f"undo record of {record.kind} hosts: expected {error.args[0]} among its details") from error
