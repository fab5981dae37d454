"""One record batch as it stands in a node's log when the run is over: what the replicas' logs are compared by.

A follower copies its leader's batches as they are (KIP-595), so two replicas agree where they hold equal batches; no
record needs to be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch of a node's log; the fields are the columns of harness.model.records.tables.BATCHES, in order.

    last_offset is inclusive. crc is the checksum that the batch names, as an unsigned number, and intact whether it
    holds: it covers neither base_offset nor leader_epoch. producer_id, producer_epoch and base_sequence are -1 where
    no idempotent producer wrote the batch; control says that its records are the protocol's own. checkpoint_epoch is
    the epoch that the node's leader-epoch-checkpoint gives the batch's first offset, -1 where it gives none, None where
    there is no such file. voters is the JSON list of the voters' ids where the batch sets them (KIP-853).
    """

    node: int
    topic: str
    partition: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    control: bool = False
    intact: bool = True
    checkpoint_epoch: int | None = None
    voters: str | None = None
