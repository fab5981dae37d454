"""Conditions of a quorum that a run can wait for, by the names that stories use.

Each is a pure function of what the nodes last claimed and which state each last entered; some are about one node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.model.quorum_states import State
from harness.model.story import A_LEADER_IS_KNOWN, ALL_FOLLOW_ONE_LEADER
from nodes.observe.describe_quorum import QuorumDescription
from nodes.observe.log_lines import LogEvent


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The nodes as last seen: who claims to lead, and the last transition each logged."""

    nodes: tuple[int, ...]
    claims: Mapping[int, QuorumDescription]
    transitions: Mapping[int, LogEvent]

    def leader(self) -> int | None:
        """The node that claims to lead the highest epoch."""
        claims = [(answer.epoch or 0, node) for node, answer in self.claims.items()]
        return max(claims)[1] if claims else None


def a_leader_is_known(view: QuorumView) -> bool:
    """Some node answers as the leader, and its high watermark is known: it has committed in its epoch."""
    return any((answer.high_watermark or 0) > 0 for answer in view.claims.values())


def all_follow_one_leader(view: QuorumView) -> bool:
    """One node claims to lead and has committed; every other logged that it follows it in the same epoch."""
    leader = view.leader()
    if leader is None or not a_leader_is_known(view):
        return False
    epoch = view.claims[leader].epoch
    others = [view.transitions.get(node) for node in view.nodes if node != leader]
    return all(
        last is not None and (last.state, last.leader, last.epoch) == (State.FOLLOWER.value, leader, epoch)
        for last in others
    )


def all_follow(view: QuorumView, node: int) -> bool:
    """This node is the one leader that all follow."""
    return view.leader() == node and all_follow_one_leader(view)


def is_not_leader(view: QuorumView, node: int) -> bool:
    """A leader is known, and it is another node."""
    return a_leader_is_known(view) and view.leader() != node


def is_a_candidate(view: QuorumView, node: int) -> bool:
    """The last state that this node entered is Candidate."""
    last = view.transitions.get(node)
    return last is not None and last.state == State.CANDIDATE.value


CONDITIONS: Mapping[str, Callable[[QuorumView], bool]] = {
    A_LEADER_IS_KNOWN: a_leader_is_known,
    ALL_FOLLOW_ONE_LEADER: all_follow_one_leader,
}
OF_A_NODE: Mapping[str, Callable[[QuorumView, int], bool]] = {
    "all follow n#": all_follow,
    "n# stands aside": is_not_leader,
    "n# is a candidate": is_a_candidate,
}


def holds(condition: str, view: QuorumView) -> bool:
    """Whether the condition of this name holds; the names are those that harness.model.story makes."""
    if condition in CONDITIONS:
        return CONDITIONS[condition](view)
    node = int(re.findall(r"\bn(\d)\b", condition)[0])
    return OF_A_NODE[condition.replace(f"n{node}", "n#")](view, node)
