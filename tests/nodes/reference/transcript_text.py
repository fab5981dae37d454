"""Messages and states in one short line each, for transcripts.

Contains pure functions from values to text.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from nodes.reference.core import messages
from nodes.reference.core.events import Assignment
from nodes.reference.core.roles.states import Candidate, Follower, Leader, Prospective, QuorumState, Resigned
from nodes.reference.core.settings import NEVER_MS
from nodes.wire.batches import heads


def named(message: messages.Request | messages.Response) -> str:
    """`Vote`, `PreVote`, `FetchResponse` …"""
    if isinstance(message, messages.VoteRequest):
        return "PreVote" if message.pre_vote else "Vote"
    return type(message).__name__.removesuffix("Request")


def show_message(message: messages.Request | messages.Response) -> str:
    """The name and what matters to an election or to replication."""
    return " ".join([named(message), *_words(message)])


def show_assignment(assignment: Assignment) -> str:
    """`voters=1,2,3`, with a target `voters=1,2,3→4,5,6`."""
    target = "" if assignment.target is None else f"→{_ids(assignment.target)}"
    return f"voters={_ids(assignment.current)}{target}"


def show_state(state: QuorumState, now_ms: int) -> str:
    """The state, its epoch, its leader, its vote and its timer, and the votes it counts."""
    timer = [] if state.deadline_ms >= NEVER_MS else [f"timer={state.deadline_ms - now_ms}"]
    shown = [state.kind.value, f"epoch={state.epoch}", f"leader={_id(state.leader_id)}", f"vote={_id(state.voted_id)}"]
    return " ".join([*shown, *timer, *_details(state)])


def _details(state: QuorumState) -> list[str]:
    match state:
        case Follower(has_fetched=has_fetched):
            return [f"fetched={'yes' if has_fetched else 'no'}"]
        case Prospective() | Candidate():
            backing_off = ["backing-off"] if isinstance(state, Candidate) and state.is_backing_off else []
            return [f"granted={_ids(state.granted)}", f"rejected={_ids(state.rejected)}", *backing_off]
        case Resigned(unacknowledged=unacknowledged):
            return [f"unacknowledged={_ids(unacknowledged)}"]
        case Leader(start_offset=start_offset):
            return [f"start={start_offset}"]
    return []


def _words(message: messages.Request | messages.Response) -> list[str]:
    match message:
        case messages.VoteRequest():
            return [f"epoch={message.replica_epoch}", f"log={message.last_epoch}:{message.end_offset}"]
        case messages.BeginQuorumEpochRequest():
            return [f"epoch={message.epoch}", f"leader={message.leader_id}"]
        case messages.EndQuorumEpochRequest():
            return [f"epoch={message.epoch}", f"leader={message.leader_id}", f"successors={_ids(message.successors)}"]
        case messages.FetchRequest():
            return [f"epoch={message.epoch}", f"log={message.last_fetched_epoch}:{message.fetch_offset}"]
        case messages.VoteResponse():
            return [*_known(message), "granted" if message.granted else "rejected"]
        case messages.EpochResponse():
            return _known(message)
        case messages.FetchResponse():
            return [*_known(message), f"hw={message.high_watermark}", *_replicated(message)]
        case messages.ReassignRequest():
            return ["voters=-" if message.voters is None else f"voters={_ids(message.voters)}"]
        case messages.ReassignResponse():
            return ["ok" if message.error is ErrorCode.none else f"error={message.error.name}"]
        case messages.DiscoverRequest() | messages.DiscoverResponse():
            known = [f"n{each.node_id}" for each in message.brokers]
            leader = None if message.leader_id == messages.NO_NODE else message.leader_id
            error = (
                [f"error={message.error.name}"]
                if getattr(message, "error", ErrorCode.none) is not ErrorCode.none
                else []
            )
            return [f"knows={','.join(known) or '-'}", f"epoch={message.epoch}", f"leader={_id(leader)}", *error]
        case messages.DescribeQuorumResponse():
            voters = [f"n{each.replica_id}:{each.end_offset}" for each in message.voters]
            observers = [f"observer n{each.replica_id}:{each.end_offset}" for each in message.observers]
            target = [] if message.target is None else [f"target={_ids(each.replica_id for each in message.target)}"]
            return [*_known(message), f"hw={message.high_watermark}", *voters, *observers, *target]
    return []


_Known = messages.VoteResponse | messages.EpochResponse | messages.FetchResponse | messages.DescribeQuorumResponse


def _known(response: _Known) -> list[str]:
    """The epoch and the leader that a response names, and its error."""
    leader = None if response.leader_id == messages.NO_NODE else response.leader_id
    error = [] if response.error is ErrorCode.none else [f"error={response.error.name}"]
    return [f"epoch={response.epoch}", f"leader={_id(leader)}", *error]


def _replicated(response: messages.FetchResponse) -> list[str]:
    if response.diverging is not None:
        return [f"diverging={response.diverging.epoch}:{response.diverging.end_offset}"]
    return [f"batch={head.leader_epoch}:{head.base_offset}-{head.last_offset}" for head in heads(response.data)]


def _id(node: int | None) -> str:
    return "-" if node is None else str(node)


def _ids(nodes: Iterable[int]) -> str:
    listed = list(nodes) if isinstance(nodes, tuple) else sorted(nodes)
    return ",".join(map(str, listed)) or "-"
