"""What the parts of a controller share: its image, its settings, the time, and the records of the decision it makes.

Contains no decisions.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from nodes.reference.core.controller.changes import Change
from nodes.reference.core.controller.settings import MIN_ISR, NO_STRATEGY, STRATEGY, UNCLEAN, ControllerSettings
from nodes.reference.core.events import Draw
from nodes.reference.core.records.entities import MetadataRecord
from nodes.reference.core.records.image import Image, Partition


@dataclass(slots=True)
class Draft:
    """The controller's state while it decides. offset is that of the first record it will append."""

    image: Image
    settings: ControllerSettings
    draw: Draw
    now_ms: int = 0
    offset: int = 0
    records: list[MetadataRecord] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return self.offset + len(self.records)

    def write(self, *records: MetadataRecord | None) -> None:
        """Add records to the decision, those that are not None, with their effect on the image."""
        for record in records:
            if record is not None:
                self.image.apply(record)
                self.records.append(record)

    def take_records(self) -> Sequence[MetadataRecord]:
        """Return and clear the records."""
        taken, self.records = self.records, []
        return taken

    def random_id(self) -> uuid.UUID:
        """A new id; never one that Kafka reserves, or whose text begins with a dash."""
        return uuid.UUID(bytes=bytes([self.draw(1, 0x7C), *(self.draw(0, 256) for _ in range(15))]))

    def change_of(self, partition: Partition, unclean_shutdown: frozenset[int] = frozenset()) -> Change:
        """The change of a partition, with its topic's configs."""
        min_isr = self.min_isr(partition.topic) if self.settings.eligible_leader_replicas else 0
        keeps_last = not self.settings.has("last-replica-leaves-isr")
        return Change(partition, self.image.is_active, min_isr, unclean_shutdown, self._choose, keeps_last)

    def _choose(self, live: Sequence[int]) -> int:
        """The live replica that an unclean election takes."""
        return live[self.draw(0, len(live)) if self.settings.unclean_choice == "random" else 0]

    def min_isr(self, topic: str) -> int:
        """The topic's min.insync.replicas."""
        return int(self.image.config(topic, MIN_ISR, self.settings.topic_defaults))

    def recovery_strategy(self, topic: str) -> str:
        """The topic's unclean.recovery.strategy (KIP-966)."""
        return self.image.config(topic, STRATEGY, self.settings.topic_defaults)

    def allows_unclean(self, topic: str) -> bool:
        """Whether any live replica may lead the topic's partitions, though it may lack committed records."""
        if self.settings.has("unclean-without-permission"):
            return True
        is_allowed = self.image.config(topic, UNCLEAN, self.settings.topic_defaults) == "true"
        return is_allowed and self.recovery_strategy(topic) == NO_STRATEGY
