"""Checks one partition's log as its clients saw it: which guarantees broke, and between which events.

An event is one record in one operation: it was sent, its send ended in some way, a poll or a drain returned it. Every
function takes the events of one key in order of index, then of position in the operation, and returns witnesses: an
array of pairs of event rows, NOBODY for a missing second. Everything is vectorized or one compiled pass (ranks.py):
O(n log n) in all, for the sorts.

Contains the rules. Their messages and severities are in checkers/kafka_log/client_log.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checkers.kernels.ranks import NOTHING, distinct, overtaken
from checkers.kernels.rows import NOBODY, Rows

SENT, ACKED, FAILED, FENCED, UNKNOWN, BY_LEADER, POLLED, POLLED_BADLY, DRAINED = range(9)
"""What happened to an event's record. The last three are reads, POLLED_BADLY by a poll that did not end in ok.

FENCED is a failure because a newer producer had fenced the sender. BY_LEADER: with acks=1 the leader alone acknowledged
the send, so the record may be lost like one of an UNKNOWN outcome."""


@dataclass(frozen=True, slots=True)
class Events:
    """One key's events. index is the history row of the event, call that of the operation's invocation.

    assignment counts the process's assignments so far; subscribed is whether the last left them to its group.
    """

    index: Rows
    call: Rows
    process: Rows
    assignment: Rows
    subscribed: Rows
    what: Rows
    offset: Rows
    value: Rows


class Log:
    """The events, and facts that several rules share. Values have dense numbers from 0 on."""

    def __init__(self, events: Events) -> None:
        self.events = events
        what, placed = events.what, events.offset != NOTHING
        known_values = distinct(events.value)
        self.values, self.value = len(known_values), np.searchsorted(known_values, events.value)
        self.acked = np.flatnonzero(what == ACKED)
        self.polled = np.flatnonzero((what == POLLED) & placed)
        self.read = np.flatnonzero(np.isin(what, (POLLED, DRAINED)) & placed)
        self.shown = np.flatnonzero((what >= POLLED) & placed)
        self.drains = np.flatnonzero(what == DRAINED)
        self.first_sent = self.first(np.flatnonzero(what == SENT))
        self.first_acked = self.first(self.acked)
        self.first_failed = self.first(np.flatnonzero((what == FAILED) | (what == FENCED)))
        self.first_read = self.first(self.read)
        self.first_shown = self.first(self.shown)
        is_stored = (what == ACKED) | np.isin(what, (UNKNOWN, BY_LEADER)) & (self.first_shown != NOBODY)[self.value]
        self.placed = np.flatnonzero(placed & (is_stored | (what >= POLLED)))
        self.offsets = distinct(events.offset[self.placed])

    def first(self, rows: Rows) -> Rows:
        """For each value, the first of these rows about it."""
        first = np.full(self.values, NOBODY, np.int64)
        first[self.value[rows[::-1]]] = rows[::-1]
        return first

    def rank(self, rows: Rows) -> Rows:
        """The ranks of these rows' offsets among all known offsets."""
        return np.searchsorted(self.offsets, self.events.offset[rows])


def breaches(events: Events) -> Iterator[tuple[str, Rows]]:
    """Every finding's name with its witnesses; if a value was sent twice, only that: all rules need unique values."""
    log = Log(events)
    again = repeated_sends(log)
    if len(again):
        yield "values-not-unique", again
        return
    yield "inconsistent-offsets", conflicting(log, events.offset, log.value)
    yield "duplicate", conflicting(log, log.value, events.offset)
    yield "lost-write", np.concatenate((never_read(log), vanished(log)))
    yield "unseen", unseen(log)
    yield "not-drained", not_drained(log)
    refused = paired(log.first_failed, log.first_read)
    is_fenced = events.what[refused[:, 0]] == FENCED
    yield "aborted-read", refused[~is_fenced]
    yield "zombie-write", refused[is_fenced]
    yield "phantom-read", phantom_reads(log)
    inside, between = steps(log, log.read, log.polled)
    yield "int-poll-skip", skips(log, inside)
    yield "int-nonmonotonic-poll", steps_back(log, inside)
    yield "poll-skip", skips(log, between)
    yield "nonmonotonic-poll", steps_back(log, between)
    acked = log.acked[events.offset[log.acked] != NOTHING]
    inside, between = steps(log, acked, acked)
    yield "int-send-skip", skips(log, inside)
    yield "int-nonmonotonic-send", steps_back(log, inside)
    yield "nonmonotonic-send", steps_back(log, between)
    yield "nonlinearizable-log", out_of_order(log)


def pairs(first: Rows, second: Rows) -> Rows:
    """Two columns of rows."""
    return np.column_stack((first, second))


def paired(first: Rows, second: Rows) -> Rows:
    """The pairs of which both rows exist."""
    both = (first != NOBODY) & (second != NOBODY)
    return pairs(first[both], second[both])


