"""The rules that a quorum must never break, checked on each event of a simulated run.

Each has a name and its source:

- election-safety: at most one leader in an epoch (Raft, 5.2; KIP-595).
- log-matching: batches at one offset and of one epoch are equal, and so is the epoch before them (Raft, 5.3).
- leader-completeness: a new leader has every committed record (Raft, 5.4).
- state-machine-safety: all nodes have the same committed records (Raft, 5.4.3).
- epoch-monotonic: a node's stored epoch never decreases, over restarts too (Raft, figure 2).
- vote-once: within an epoch, a stored vote does not change (Raft, 5.2).
- one-leader-known: within an epoch, a stored leader does not change (KIP-595, "Quorum State").
- high-watermark-monotonic: while a node runs, its high watermark never decreases (RaftEventSimulationTest).
- state-transition: only transitions of the state machine's table (KIP-595, KIP-996).
- voters-of-log: the voters that a node acts on are those that its log says (KIP-642, KIP-853).

Contains the rules. Does not contain what a node reports, or what follows from a violation.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.model.quorum_states import START_STATES, State, TransitionTable
from nodes.reference.core.events import Election
from nodes.reference.core.node import Node
from nodes.reference.core.records.control import assignments_in
from nodes.reference.core.records.log import Log
from nodes.wire.batches import heads

Report = Callable[[str, str, int], None]
"""Receives the invariant, what was found, and the node."""


class Invariants:
    """What all nodes of a run have shown so far."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._leaders: dict[int, int] = {}
        self._batches: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._committed: list[tuple[int, bytes]] = []  # committed batches in order, with their base offsets
        self._committed_end = 0
        self._positions: dict[int, int] = {}  # of each node, how many of the committed batches it was compared with
        self._high_watermarks: dict[int, int] = {}
        self._elections: dict[int, Election] = {}
        self._epochs: dict[int, int] = {}
        self._has_lost_disk = False  # then what a majority once knew need not be known any more

    def started(self, node: int) -> None:
        """A node has started."""
        self._high_watermarks.pop(node, None)
        self._positions.pop(node, None)

    def lost_disk(self, node: int) -> None:
        """A node's disk was emptied: its votes are forgotten, and committed records may be gone with it."""
        self._elections.pop(node, None)
        self._has_lost_disk = True

    def persisted(self, node: int, election: Election) -> None:
        """A node has stored its election state."""
        before = self._elections.get(node, Election())
        self._elections[node] = election
        if election.epoch < before.epoch:
            self._report("epoch-monotonic", f"epoch {election.epoch} was stored after epoch {before.epoch}", node)
        if election.epoch != before.epoch:
            return
        if before.voted_id not in (None, election.voted_id):
            vote = f"a vote for n{before.voted_id} became one for n{election.voted_id}"
            self._report("vote-once", f"{vote} in epoch {election.epoch}", node)
        if None not in (before.leader_id, election.leader_id) and before.leader_id != election.leader_id:
            leaders = f"n{before.leader_id} and then n{election.leader_id}"
            self._report("one-leader-known", f"{leaders} led epoch {election.epoch}", node)

    def entered(self, node: int, source: State | None, target: State, epoch: int, table: TransitionTable) -> None:
        """A node has changed its state; table is the one that it follows."""
        before, after = self._epochs.get(node, 0), epoch
        self._epochs[node] = epoch
        is_legal = target in START_STATES if source is None else table.allows(source, target, before, after)
        if not is_legal:
            origin = "its start" if source is None else f"{source.value} in epoch {before}"
            self._report("state-transition", f"from {origin} to {target.value} in epoch {after}", node)
        if target is State.LEADER and self._leaders.setdefault(after, node) != node and not self._has_lost_disk:
            self._report("election-safety", f"n{self._leaders[after]} and n{node} led epoch {after}", node)

    def leads(self, node: int, log: Log) -> None:
        """A node has become the leader."""
        if not self._has_lost_disk and self._differs(log, 0, self._committed_end):
            end = f"offset {self._committed_end}"
            self._report("leader-completeness", f"the new leader lacks a record that was committed below {end}", node)

    def appended(self, node: int, data: bytes) -> None:
        """A node has appended batches."""
        for head in heads(data):
            batch = data[head.start : head.end]
            key = (head.base_offset, head.leader_epoch)
            known = self._batches.setdefault(key, (batch, head.last_offset))
            if known[0] != batch:
                where = f"offset {head.base_offset} in epoch {head.leader_epoch}"
                self._report("log-matching", f"two different batches have {where}", node)

    def advanced(self, node: int, core: Node) -> None:
        """A node has handled an event."""
        log = core.log
        high_watermark, before = log.high_watermark, self._high_watermarks.get(node, -1)
        if high_watermark == before:
            return
        if high_watermark < before:
            self._report("high-watermark-monotonic", f"it fell from {before} to {high_watermark}", node)
            return
        self._high_watermarks[node] = high_watermark
        if not self._has_lost_disk and self._differs(log, self._positions.get(node, 0), high_watermark):
            message = f"a committed record below offset {high_watermark} differs from that of another node"
            self._report("state-machine-safety", message, node)
        self._extend(log)
        self._positions[node] = len(self._committed)
        while self._positions[node] and self._committed[self._positions[node] - 1][0] >= high_watermark:
            self._positions[node] -= 1

    def voters_of(self, node: int, core: Node) -> None:
        """Compare the voters that a node acts on with those in its log."""
        assignments = assignments_in(core.log.read_from(0))
        last = [assignment for _, assignment in assignments]
        if last and core.voters.last.assignment != last[-1]:
            held = core.voters.last.assignment.current
            self._report("voters-of-log", f"it acts on the voters {held}; its log ends with {last[-1].current}", node)

    def _differs(self, log: Log, position: int, end_offset: int) -> bool:
        """Whether a log differs below end_offset from the committed batches, from this position on."""
        return any(
            log.read(base_offset, 1) != batch
            for base_offset, batch in self._committed[position:]
            if base_offset < end_offset
        )

    def _extend(self, log: Log) -> None:
        """Add the batches that are known to be committed now."""
        while self._committed_end < log.high_watermark:
            batch = log.read(self._committed_end, 1)
            if not batch:
                return
            (head,) = heads(batch)
            self._committed.append((head.base_offset, batch))
            self._committed_end = head.last_offset + 1
