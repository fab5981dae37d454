"""The state machine on top of the log: the metadata after the records that are committed.

Applies committed records; leadership and following determine what is committed. Clients use the configs of client
metrics as registers; a write is one ConfigRecord. Records that the reference does not know, which a real Kafka leader
also writes, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodes.reference.core.records.image import Image, ResourceType
from nodes.reference.core.records.log import Log
from nodes.reference.core.records.metadata import decode


class AppliedMetadata:
    """The metadata after all records below applied_offset."""

    def __init__(self, image: Image | None = None, applied_offset: int = 0) -> None:
        self.load(image or Image(), applied_offset)

    def load(self, image: Image, applied_offset: int) -> None:
        """Take over the image of a snapshot."""
        self.image, self.applied_offset = image, applied_offset

    def advance(self, log: Log, offset: int) -> None:
        """Apply the log's records up to offset, which must be committed."""
        if offset > self.applied_offset:
            apply(self.image, log, self.applied_offset, offset)
            self.applied_offset = offset

    def read(self, resources: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """A copy of the current registers of each resource."""
        configs = self.image.configs
        return {resource: dict(configs.get((ResourceType.CLIENT_METRICS, resource), {})) for resource in resources}

    def image_at_end(self, log: Log) -> Image:
        """A copy of the metadata with all records of the log, committed or not: what a new controller begins with."""
        image = self.image.copy()
        apply(image, log, self.applied_offset, log.end_offset)
        return image


def apply(image: Image, log: Log, start: int, end: int) -> None:
    """Apply the records with start <= offset < end."""
    for record in log.records(start, end):
        metadata = decode(record)
        if metadata is not None:
            image.apply(metadata)
