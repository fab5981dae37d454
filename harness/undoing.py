"""Takes down hosts that outlived their controller, by what the undo record of them says."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from harness.model.hosts import UndoRecord

HOSTS = "hosts"
"""What their record calls them; its kind is the kind of host."""


def undo_hosts(record: UndoRecord) -> str:
    """What was done, in words. Raises EnvironmentFailure, and BadInput for an inventory that is gone."""
    assert record.fault == HOSTS
    return cast(str, import_module(f"harness.grounds.{record.kind}").undo(record.details))