def repeated_sends(log: Log) -> Rows:
    """The first two sends of each value that was sent more than once."""
    sends = np.flatnonzero(log.events.what == SENT)
    later = sends[log.first_sent[log.value[sends]] != sends]
    return paired(log.first_sent, log.first(later))


def conflicting(log: Log, of: Rows, differing: Rows) -> Rows:
    """For each number of `of` that events give two or more values of `differing`, the events of the first two."""
    rows = log.placed[np.lexsort((log.placed, differing[log.placed], of[log.placed]))]
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (np.diff(of[rows]) != 0) | (np.diff(differing[rows]) != 0)
    firsts = np.sort(rows[fresh])
    firsts = firsts[np.argsort(of[firsts], kind="stable")]
    same = np.diff(of[firsts]) == 0
    starts = same & np.append(True, ~same[:-1])[: len(same)]
    return pairs(firsts[:-1][starts], firsts[1:][starts])


def never_read(log: Log) -> Rows:
    """Acknowledged values at or below the highest offset read that no ok read returned; and the read of that offset."""
    if not len(log.read):
        return pairs(log.read, log.read)
    highest = log.read[np.argmax(log.events.offset[log.read])]
    never = log.first_acked[(log.first_acked != NOBODY) & (log.first_read == NOBODY)]
    offset = log.events.offset[never]
    lost = never[(offset != NOTHING) & (offset <= log.events.offset[highest])]
    return pairs(lost, np.full_like(lost, highest))


def last_drain(log: Log) -> tuple[int, int]:
    """The row of the drain that began last, and the index where it began; NOBODY and -1 if none returned."""
    if not len(log.drains):
        return NOBODY, -1
    row = log.drains[np.argmax(log.events.call[log.drains])]
    return int(row), int(log.events.call[row])


def vanished(log: Log) -> Rows:
    """Values acknowledged or read before the last drain began, and read, but not by it; and the drain."""
    drain, began = last_drain(log)
    if drain == NOBODY:
        return pairs(log.drains, log.drains)
    events = log.events
    in_drain = np.zeros(log.values, bool)
    in_drain[log.value[log.drains[events.index[log.drains] == events.index[drain]]]] = True
    proof = np.where(log.first_acked == NOBODY, log.first_read, log.first_acked)
    gone = proof[(log.first_read != NOBODY) & ~in_drain]
    gone = gone[events.index[gone] < began]
    return pairs(gone, np.full_like(gone, drain))


def unseen(log: Log) -> Rows:
    """Values acknowledged before the last drain began that no ok read returned, the drain included; and the drain."""
    drain, began = last_drain(log)
    never = log.first_acked[(log.first_acked != NOBODY) & (log.first_read == NOBODY)]
    missing = never[log.events.index[never] < began]
    return pairs(missing, np.full_like(missing, drain))


def not_drained(log: Log) -> Rows:
    """The last acknowledgement, if the last drain began before it."""
    _, began = last_drain(log)
    late = log.acked[log.events.index[log.acked] > began][-1:]
    return pairs(late, np.full_like(late, NOBODY))


def phantom_reads(log: Log) -> Rows:
    """Values that any read returned before their send began; and the sends, if any."""
    read = log.first_shown
    sent = log.first_sent
    early = (read != NOBODY) & ((sent == NOBODY) | (log.events.index[read] < log.events.index[sent]))
    return pairs(read[early], sent[early])


def steps(log: Log, within: Rows, across: Rows) -> tuple[Rows, Rows]:
    """Neighbours within one operation, and between consecutive operations of a process under the same assignment."""
    events = log.events
    inside = pairs(within[:-1], within[1:])[np.diff(events.index[within]) == 0]
    by_process = across[np.argsort(events.process[across], kind="stable")]
    same = np.diff(events.process[by_process]) == 0
    same &= np.diff(events.assignment[by_process]) == 0
    same &= np.diff(events.index[by_process]) != 0
    return inside, pairs(by_process[:-1], by_process[1:])[same]


def skips(log: Log, neighbours: Rows) -> Rows:
    """The neighbours with a known offset between them."""
    return neighbours[log.rank(neighbours[:, 1]) - log.rank(neighbours[:, 0]) > 1]


def steps_back(log: Log, neighbours: Rows) -> Rows:
    """The neighbours of which the second is not after the first."""
    return neighbours[log.rank(neighbours[:, 1]) < log.rank(neighbours[:, 0]) + 1]


def out_of_order(log: Log) -> Rows:
    """Records whose send began after another at a larger offset was acknowledged; the other comes first.

    A send that did not end in ok has the first offset at which a read shows it.
    """
    events = log.events
    unended = (log.first_acked == NOBODY) & (log.first_failed == NOBODY)
    place = np.where(unended, log.first_shown, log.first_acked)
    misplaced = overtaken(events.what == ACKED, events.offset, log.value, log.first_sent, place)
    return misplaced[np.argsort(misplaced[:, 1], kind="stable")]
