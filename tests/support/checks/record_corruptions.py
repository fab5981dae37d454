"""Planted corruptions of brokers' logs: a producer that was fenced wrote in them all the same.

A valid log is that of a few producers, each with an id, whose epoch grows when another takes it over, and with the end
of some transactions; replicas hold as much of it as they had got. A plant returns None for a log that has nothing to
break so.

What may live here: plants and the valid logs that they need. What may not: what is said of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from harness.model.records.logged_record import LoggedRecord, Marker

Records = list[LoggedRecord]
Plant = Callable[[random.Random, Records], Records | None]
"""From one partition's whole log to a broken one."""

MARKERS: tuple[Marker, ...] = ("commit", "abort")


def valid_records(source: random.Random, topic: str) -> Records:
    """A partition's log, as the replica that has all of it has it."""
    epochs = dict.fromkeys(range(10, 12 + source.randint(0, 2)), 0)
    log: Records = []
    for value in range(source.randint(4, 16)):
        producer = source.choice([*epochs, -1])
        # Whoever takes an id over, and since KIP-890 each end of a transaction, raises the epoch.
        if producer >= 0:
            epochs[producer] += source.choice((0, 0, 1, 2))
        marker = source.choice(MARKERS) if producer >= 0 and source.random() < 0.3 else None
        text = None if marker else str(value)
        log.append(LoggedRecord(1, topic, 0, 2 * len(log), producer, epochs.get(producer, -1), marker, text))
    return log


def replicated(source: random.Random, log: Sequence[LoggedRecord]) -> Records:
    """Three replicas' records in no order; one has the whole log, the others what they had got, or kept."""
    replicas = [replace(record, node=1) for record in log]
    for node in (2, 3):
        first, last = sorted((source.randint(0, len(log)), source.randint(0, len(log))))
        replicas += [replace(record, node=node) for record in log[first:last]]
    return source.sample(replicas, len(replicas))


def written_behind(source: random.Random, log: Records, newer: Sequence[LoggedRecord]) -> Records | None:
    """The log in which somewhere behind one of these its producer writes with an older epoch."""
    chosen = source.choice(newer) if newer else None
    if chosen is None:
        return None
    offset = source.choice([record.offset + 1 for record in log if record.offset >= chosen.offset])
    late = replace(chosen, offset=offset, producer_epoch=source.randrange(chosen.producer_epoch), marker=None)
    return sorted([*log, replace(late, value="late")], key=lambda record: record.offset)


def behind_a_record(source: random.Random, log: Records) -> Records | None:
    """A producer's record stands behind one of its id with a higher epoch."""
    return written_behind(source, log, [each for each in log if each.producer_epoch > 0 and each.value is not None])


def behind_a_marker(source: random.Random, log: Records) -> Records | None:
    """A producer's record stands behind the marker that ended its transaction with a higher epoch."""
    return written_behind(source, log, [each for each in log if each.producer_epoch > 0 and each.marker is not None])


def planted(name: str, seed: int) -> tuple[Records, Records]:
    """A valid partition's replicas, and what became of them; the topic is this seed's own."""
    for attempt in count():
        source = random.Random(f"{name}/{seed}/{attempt}")
        log = valid_records(source, f"{name}/{seed}")
        after = CORRUPTIONS[name](source, log)
        if after is not None:
            return replicated(source, log), replicated(source, after)
    raise AssertionError("unreachable")


CORRUPTIONS: Mapping[str, Plant] = {
    "records: behind a record of a newer epoch": behind_a_record,
    "records: behind a marker of a newer epoch": behind_a_marker,
}
