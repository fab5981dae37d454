"""What shows whether a node is a voter: a voter that loses its leader campaigns, an observer does not.

Contains the steps that take its leader from a node, and the events by which its role is judged. The scenarios of voter
changes use both.
"""

from __future__ import annotations

from harness.model.measures import Event, enters
from harness.model.quorum_states import State
from harness.model.story import Step, cut, heal, mark, seconds, sleep


def campaigns(node: int) -> tuple[Event, ...]:
    """What a voter does that loses its leader, and an observer never does."""
    return enters(State.PROSPECTIVE, node), enters(State.CANDIDATE, node)


def role_shows(node: int) -> tuple[Step, ...]:
    """Cut the node off for longer than a fetch timeout and an election timeout."""
    return mark(f"the role of n{node} shows"), cut(f"n{node}"), sleep(seconds(7)), heal(), sleep(seconds(3))
