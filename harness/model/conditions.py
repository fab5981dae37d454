"""Conditions of the cluster that a story can wait for.

    wait_until(LEADER_KNOWN)        wait_until(all_follow(2))

In a plan file a condition is {"condition": {"name": "all_follow", "node": 2}}.

Contains names, values and their text. Evaluating a condition is the observer's job (harness.model.systems.Observer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Condition:
    """A named condition. node is the node that it concerns, None if it concerns the whole quorum."""

    name: str
    node: int | None = None

    def __str__(self) -> str:
        return TEXTS[self.name].format(node=f"n{self.node}")

    def to_json(self) -> dict[str, Any]:
        """The condition as it is stored in a plan."""
        return {"name": self.name} if self.node is None else {"name": self.name, "node": self.node}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Condition:
        """The condition that to_json describes."""
        return Condition(value["name"], value.get("node"))


TEXTS: Final[Mapping[str, str]] = {
    "leader_known": "a leader is known",
    "all_follow_leader": "all nodes follow one leader",
    "all_follow": "all nodes follow {node}",
    "is_not_leader": "another node than {node} leads",
    "is_candidate": "{node} is a candidate",
    "lost_election": "{node} follows the winner of an election in which it was a candidate",
    "any_lost_election": "a node follows the winner of an election in which it was a candidate",
    "caught_up": "every node that responds has caught up with the leader",
}
"""The text of each condition by name. A condition whose text mentions a node needs one."""

LEADER_KNOWN: Final = Condition("leader_known")
ALL_FOLLOW_LEADER: Final = Condition("all_follow_leader")
CAUGHT_UP: Final = Condition("caught_up")
ANY_LOST_ELECTION: Final = Condition("any_lost_election")


def needs_node(name: str) -> bool:
    """Whether the condition concerns one node."""
    return "{node}" in TEXTS[name]


def all_follow(node: int) -> Condition:
    """This node leads and every other follows it."""
    return Condition("all_follow", node)


def is_not_leader(node: int) -> Condition:
    """A leader is known, and it is another node."""
    return Condition("is_not_leader", node)


def lost_election(node: int) -> Condition:
    """This node was a Candidate in the epoch in which it follows another node."""
    return Condition("lost_election", node)


def is_candidate(node: int) -> Condition:
    """This node is a Candidate."""
    return Condition("is_candidate", node)
