"""What a node tells others and clients, held against what it has, on each event of a simulated run.

Each rule has a name and its source:

- vote-durable: a node that asks for votes has stored the epoch and its own vote (Raft, figure 2).
- commit-own-epoch: a leader's high watermark rises once a record of its own epoch is committed (Raft, 5.4.2; KIP-595).
- acknowledged-write: an acknowledged write is committed (Raft, 5.3).
- read-of-all-committed: the response to a linearizable read has everything that any node knew to be committed when the
  read arrived (Raft's thesis, 6.4).
- pre-vote-fallback: a Prospective that asks a voter without Pre-Vote becomes Candidate at once (KIP-996).
- check-quorum: a leader from which no majority fetches for twice the timeout leads no longer (KAFKA-15489). Twice,
  since a fetch counts until the leader has heard from a majority, and then anew.

Contains the rules. What a violation leads to is nodes.simulation.reference.cluster's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodes.reference.core.events import Election
from nodes.reference.core.messages import Change, FetchRequest, FetchSnapshotRequest, ReplicaKey, VoteRequest
from nodes.reference.core.node import Node
from nodes.reference.core.records.image import ResourceType
from nodes.reference.core.records.metadata import encode_config
from nodes.reference.core.roles.states import Leader, Prospective, QuorumState
from nodes.reference.core.settings import NodeSettings
from nodes.simulation.reference.invariants import Report


@dataclass(slots=True)
class _Term:
    """A leader's epoch: since when the other voters are these, and it votes itself; when each replica fetched last."""

    epoch: int
    voters: tuple[ReplicaKey, ...]
    votes: bool
    since_ms: int
    fetched_ms: dict[ReplicaKey, int] = field(default_factory=dict)
    is_reported: bool = False


class Promises:
    """The rules for all nodes of a run."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._terms: dict[int, _Term] = {}
        self._high_watermarks: dict[int, int] = {}

    def started(self, node: int) -> None:
        """A node has started."""
        self._terms.pop(node, None)
        self._high_watermarks.pop(node, None)

    def resumed(self, node: int, now_ms: int) -> None:
        """A paused node goes on: fetches that waited count when it handles them."""
        if node in self._terms:
            self._terms[node].since_ms = now_ms

    def sends(self, node: int, request: object, durable: Election) -> None:
        """A node sends a request, with this election state on its disk."""
        if not isinstance(request, VoteRequest) or request.pre_vote:
            return
        if (durable.epoch, durable.voted_id) != (request.replica_epoch, node):
            vote = "no vote" if durable.voted_id is None else f"a vote for n{durable.voted_id}"
            stored = f"it has stored epoch {durable.epoch} and {vote}"
            self._report("vote-durable", f"n{node} asks for votes in epoch {request.replica_epoch}; {stored}", node)

    def fetched(self, node: int, request: FetchRequest | FetchSnapshotRequest, now_ms: int) -> None:
        """A fetch has arrived."""
        term = self._terms.get(node)
        if term is not None and request.epoch == term.epoch:
            replicas = (key for key in term.voters if key.node_id == request.replica_id)
            term.fetched_ms.update(dict.fromkeys(replicas, now_ms))

    def unsupported(self, node: int, before: QuorumState, after: QuorumState) -> None:
        """A voter does not know the request for a pre-vote."""
        if isinstance(before, Prospective) and isinstance(after, Prospective) and before.epoch == after.epoch:
            message = (
                f"n{node} asked for a pre-vote that is not supported, and stays Prospective in epoch {after.epoch}"
            )
            self._report("pre-vote-fallback", message, node)

    def advanced(self, node: int, core: Node, settings: NodeSettings, now_ms: int) -> None:
        """A node has handled an event."""
        state, high_watermark = core.state, core.log.high_watermark
        before = self._high_watermarks.get(node, high_watermark)
        self._high_watermarks[node] = high_watermark
        if not isinstance(state, Leader):
            self._terms.pop(node, None)
            return
        if before < high_watermark <= state.start_offset:
            message = f"n{node} counts records below {high_watermark} as committed; its epoch, {state.epoch}, begins at"
            self._report("commit-own-epoch", f"{message} {state.start_offset}", node)
        if settings.check_quorum and settings.leader_without_majority != "asks":
            self._check_quorum(node, core, state.epoch, settings.check_quorum_timeout_ms, now_ms)

    def _check_quorum(self, node: int, core: Node, epoch: int, timeout_ms: int, now_ms: int) -> None:
        term, voters, votes = self._terms.get(node), core.voters.other_keys, core.voters.is_listed
        if term is None or (term.epoch, term.voters, term.votes) != (epoch, voters, votes):
            self._terms[node] = _Term(epoch, voters, votes, now_ms, {} if term is None else term.fetched_ms)
            return
        needed = core.voters.majority - votes
        if needed <= 0 or term.is_reported:
            return
        heard_ms = sorted(max(term.since_ms, term.fetched_ms.get(key, 0)) for key in voters)[-needed]
        if now_ms - heard_ms > 2 * timeout_ms:
            term.is_reported = True
            message = f"n{node} leads epoch {epoch}, and no majority has fetched from it for {now_ms - heard_ms} ms"
            self._report("check-quorum", message, node)

    def acknowledges(self, node: int, core: Node, changes: Iterable[Change]) -> None:
        """A leader acknowledges a write."""
        configs, log = core.metadata.image.configs, core.log
        for change in changes:
            held = configs.get((ResourceType.CLIENT_METRICS, change.resource), {}).get(change.name)
            if held == change.value or log.start.end_offset == log.high_watermark:  # or a snapshot has covered it
                continue
            record = encode_config(change)
            if all(each != record for each in log.records(log.start.end_offset, log.high_watermark)):
                message = (
                    f"n{node} acknowledges {change.resource}={change.value}, which is not below its high watermark"
                )
                self._report("acknowledged-write", f"{message}, {log.high_watermark}", node)

    def reads(self, node: int, core: Node, settings: NodeSettings, committed_end: int) -> None:
        """A node answers a read that arrived when records below committed_end were known to be committed."""
        if settings.read_mode != "local" and core.metadata.applied_offset < committed_end:
            message = f"n{node} answers a read from the records below {core.metadata.applied_offset}"
            arrived = f"when it arrived, those below {committed_end} were committed"
            self._report("read-of-all-committed", f"{message}; {arrived}", node)
