"""Which replica of a partition is to lead: the one that loses the least, as far as the answers tell.

Pure. The proposal: "selecting the replica with the highest epoch and then longest log length".

The epoch is that of the last record in the log where all candidates report it (version 1 of the request, KIP-966's
form); otherwise it is the partition's epoch that the broker knows. The two are never compared with each other: a
replica that knows the current epoch may have written its last record in an older one.

An empty log comes after every log with records, whatever its epoch: it would truncate all others to nothing, the
"pathological example" of the proposal's motivation, and has no record that choosing another could lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """What is known of one replica's log; error is "" if its broker reported it.

    epoch is the partition's leader epoch from the broker's point of view. last_written_epoch, that of the last record,
    is None if the broker does not report it, and -1 in an empty log.
    """

    epoch: int = -1
    log_end_offset: int = -1
    last_written_epoch: int | None = None
    error: str = ""


def choose(replicas: Sequence[int], logs: Mapping[int, ReplicaLog]) -> int | None:
    """The replica to lead, of those in the assignment that reported their log; None if none did.

    Equals are taken in the order of the assignment.
    """
    reported = {broker: logs[broker] for broker in replicas if broker in logs and not logs[broker].error}
    by_record = all(log.last_written_epoch is not None for log in reported.values())

    def rank(broker: int) -> tuple[bool, int, int]:
        log = reported[broker]
        epoch = log.last_written_epoch if by_record and log.last_written_epoch is not None else log.epoch
        return log.log_end_offset > 0, epoch, log.log_end_offset

    return max(reported, key=rank, default=None)
