"""Planted corruptions of what nodes did: of a quorum's observations, and of the logs on their disks.

Each breaks a valid record as its docstring or name says. A record has a number, and records with different numbers
share no node, epoch, offset or partition, so many can be checked as one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from harness.model import Observation
from harness.model.records.logged_batch import LoggedBatch
from tests.support.checks.small_histories import MS

NODES = 3
APART = 1000
"""The distance between the epochs, and the high watermarks, of two records."""

TOPIC = "__cluster_metadata"
Logs = tuple[list[LoggedBatch], int]
"""The batches of nodes 1 to 3, and their high watermark."""


def planted_in(source_of: Callable, plants: Mapping[str, Any], name: str, seed: int, number: int) -> tuple[Any, Any]:
    """A valid record of this number, and its corruption, which has the next number."""
    made = source_of(random.Random(f"{name}/{seed}"), number), source_of(random.Random(f"{name}/{seed}"), number + 1)
    return made[0], plants[name].plant(random.Random(f"{name}/{seed}/plant"), made[1])


@dataclass(frozen=True, slots=True)
class Corruption:
    """The change, and the finding that it must cause."""

    plant: Callable[[random.Random, Any], Any]
    must: str
    may: frozenset[str] = frozenset()


class Quorum(NamedTuple):
    """The observations so far, and the state: the nodes, the leader, its epoch, its high watermark, and the time."""

    seen: list[Observation]
    nodes: tuple[int, ...]
    leader: int
    epoch: int
    mark: int
    ms: int

    def follower(self) -> int:
        """A node that does not lead."""
        return next(node for node in self.nodes if node != self.leader)

    def with_more(self, *more: Observation) -> Quorum:
        """The same with these observations, a millisecond apart."""
        later = [replace(one, time_ns=(self.ms + at) * MS) for at, one in enumerate(more, 1)]
        return self._replace(seen=[*self.seen, *later], ms=self.ms + len(more))


def transition(node: int, previous: str | None, state: str, epoch: int, **more: Any) -> Observation:
    """A line of a node's log."""
    return Observation(0, node, "log", "transition", state, previous, epoch, **more)


def durable(node: int, epoch: int, **more: Any) -> Observation:
    """The content of a node's quorum-state file."""
    return Observation(0, node, "quorum-state", "durable", epoch=epoch, **more)


def claim(node: int, epoch: int, mark: int) -> Observation:
    """A leader answers."""
    return Observation(0, node, "describe-quorum", "claim", epoch=epoch, high_watermark=mark)


def started(node: int) -> Observation:
    """A process begins."""
    return Observation(0, node, "process", "started")


def valid_quorum(source: random.Random, number: int) -> Quorum:
    """Three nodes that elect a leader a few times."""
    first, nodes = APART * (number + 1), tuple(10 * number + at for at in range(1, NODES + 1))
    quorum = Quorum([], nodes, -1, first, first, 0)
    quorum = quorum.with_more(*(one for n in nodes for one in (started(n), transition(n, None, "Unattached", first))))
    states = dict.fromkeys(nodes, "Unattached")
    for _ in range(source.randint(1, 4)):
        quorum = elected(source, quorum, states)
    return quorum


def elected(source: random.Random, quorum: Quorum, states: dict[int, str]) -> Quorum:
    """Another node is elected leader and commits something."""
    winner = source.choice([node for node in quorum.nodes if node != quorum.leader])
    epoch, mark = quorum.epoch + 1, quorum.mark + source.randint(1, 20)
    others = [node for node in quorum.nodes if node != winner]
    quorum = quorum.with_more(
        transition(winner, states[winner], "Prospective", epoch - 1),
        transition(winner, "Prospective", "Candidate", epoch, voted=winner),
        durable(winner, epoch, voted=winner),
        transition(winner, "Candidate", "Leader", epoch),
        *(transition(node, states[node], "Follower", epoch, leader=winner) for node in others),
        *(durable(node, epoch, leader=winner, voted=winner) for node in others if source.random() < 0.7),
        *(claim(winner, epoch, at) for at in range(quorum.mark, mark, 5)),
        claim(winner, epoch, mark),
    )
    states.update(dict.fromkeys(others, "Follower") | {winner: "Leader"})
    return quorum._replace(leader=winner, epoch=epoch, mark=mark)


def then(*what: Callable[[Quorum], Observation]) -> Callable[[random.Random, Quorum], Quorum]:
    """A plant of these observations at the end."""
    return lambda _source, quorum: quorum.with_more(*(each(quorum) for each in what))


