"""Takes down hosts that outlived their controller, by what the undo record of them says; for a run one at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import cast

from harness.model.hosts import UndoRecord
from results.store import RunDirectory

HOSTS = "hosts"
"""What their record calls them; its kind is the kind of host."""
LOCK = "undoing.lock"


@contextmanager
def alone_with(run: RunDirectory) -> Iterator[None]:
    """Nobody else undoes what a run left until the end of the block; the kernel lets the next one in if we die."""
    with (run.path / LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def undo_hosts(record: UndoRecord) -> str:
    """What was done, in words. Raises EnvironmentFailure, and BadInput for an inventory that is gone."""
    assert record.fault == HOSTS
    return cast(str, import_module(f"harness.environments.{record.kind}").undo(record.details))
