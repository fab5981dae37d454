"""The state machine on top of the log: configs by resource, which clients use as registers.

What may live here: the meaning of records. What may not: when a record counts as committed (leadership says so).

A write is one record: key `config`, value the JSON list [resource, config name, value or null for deleted]. An idle
leader writes records of key `no-op`, without a value, so that the high watermark moves without load. Records of
any other key, such as a real Kafka leader's, are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from nodes.reference.core.log import Log
from nodes.reference.core.messages import Change
from nodes.wire.batches import Record

_CONFIG = b"config"
NO_OP = Record(b"no-op", None)


def record_of(change: Change) -> Record:
    """The record that says it."""
    return Record(_CONFIG, json.dumps([change.resource, change.name, change.value]).encode())


def change_of(record: Record) -> Change | None:
    """What the record says, if it is one of ours."""
    if record.key != _CONFIG or record.value is None:
        return None
    return Change(*json.loads(record.value))


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
        change = change_of(record)
        if change is None:
            return
        configs = self._values.setdefault(change.resource, {})
        if change.value is None:
            configs.pop(change.name, None)
        else:
            configs[change.name] = change.value
