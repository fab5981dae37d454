"""One record batch of a node's log at the end of the run. The checks compare replicas' logs by their batches.

A follower copies its leader's batches unchanged (KIP-595), so equal batches mean equal logs, and records need not be
decoded.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch of a node's log; the fields are the columns of harness.model.records.tables.BATCHES, in order.

    last_offset is inclusive. crc is the checksum stored in the batch, unsigned; it covers neither base_offset nor
    leader_epoch. intact is whether it matches the content. producer_id, producer_epoch and base_sequence are -1 if no
    idempotent producer wrote the batch. control marks a control batch. checkpoint_epoch is the epoch of the batch's
    first offset in the node's leader-epoch-checkpoint, -1 if the file has none, None if there is no file. voters is the
    JSON list of voter ids if the batch sets the voters (KIP-853). election is the JSON of a LeaderChange record, if the
    batch begins a leader's epoch (KIP-595): {"leader": 1, "voters": [1, 2, 3], "granting": [1, 2]}. cleaned_to is the
    offset below which the node's log cleaner may have removed records of the partition, None if it never ran there.
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
    election: str | None = None
    cleaned_to: int | None = None
