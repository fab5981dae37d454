"""A plain twin of the replication rules, for comparison on random logs.

It takes the batches of one partition in the order of their logs and the brokers' failed fetches, and follows the
definitions in checkers/kafka_log/replication.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from checkers.twins.divergence import Found, end_of, log_of, start_of, version
from harness.model import Observation
from harness.model.records.logged_batch import LoggedBatch


def cleaned_to(batches: Sequence[LoggedBatch]) -> int:
    """The offset below which any node's cleaner may have removed records."""
    return max((batch.cleaned_to or 0 for batch in batches), default=0)


def log_holes(batches: Sequence[LoggedBatch]) -> list[Found]:
    """Runs of offsets that a log lacks before an intact batch."""
    found: list[Found] = []
    for node in sorted({batch.node for batch in batches}):
        expected: int | None = None
        for batch in log_of(node, batches):
            is_judged = batch.intact and batch.base_offset > cleaned_to(batches)
            if expected is not None and is_judged and batch.base_offset > expected:
                found.append(("log-hole", (node, expected, batch.base_offset - 1, batch.leader_epoch)))
            expected = max(expected or 0, batch.last_offset + 1)
    return found


def partition_offline_ms(seen: Sequence[Observation]) -> float:
    """How long one partition had no leader, summed over the epochs without one."""
    epochs: dict[int, list[Observation]] = {}
    for one in seen:
        if one.kind == "partition":
            epochs.setdefault(json.loads(one.detail or "")["epoch"], []).append(one)
    offline = 0
    ends = [min(one.time_ns for one in epochs[epoch]) for epoch in sorted(epochs)][1:]
    for epoch, end in zip(sorted(epochs), [*ends, max(one.time_ns for one in seen)], strict=True):
        if all(json.loads(one.detail or "")["leader"] is None for one in epochs[epoch]):
            offline += max(0, end - min(one.time_ns for one in epochs[epoch]))
    return offline / 1e6


def replication_stuck(batches: Sequence[LoggedBatch], seen: Sequence[Observation]) -> list[Found]:
    """Nodes whose log ends at their last failed fetch, inside another's batch."""
    found: list[Found] = []
    for node in sorted({batch.node for batch in batches}):
        failed = [(one.time_ns, json.loads(one.detail or "")["offset"]) for one in seen if one.node == node]
        end = end_of(log_of(node, batches))
        if not failed or max(failed)[1] != end:
            continue
        around = [
            (other.node, other.base_offset, other.last_offset, other.leader_epoch)
            for other in batches
            if other.node != node and cleaned_to(batches) <= other.base_offset < end <= other.last_offset
        ]
        found += [("replication-stuck", (node, end, *min(around)))] if around else []
    return found


def has_equal_logs(batches: Sequence[LoggedBatch]) -> bool:
    """Whether all logs consist of the same intact batches from where all of them begin and nothing was compacted."""
    logs = [log_of(node, batches) for node in {batch.node for batch in batches}]
    start = max(cleaned_to(batches), *map(start_of, logs))
    contents = [{(one.base_offset, *version(one)) for one in log if one.base_offset >= start} for log in logs]
    is_intact = all(one.intact for one in batches if one.base_offset >= start)
    return is_intact and all(content == contents[0] for content in contents)


def truncation_rounds_max(seen: Sequence[Observation]) -> int:
    """The most answers in a row of one node about one partition, up to one that completed; 0 without an answer."""
    open_rounds: dict[tuple[int, str], int] = {}
    most = 0
    for one in sorted(seen, key=lambda one: one.time_ns):
        words = re.match(r"Truncating partition (\S+) with .*completed=(\w+)\) due to leader epoch", one.detail or "")
        if one.kind == "note" and words:
            place = (one.node, words.group(1))
            open_rounds[place] = open_rounds.get(place, 0) + 1
            most = max(most, open_rounds[place])
            if words.group(2) == "true":
                del open_rounds[place]
    return most
