"""The rules that a quorum must never break, checked on each event of a simulated run.

Each has a name and its source:

- election-safety: at most one leader in an epoch (Raft, 5.2; KIP-595).
- log-matching: batches at one offset and of one epoch are equal, and so is the epoch before them (Raft, 5.3).
- leader-completeness: a new leader has every record that earlier epochs committed (Raft, 5.4).
- state-machine-safety: all nodes have the same committed records (Raft, 5.4.3).
- epoch-monotonic: a node's stored epoch never decreases, over restarts too (Raft, figure 2).
- vote-once: within an epoch, a stored vote does not change (Raft, 5.2).
- one-leader-known: within an epoch, a stored leader does not change (KIP-595, "Quorum State").
- high-watermark-monotonic: while a node runs, its high watermark never decreases (RaftEventSimulationTest).
- state-transition: only transitions of the state machine's table (KIP-595, KIP-996).
- voters-of-log: the voters that a node acts on are those that its log says (KIP-642, KIP-853).
- one-change-at-a-time: a leader changes the voters once the change before is committed, and a record of its own epoch
  (Ongaro, raft-dev, July 2015; KIP-642, "Reassignment Algorithm"; KIP-853).
- acknowledged-change: an acknowledged reassignment is committed (KIP-642, "Request Handling", step 4).
- voters-in-log: where voters change, the log of a leader that has committed a record says who votes (KIP-642, "Quorum
  Bootstrapping"; KIP-853).
- election-after-discovery: a voter that has to find the others begins an election once it knows where a majority of
  the voters listens (KIP-642, "Bootstrapping Procedure", step 6).
- snapshot-of-committed: a snapshot holds what the committed records below its end make, and the voters that they name
  (KIP-630; KIP-853, "Snapshots").
- address-known: a node knows the latest address that it was told of each other one (KIP-642, "Quorum Bootstrapping").

Contains the rules. Does not contain what a node reports, or what follows from a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.model.quorum_states import START_STATES, State, TransitionTable
from nodes.reference.core.events import Assignment, Election, Snapshot
from nodes.reference.core.messages import Advertised
from nodes.reference.core.node import Node
from nodes.reference.core.records.applied import apply
from nodes.reference.core.records.control import assignments_in
from nodes.reference.core.records.image import Image
from nodes.reference.core.records.log import Log
from nodes.reference.core.records.snapshots import Contents, contents
from nodes.reference.core.roles.states import Leader
from nodes.wire.batches import BatchHead, heads

Written = tuple[int, Assignment]
"""The offset of an assignment's record, and the assignment."""

Report = Callable[[str, str, int], None]
"""Receives the invariant, what was found, and the node."""


