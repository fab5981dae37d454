"""The state machine on top of the log: configs by resource, which clients use as registers.

What may live here: the meaning of records. What may not: when a record counts as committed (leadership says so).

A write is one ConfigRecord of Kafka's own (metadata_records.py); records of other kinds, such as a real Kafka leader
writes besides, are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodes.reference.core.records.log import Log
from nodes.reference.core.records.metadata import decode_config
from nodes.wire.batches import Record


class Registers:
    """Configs as of applied_offset: what all records below it amount to."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, str]] = {}
        self.applied_offset = 0

    def advance(self, log: Log, offset: int) -> None:
        """Apply the log's records up to offset, which must be committed."""
        if offset > self.applied_offset:
            for record in log.records(self.applied_offset, offset):
                self._apply(record)
            self.applied_offset = offset

    def read(self, resources: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """The configs of each resource as they are now; a copy."""
        return {resource: dict(self._values.get(resource, {})) for resource in resources}

    def _apply(self, record: Record) -> None:
        change = decode_config(record)
        if change is None:
            return
        configs = self._values.setdefault(change.resource, {})
        if change.value is None:
            configs.pop(change.name, None)
        else:
            configs[change.name] = change.value