QUORUM_CORRUPTIONS: Mapping[str, Corruption] = {
    "two leaders": Corruption(then(lambda q: claim(q.follower(), q.epoch, q.mark)), "two-leaders-in-one-epoch"),
    "two leaders by a follower's word": Corruption(
        then(lambda q: durable(q.follower(), q.epoch, leader=q.follower(), voted=q.leader)), "two-leaders-in-one-epoch",
    ),
    "an epoch goes back after a restart": Corruption(
        then(lambda q: started(q.follower()), lambda q: transition(q.follower(), None, "Unattached", q.epoch - 1)),
        "epoch-went-back",
    ),
    "an epoch goes back in a file": Corruption(
        then(lambda q: durable(q.leader, q.epoch - 1)), "epoch-went-back", frozenset({"vote-forgotten"}),
    ),
    "a vote changes in a file": Corruption(
        then(lambda q: durable(q.leader, q.epoch, voted=q.follower())), "vote-changed",
    ),
    "a vote is gone from a file": Corruption(
        then(lambda q: durable(q.follower(), q.epoch + 1, voted=q.leader),
             lambda q: durable(q.follower(), q.epoch + 1)), "vote-forgotten",
    ),
    "a vote in a file is not that of the log": Corruption(
        then(lambda q: transition(q.follower(), "Follower", "Unattached", q.epoch + 1, voted=q.leader),
             lambda q: durable(q.follower(), q.epoch + 1, voted=q.follower())), "vote-changed",
    ),
    "a follower becomes a candidate": Corruption(
        then(lambda q: transition(q.follower(), "Follower", "Candidate", q.epoch + 1)),
        "candidate-without-prospective",
    ),
    "a follower becomes the leader": Corruption(
        then(lambda q: transition(q.follower(), "Follower", "Leader", q.epoch + 1)), "illegal-transition",
    ),
    "a candidate keeps its epoch": Corruption(
        then(lambda q: transition(q.follower(), "Follower", "Prospective", q.epoch),
             lambda q: transition(q.follower(), "Prospective", "Candidate", q.epoch)), "illegal-transition",
    ),
    "a process begins as the leader": Corruption(
        then(lambda q: started(q.leader), lambda q: transition(q.leader, None, "Leader", q.epoch)),
        "illegal-transition",
    ),
    "a leader's mark goes back": Corruption(
        then(lambda q: claim(q.leader, q.epoch, q.mark - 1)), "high-watermark-went-back",
    ),
    "a later leader's mark is lower": Corruption(
        then(lambda q: claim(q.follower(), q.epoch + 1, q.mark - 1)), "high-watermark-went-back",
    ),
}  # fmt: skip


def valid_logs(source: random.Random, number: int) -> Logs:
    """Three equal logs; the third may end below the high watermark."""
    truth, offset, epoch = [], 0, 1
    for _ in range(source.randint(4, 9)):
        last = offset + source.choice([0, 0, 2])
        truth.append(LoggedBatch(0, TOPIC, number, offset, last, epoch, 100 * epoch + offset))
        offset, epoch = last + 1, epoch + source.choice([0, 0, 1])
    lengths = len(truth), len(truth), len(truth) - source.choice([0, 0, 1])
    batches = [replace(one, node=node) for node, length in enumerate(lengths, 1) for one in truth[:length]]
    return batches, offset


def log_of(node: int, batches: Sequence[LoggedBatch]) -> list[LoggedBatch]:
    """A node's batches."""
    return [batch for batch in batches if batch.node == node]


def one_of(source: random.Random, logs: Logs, node: int, spare: int = 1) -> LoggedBatch:
    """A batch of a node's log, neither the first nor one of the last `spare`."""
    return source.choice(log_of(node, logs[0])[1 : -spare or None])


def changed(logs: Logs, batch: LoggedBatch, nodes: Sequence[int], **how: Any) -> Logs:
    """The logs with this batch changed on these nodes."""
    return [
        replace(one, **how) if one.node in nodes and one.base_offset == batch.base_offset else one for one in logs[0]
    ], logs[1]


def rewritten_in_the_middle(source: random.Random, logs: Logs) -> Logs:
    """On one node a batch is another leader's, and the following ones are not."""
    batch = one_of(source, logs, 3)
    return changed(logs, batch, [3], crc=batch.crc + 7)


def hole(source: random.Random, logs: Logs) -> Logs:
    """One node's log lacks a batch in the middle."""
    gone = one_of(source, logs, 1)
    return [one for one in logs[0] if one is not gone], logs[1]


def end_of_another_leader(source: random.Random, logs: Logs) -> Logs:
    """One node's tail is by a deposed leader, differs from what is committed, and is yet to be truncated."""
    last = log_of(1, logs[0])[-1]
    full = [one for one in logs[0] if one.node != 3] + [replace(one, node=3) for one in log_of(1, logs[0])]
    return changed((full, logs[1]), last, [3], leader_epoch=last.leader_epoch + source.randint(1, 2), crc=9)


