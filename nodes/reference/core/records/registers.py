"""The state machine on top of the log: configs by resource, which clients use as registers.

Applies committed records; leadership and following determine what is committed. A write is one ConfigRecord
(metadata.py). Other records, which a real Kafka leader also writes, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodes.reference.core.records.log import Log
from nodes.reference.core.records.metadata import decode_config
from nodes.wire.batches import Record


class Registers:
    """The configs after all records below applied_offset."""

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
        """A copy of the current configs of each resource."""
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
