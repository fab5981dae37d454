"""Evaluates the conditions of harness.model.conditions on what a KRaft quorum's nodes last reported.

Each condition is a pure function of the nodes' claims, of the states that they last entered, and of brokers' reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from harness.model.conditions import Condition
from harness.model.quorum_states import State
from nodes.observe.brokers import partitions
from nodes.observe.brokers.partitions import PartitionsView
from nodes.observe.describe_quorum import QuorumDescription
from nodes.observe.log_lines import LogEvent


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The nodes as last seen: claims to lead, last logged transitions, and who responded to the last poll.

    stood maps nodes to the last epoch in which they were candidates. brokers is what those among the nodes reported.
    """

    nodes: tuple[int, ...]
    claims: Mapping[int, QuorumDescription]
    transitions: Mapping[int, LogEvent]
    responding: frozenset[int] = frozenset()
    stood: Mapping[int, int] = field(default_factory=dict)
    brokers: PartitionsView = field(default_factory=PartitionsView)

    def leader(self) -> int | None:
        """The node that claims to lead in the highest epoch."""
        claims = [(answer.epoch or 0, node) for node, answer in self.claims.items()]
        return max(claims)[1] if claims else None


def leader_known(view: QuorumView) -> bool:
    """Some node answers as the leader and knows its high watermark: it has committed in its epoch."""
    return any((answer.high_watermark or 0) > 0 for answer in view.claims.values())


def all_follow_leader(view: QuorumView) -> bool:
    """One node claims to lead and has committed; every other logged that it follows that node in the same epoch."""
    leader = view.leader()
    if leader is None or not leader_known(view):
        return False
    epoch = view.claims[leader].epoch
    others = [view.transitions.get(node) for node in view.nodes if node != leader]
    return all(
        last is not None and (last.state, last.leader, last.epoch) == (State.FOLLOWER.value, leader, epoch)
        for last in others
    )


def all_follow(view: QuorumView, node: int) -> bool:
    """This node is the leader that all follow."""
    return view.leader() == node and all_follow_leader(view)


def is_not_leader(view: QuorumView, node: int) -> bool:
    """A leader is known, and it is another node."""
    return leader_known(view) and view.leader() != node


def is_in(state: State, view: QuorumView, node: int) -> bool:
    """The last state that this node entered is this one."""
    last = view.transitions.get(node)
    return last is not None and last.state == state.value


def lost_election(view: QuorumView, node: int) -> bool:
    """This node follows another in the last epoch in which it was a candidate."""
    last = view.transitions.get(node)
    return last is not None and last.state == State.FOLLOWER.value and last.epoch == view.stood.get(node)


def has_longest_log(view: QuorumView, node: int) -> bool:
    """The leader knows this voter's log to reach further than those of all other voters but its own."""
    leader = view.leader()
    ends = dict(view.claims[leader].voters) if leader is not None else {}
    others = [end for voter, end in ends.items() if voter not in (leader, node)]
    return node in ends and ends[node] > max(others, default=-1)


def has_leaders_log(view: QuorumView, node: int) -> bool:
    """The leader knows the log of this voter or observer to end where its own does."""
    leader = view.leader()
    if leader is None:
        return False
    claim = view.claims[leader]
    ends = dict((*claim.voters, *claim.observers))
    return node in ends and ends[node] == claim.log_end_offset


def session_lost(view: QuorumView, node: int) -> bool:
    """The controller has fenced this broker, as far as the other brokers know."""
    return partitions.is_fenced(node, view.brokers)


def brokers_live(view: QuorumView) -> bool:
    """Every broker responds, and takes all for live."""
    return partitions.all_live(view.brokers)


def any_lost_election(view: QuorumView) -> bool:
    """Some node follows another in the last epoch in which it was a candidate."""
    return any(lost_election(view, node) for node in view.nodes)


def a_node_is_behind(view: QuorumView) -> bool:
    """Some node last entered a state of an epoch before the leader's."""
    leader = view.leader()
    if leader is None:
        return False
    last = [view.transitions.get(node) for node in view.nodes]
    return any(each is not None and (each.epoch or 0) < (view.claims[leader].epoch or 0) for each in last)


OF_QUORUM: Mapping[str, Callable[[QuorumView], bool]] = {
    "leader_known": leader_known,
    "all_follow_leader": all_follow_leader,
    "any_lost_election": any_lost_election,
    "a_node_is_behind": a_node_is_behind,
    "brokers_live": brokers_live,
}
OF_NODE: Mapping[str, Callable[[QuorumView, int], bool]] = {
    "all_follow": all_follow,
    "is_not_leader": is_not_leader,
    "has_longest_log": has_longest_log,
    "has_leaders_log": has_leaders_log,
    "responds": lambda view, node: node in view.responding,
    "is_follower": partial(is_in, State.FOLLOWER),
    "is_unattached": partial(is_in, State.UNATTACHED),
    "is_prospective": partial(is_in, State.PROSPECTIVE),
    "is_candidate": partial(is_in, State.CANDIDATE),
    "is_leader": partial(is_in, State.LEADER),
    "lost_election": lost_election,
    "session_lost": session_lost,
}


def holds(condition: Condition, view: QuorumView) -> bool:
    """Whether the condition holds."""
    if condition.name in OF_QUORUM:
        return OF_QUORUM[condition.name](view)
    if condition.name in OF_NODE:
        assert condition.node is not None, f"{condition.name} is about a node"
        return OF_NODE[condition.name](view, condition.node)
    return partitions.holds(condition, view.brokers)