def gone_from_a_majority(source: random.Random, logs: Logs) -> Logs:
    """Two nodes have lost committed records at the end."""
    cut = one_of(source, logs, 2, 0).base_offset
    return [one for one in logs[0] if one.node == 1 or one.base_offset < cut], logs[1]


def committed_beyond_every_log(source: random.Random, logs: Logs) -> Logs:
    """Offsets claimed to be committed are in no log."""
    return logs[0], logs[1] + source.randint(1, 5)


def damaged(source: random.Random, logs: Logs) -> Logs:
    """On one node a batch's bytes are damaged."""
    return changed(logs, one_of(source, logs, 3), [source.choice([1, 2, 3])], intact=False)


def damaged_on_two(source: random.Random, logs: Logs) -> Logs:
    """On two nodes a batch's bytes are damaged."""
    return changed(logs, one_of(source, logs, 3), [1, 2], intact=False)


def epoch_goes_back(source: random.Random, logs: Logs) -> Logs:
    """In all logs a batch has an earlier epoch than its predecessor."""
    batch = one_of(source, logs, 3)
    return changed(logs, batch, [1, 2, 3], leader_epoch=0)


class Kept(NamedTuple):
    """The batches of nodes 1 to 3, and the high watermarks that they had stored."""

    batches: list[LoggedBatch]
    seen: list[Observation]


def stored(node: int, at: LoggedBatch) -> Observation:
    """A broker had stored a high watermark just after this batch."""
    detail = json.dumps({"topic": at.topic, "partition": at.partition, "epoch": at.leader_epoch})
    mark = at.last_offset + 1
    return Observation(mark, node, "replication-offset-checkpoint", "committed", high_watermark=mark, detail=detail)


def valid_files(source: random.Random, number: int) -> Kept:
    """Three equal logs, and high watermarks that nodes stored over time."""
    batches, _ = valid_logs(source, number)
    return Kept(batches, [stored(one.node, one) for one in batches if source.random() < 0.6])


def rewritten(batch: LoggedBatch, lost: LoggedBatch) -> LoggedBatch:
    """The batch as written by a later leader than the lost one's."""
    return replace(batch, leader_epoch=lost.leader_epoch + 5, crc=9)


def cut_by_a_later_leader(source: random.Random, kept: Kept) -> Kept:
    """Records below a stored high watermark were truncated everywhere, and a later leader wrote others there."""
    lost = one_of(source, (kept.batches, 0), 1)
    batches = [rewritten(one, lost) if one.base_offset >= lost.base_offset else one for one in kept.batches]
    return Kept(batches, [*kept.seen, stored(source.choice([1, 2, 3]), lost)])


def cut_and_never_written_again(source: random.Random, kept: Kept) -> Kept:
    """Records below a stored high watermark were truncated everywhere."""
    lost = one_of(source, (kept.batches, 0), 1)
    batches = [one for one in kept.batches if one.base_offset < lost.base_offset]
    return Kept(batches, [*kept.seen, stored(source.choice([1, 2, 3]), lost)])


def cut_by_the_leader_alone(source: random.Random, kept: Kept) -> Kept:
    """The leader lacks records below its followers' stored high watermarks and wrote others; followers lag behind."""
    lost = one_of(source, (kept.batches, 0), 1)
    own = [rewritten(one, lost) for one in kept.batches if one.node == 1 and one.base_offset >= lost.base_offset]
    others = [one for one in kept.batches if one.node != 1 or one.base_offset < lost.base_offset]
    return Kept([*others, *own], [*kept.seen, stored(source.choice([2, 3]), lost)])


FILE_CORRUPTIONS: Mapping[str, Corruption] = {
    "cut by a later leader": Corruption(cut_by_a_later_leader, "truncated-below-high-watermark"),
    "cut and never written again": Corruption(cut_and_never_written_again, "truncated-below-high-watermark"),
    "cut by the leader alone": Corruption(cut_by_the_leader_alone, "truncated-below-high-watermark"),
}


LOST = frozenset({"committed-record-missing"})
LOG_CORRUPTIONS: Mapping[str, Corruption] = {
    "rewritten in the middle": Corruption(rewritten_in_the_middle, "diverged-logs", LOST),
    "a hole": Corruption(hole, "diverged-logs", LOST | {"diverging-tail"}),
    "another leader's end, tolerated": Corruption(end_of_another_leader, "diverging-tail", LOST),
    "gone from a majority": Corruption(gone_from_a_majority, "committed-record-missing"),
    "committed beyond every log": Corruption(committed_beyond_every_log, "committed-record-missing"),
    "damaged": Corruption(damaged, "corrupt-batch", LOST),
    "damaged on two nodes": Corruption(damaged_on_two, "corrupt-batch", LOST),
    "an epoch goes back": Corruption(epoch_goes_back, "leader-epoch-went-back"),
}
