"""Planted corruptions of brokers' logs: a fenced producer wrote in them nevertheless.

A valid log has a few producers, each with an id, whose epoch grows when another producer takes the id over and at the
end of some transactions; replicas hold prefixes of it. A plant returns None for a log that it cannot break.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from harness.model.records.logged_record import LoggedRecord, Marker

Records = list[LoggedRecord]
Plant = Callable[[random.Random, Records], Records | None]
"""A function from one partition's whole log to a broken one."""

MARKERS: tuple[Marker, ...] = ("commit", "abort")


def valid_records(source: random.Random, topic: str) -> Records:
    """A partition's whole log, on one replica."""
    epochs = dict.fromkeys(range(10, 12 + source.randint(0, 2)), 0)
    log: Records = []
    for value in range(source.randint(4, 16)):
        producer = source.choice([*epochs, -1])
        # A producer that takes an id over raises the epoch, and since KIP-890 so does each end of a transaction.
        if producer >= 0:
            epochs[producer] += source.choice((0, 0, 1, 2))
        marker = source.choice(MARKERS) if producer >= 0 and source.random() < 0.3 else None
        text = None if marker else str(value)
        log.append(LoggedRecord(1, topic, 0, 2 * len(log), producer, epochs.get(producer, -1), marker, text))
    return log


def replicated(source: random.Random, log: Sequence[LoggedRecord]) -> Records:
    """Three replicas' records in random order; one has the whole log, the others parts of it."""
    replicas = [replace(record, node=1) for record in log]
    for node in (2, 3):
        first, last = sorted((source.randint(0, len(log)), source.randint(0, len(log))))
        replicas += [replace(record, node=node) for record in log[first:last]]
    return source.sample(replicas, len(replicas))


def written_behind(source: random.Random, log: Records, newer: Sequence[LoggedRecord]) -> Records | None:
    """The log in which a producer writes with an older epoch somewhere after one of these records."""
    chosen = source.choice(newer) if newer else None
    if chosen is None:
        return None
    offset = source.choice([record.offset + 1 for record in log if record.offset >= chosen.offset])
    late = replace(chosen, offset=offset, producer_epoch=source.randrange(chosen.producer_epoch), marker=None)
    return sorted([*log, replace(late, value="late")], key=lambda record: record.offset)


def behind_a_record(source: random.Random, log: Records) -> Records | None:
    """A producer's record follows one of its id with a higher epoch."""
    return written_behind(source, log, [each for each in log if each.producer_epoch > 0 and each.value is not None])


def behind_a_marker(source: random.Random, log: Records) -> Records | None:
    """A producer's record follows the marker that ended its transaction with a higher epoch."""
    return written_behind(source, log, [each for each in log if each.producer_epoch > 0 and each.marker is not None])


def planted(name: str, seed: int) -> tuple[Records, Records]:
    """A valid partition's replicas, and their corruption; each seed has a topic of its own."""
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