class Invariants:
    """What all nodes of a run have shown so far."""

    def __init__(self, report: Report, are_voters_in_log: bool = False) -> None:
        """are_voters_in_log: voters change, so that the log says who votes."""
        self._report, self._are_voters_in_log = report, are_voters_in_log
        self._leaders: dict[int, int] = {}
        self._batches: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._committed: list[tuple[int, bytes]] = []  # committed batches in order, with their base offsets
        self._committed_end = 0
        self._committed_by: dict[int, int] = {}  # by epoch: the end of what was committed in it
        self._positions: dict[int, int] = {}  # of each node, how many of the committed batches it was compared with
        self._high_watermarks: dict[int, int] = {}
        self._elections: dict[int, Election] = {}
        self._epochs: dict[int, int] = {}
        self._written: dict[int, list[Written]] = {}  # the assignments in the log of each node that runs
        self._has_wrong_voters: set[int] = set()  # nodes of which it was reported
        self._in_snapshot: dict[int, Written] = {}  # the assignment that each node's snapshot holds
        self._told: dict[int, dict[int, Advertised]] = {}  # by node: the latest address that it was told of each other
        self._has_lost_disk = False  # then what a majority once knew may be forgotten

    @property
    def committed_end(self) -> int:
        """The records below are known to be committed; 0 if an emptied disk may have taken some of them away."""
        return 0 if self._has_lost_disk else self._committed_end

    def started(self, node: int) -> None:
        """A node has started."""
        self._high_watermarks.pop(node, None)
        self._positions.pop(node, None)
        self._written.pop(node, None)
        self._told.pop(node, None)

    def lost_disk(self, node: int) -> None:
        """A node's disk was emptied: its votes are forgotten, and committed records may be gone with it."""
        self._elections.pop(node, None)
        self._in_snapshot.pop(node, None)
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

    def begins_election(self, node: int, core: Node) -> None:
        """A voter that has to find the others begins an election."""
        voters = core.voters
        found = {node, *core.known} & set(voters.ids)
        if len(found) < voters.majority:
            message = f"it knows where {sorted(found)} of the voters {voters.ids} listen, and begins an election"
            self._report("election-after-discovery", message, node)

    def told(self, node: int, core: Node, brokers: Iterable[Advertised]) -> None:
        """A node has handled a message that says where these nodes listen."""
        latest = self._told.setdefault(node, {})
        for each in brokers:
            if each.node_id == node:
                continue
            if each.node_id not in latest or each.boot_ms > latest[each.node_id].boot_ms:
                latest[each.node_id] = each
            known, told = core.known.get(each.node_id), latest[each.node_id]
            if known is None or known.boot_ms < told.boot_ms:
                found = "knows none" if known is None else f"knows one since {known.boot_ms}"
                message = f"it was told an address of n{each.node_id} since {told.boot_ms}, and {found}"
                self._report("address-known", message, node)

    def leads(self, node: int, log: Log, epoch: int) -> None:
        """A node has become the leader of an epoch, perhaps after later ones: its votes may have been on their way."""
        committed_end = max((end for earlier, end in self._committed_by.items() if earlier < epoch), default=0)
        if not self._has_lost_disk and self._differs(log, 0, committed_end):
            end = f"offset {committed_end}"
            self._report("leader-completeness", f"the new leader lacks a record that was committed below {end}", node)

    def appended(self, node: int, data: bytes) -> None:
        """A node has appended batches."""
        for head in heads(data):
            batch = data[head.start : head.end]
            if head.is_control and node in self._written:
                last = self._written[node][-1][0] if self._written[node] else -1
                self._written[node] += [each for each in assignments_in(batch) if each[0] > last]
            key = (head.base_offset, head.leader_epoch)
            known = self._batches.setdefault(key, (batch, head.last_offset))
            if known[0] != batch:
                where = f"offset {head.base_offset} in epoch {head.leader_epoch}"
                self._report("log-matching", f"two different batches have {where}", node)

    def saves(self, node: int, core: Node, snapshot: Snapshot, log: bytes) -> None:
        """A node is about to save a snapshot, which may cover a part of the log on its disk."""
        end_offset = snapshot.id.end_offset
        for head in heads(log):
            if head.base_offset == self._committed_end < min(end_offset, core.log.high_watermark):
                self._commit(head, log[head.start : head.end], core.state.epoch)
        found = contents(snapshot.data)
        if found.assignment is not None:
            self._in_snapshot[node] = end_offset - 1, found.assignment
        self._written.pop(node, None)
        if self._has_lost_disk:
            return
        committed = b"".join(batch for base_offset, batch in self._committed if base_offset < end_offset)
        if end_offset > self._committed_end:
            message = f"n{node} saved a snapshot below {end_offset}; what is known to be committed ends at"
            self._report("snapshot-of-committed", f"{message} {self._committed_end}", node)
        elif found != _contents_of(committed):
            message = f"the snapshot of n{node} below {end_offset} differs from what the committed records make"
            self._report("snapshot-of-committed", message, node)

    def truncated(self, node: int) -> None:
        """A node has truncated its log."""
        self._written.pop(node, None)  # the log tells what is left

    def wrote(self, node: int, core: Node, data: bytes) -> None:
        """A leader has appended batches of its own; its high watermark may have risen in the same event."""
        state, reached = core.state, core.log.high_watermark
        if not isinstance(state, Leader):
            return
        for offset, assignment in assignments_in(data):
            before = next((each for each in reversed(self._assignments(node, core.log)) if each[0] < offset), None)
            if before is None or before[1].keys == assignment.keys:
                continue
            if reached <= state.start_offset:
                message = f"n{node} changed the voters at offset {offset} before it had committed a record of its epoch"
                self._report("one-change-at-a-time", f"{message}, {state.epoch}", node)
            elif before[0] >= reached:
                message = f"n{node} changed the voters at offset {offset}, and the change at {before[0]}"
                self._report("one-change-at-a-time", f"{message} was not committed", node)

    def acknowledged(self, node: int, core: Node, target: tuple[int, ...] | None) -> None:
        """A leader has answered that a reassignment to this target, or its cancellation, is committed."""
        committed = [each for offset, each in self._assignments(node, core.log) if offset < core.log.high_watermark]
        if not any(target == each.target or (each.target is None and target == each.current) for each in committed):
            wanted = "no target" if target is None else f"the target {target}"
            self._report("acknowledged-change", f"{wanted} was acknowledged, and no committed record has it", node)

    def _assignments(self, node: int, log: Log) -> list[Written]:
        """The assignments in a node's log."""
        if node not in self._written:
            covered = [self._in_snapshot[node]] if node in self._in_snapshot else []
            self._written[node] = covered + list(assignments_in(log.read_from(0)))
        return self._written[node]

    def advanced(self, node: int, core: Node) -> None:
        """A node has handled an event."""
        self._voters_of(node, core)
        log = core.log
        high_watermark, before = log.high_watermark, self._high_watermarks.get(node, -1)
        if high_watermark == before:
            return
        if high_watermark < before:
            self._report("high-watermark-monotonic", f"it fell from {before} to {high_watermark}", node)
            return
        self._high_watermarks[node] = high_watermark
        is_leader = self._are_voters_in_log and isinstance(core.state, Leader)
        if is_leader and not self._assignments(node, log):
            self._report("voters-in-log", f"n{node} has committed records, and its log does not say who votes", node)
        if not self._has_lost_disk and self._differs(log, self._positions.get(node, 0), high_watermark):
            message = f"a committed record below offset {high_watermark} differs from that of another node"
            self._report("state-machine-safety", message, node)
        self._extend(log, core.state.epoch)
        self._positions[node] = len(self._committed)
        while self._positions[node] and self._committed[self._positions[node] - 1][0] >= high_watermark:
            self._positions[node] -= 1

    def _voters_of(self, node: int, core: Node) -> None:
        """Compare the voters that a node acts on with the last ones in its log; what is wrong is reported once."""
        written, held = self._assignments(node, core.log), core.voters.effective.assignment
        if not written or held == written[-1][1]:
            self._has_wrong_voters.discard(node)
        elif node not in self._has_wrong_voters:
            self._has_wrong_voters.add(node)
            last = written[-1][1]
            self._report("voters-of-log", f"it acts on {_in_words(held)}; its log ends with {_in_words(last)}", node)

    def _differs(self, log: Log, position: int, end_offset: int) -> bool:
        """Whether a log differs below end_offset from the committed batches, from this position on."""
        return any(
            log.read(base_offset, 1) != batch
            for base_offset, batch in self._committed[position:]
            if log.start.end_offset <= base_offset < end_offset
        )

    def _extend(self, log: Log, epoch: int) -> None:
        """Add the batches that are known to be committed now; the first node to know it is the leader of the epoch."""
        while self._committed_end < log.high_watermark:
            batch = log.read(self._committed_end, 1)
            if not batch or self._committed_end < log.start.end_offset:
                return
            (head,) = heads(batch)
            self._commit(head, batch, epoch)

    def _commit(self, head: BatchHead, batch: bytes, epoch: int) -> None:
        self._committed.append((head.base_offset, batch))
        self._committed_end = self._committed_by[epoch] = head.last_offset + 1


def _contents_of(data: bytes) -> Contents:
    """What a snapshot of these records has to hold."""
    log, image, named = Log(data), Image(), [each for _, each in assignments_in(data)]
    apply(image, log, 0, log.end_offset)
    return Contents(image, named[-1] if named else None)


def _in_words(assignment: Assignment) -> str:
    target = "" if assignment.target is None else f" with the target {assignment.target}"
    return f"the voters {assignment.current}{target}"
