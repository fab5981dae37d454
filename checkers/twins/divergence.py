"""A plain twin of the divergence check, for comparison on random logs.

It takes the batches of one partition in the order of their logs, the high watermark and the voters, and follows the
definitions in checkers/kafka_log/divergence.py offset by offset.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from itertools import combinations, groupby, pairwise

from harness.model import Observation
from harness.model.records.logged_batch import LoggedBatch

Found = tuple[str, tuple[int, ...]]
"""A finding's name, and the numbers of its message in order."""


def log_of(node: int, batches: Sequence[LoggedBatch]) -> list[LoggedBatch]:
    """The node's batches, in the order of its log."""
    return [batch for batch in batches if batch.node == node]


def start_of(log: Sequence[LoggedBatch]) -> int:
    """The first offset in a log; 0 where it is empty."""
    return min((batch.base_offset for batch in log), default=0)


def end_of(log: Sequence[LoggedBatch]) -> int:
    """The offset behind the last in a log."""
    return max((batch.last_offset + 1 for batch in log), default=0)


def version(batch: LoggedBatch | None) -> tuple[int, ...]:
    """The version at a batch's offset; empty if no batch begins there."""
    return (batch.leader_epoch, batch.last_offset, batch.crc) if batch else ()


def differing_pairs(batches: Sequence[LoggedBatch], high_watermark: int) -> list[Found]:
    """Every two logs, offset by offset: the first difference, and the highest offset whose epoch they agree on."""
    found: list[Found] = []
    for left, right in combinations(sorted({batch.node for batch in batches}), 2):
        logs = log_of(left, batches), log_of(right, batches)
        both = range(max(map(start_of, logs)), min(map(end_of, logs)))
        left_log, right_log = ({batch.base_offset: batch for batch in log} for log in logs)
        views = [(offset, version(left_log.get(offset)), version(right_log.get(offset))) for offset in both]
        first = next(((offset, left, *one, right, *other) for offset, one, other in views if one != other), None)
        agreed = max((offset for offset, one, other in views if one and other and one[0] == other[0]), default=-1)
        if first is None:
            continue
        if agreed >= first[0]:
            found.append(("diverged-logs", (left, right, agreed, *first)))
        elif first[0] < high_watermark:
            found.append(("diverging-tail", first))
    return found


def committed_records_missing(
    batches: Sequence[LoggedBatch], high_watermark: int, voters: Sequence[int]
) -> list[Found]:
    """Ranges of offsets below the high watermark without a version that a majority of the voters holds."""
    needed = len(voters) // 2 + 1
    logs = [log_of(voter, batches) for voter in voters]
    missing = [offset for offset in range(high_watermark) if most_alike(offset, logs) < needed]
    # Within a range, offset minus rank is constant.
    runs = [[offset for _, offset in run] for _, run in groupby(enumerate(missing), lambda at: at[1] - at[0])]
    return [("committed-record-missing", (high_watermark, len(voters), needed, run[0], run[-1])) for run in runs]


def most_alike(offset: int, logs: Sequence[Sequence[LoggedBatch]]) -> int:
    """How many logs hold the offset's most frequent version; a snapshot that covers it counts for every version."""
    starts = [start_of(log) for log in logs]
    counts = [sum(start > offset for start in starts)]
    for batch in [batch for log in logs for batch in log if batch.base_offset <= offset <= batch.last_offset]:
        alike = [log for log in logs if any(has(batch, other) for other in log)]
        counts.append(len(alike) + sum(start > batch.last_offset for start in starts))
    return max(counts)


def has(batch: LoggedBatch, other: LoggedBatch) -> bool:
    """Whether two batches are equal and intact."""
    return batch.intact and other.intact and batch.base_offset == other.base_offset and version(batch) == version(other)


def leader_epoch_went_back(batches: Sequence[LoggedBatch]) -> list[Found]:
    """Batches of a lower epoch than their predecessor's."""
    return [
        ("leader-epoch-went-back", (after.base_offset, node, after.leader_epoch, before.leader_epoch))
        for node in {batch.node for batch in batches}
        for before, after in pairwise(log_of(node, batches))
        if after.leader_epoch < before.leader_epoch
    ]


def truncated_below_high_watermark(batches: Sequence[LoggedBatch], seen: Sequence[Observation]) -> list[Found]:
    """For each epoch the highest stored high watermark whose last offset has another epoch in the latest log."""
    stored: dict[int, Observation] = {}
    for one in sorted(seen, key=lambda one: (-(one.high_watermark or 0), one.time_ns, one.node)):
        stored.setdefault(json.loads(one.detail or "")["epoch"], one)
    logs = [log_of(node, batches) for node in {batch.node for batch in batches}]
    found: list[Found] = []
    for epoch, one in stored.items():
        mark = one.high_watermark or 0
        now = max(
            (batch.leader_epoch for batch in batches if batch.base_offset < mark <= batch.last_offset + 1), default=None
        )
        if not logs or now == epoch or any(start_of(log) >= mark for log in logs):
            continue
        how = (mark - 1, max(map(end_of, logs)) if now is None else now)
        found.append(("truncated-below-high-watermark", (one.node, mark, epoch, *how)))
    return found


def committed_offsets_lost(batches: Sequence[LoggedBatch], seen: Sequence[Observation]) -> int:
    """How many offsets of each stored epoch the latest log lacks: their sum, and the most of those without a start."""
    logs = [log_of(node, batches) for node in {batch.node for batch in batches}]
    latest = max(logs, key=lambda log: (max(one.leader_epoch for one in log), end_of(log), log[0].node), default=[])
    highest: dict[int, tuple[int, int | None]] = {}
    for one in sorted(seen, key=lambda one: (-(one.high_watermark or 0), one.time_ns, one.node)):
        detail = json.loads(one.detail or "")
        highest.setdefault(detail["epoch"], (one.high_watermark or 0, detail.get("start")))
    with_start, without_start = [0], [0]
    for epoch, (mark, start) in highest.items() if latest else ():
        offsets = range(max(start or 0, start_of(latest)), mark)
        epochs = (epoch,) if start is not None else range(epoch + 1)
        lost = sum(not any(_has(batch, each, epochs) for batch in latest) for each in offsets)
        (without_start if start is None else with_start).append(lost)
    return sum(with_start) + max(without_start)


def _has(batch: LoggedBatch, offset: int, epochs: Container[int]) -> bool:
    return batch.base_offset <= offset <= batch.last_offset and batch.leader_epoch in epochs


def corrupt_batches(batches: Sequence[LoggedBatch]) -> list[Found]:
    """Batches that do not match their checksum."""
    return [
        ("corrupt-batch", (batch.node, batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc))
        for batch in batches
        if not batch.intact
    ]


def findings(batches: Sequence[LoggedBatch], high_watermark: int, voters: Sequence[int]) -> list[Found]:
    """Every violated rule, and tails yet to be truncated."""
    return [
        *differing_pairs(batches, high_watermark),
        *committed_records_missing(batches, high_watermark, voters),
        *leader_epoch_went_back(batches),
        *corrupt_batches(batches),
    ]
