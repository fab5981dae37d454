"""Conditions of the cluster that a story can wait for.

    wait_until(LEADER_KNOWN)        wait_until(all_follow(2))

In a plan file a condition is {"condition": {"name": "all_follow", "node": 2}}; one about a partition names it too:
{"condition": {"name": "leads_partition", "node": 1, "partition": "t-0"}}.

Contains names, values and their text. Evaluating a condition is the observer's job (harness.model.systems.Observer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Condition:
    """A named condition. node is the node that it concerns, None if it concerns the whole quorum; partition is the name
    of the partition that it concerns, e.g. t-0 for partition 0 of topic t, None if it concerns none. offset is a lower
    bound of what the condition is about, None if there is none; only those of WITH_OFFSET may have one."""

    name: str
    node: int | None = None
    partition: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        text = TEXTS[self.name].format(node=f"n{self.node}", partition=self.partition)
        return text if self.offset is None else f"{text}, at least {self.offset}"

    def to_json(self) -> dict[str, Any]:
        """The condition as it is stored in a plan."""
        fields = {"name": self.name, "node": self.node, "partition": self.partition, "offset": self.offset}
        return {name: value for name, value in fields.items() if value is not None}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Condition:
        """The condition that to_json describes."""
        return Condition(value["name"], value.get("node"), value.get("partition"), value.get("offset"))


TEXTS: Final[Mapping[str, str]] = {
    "leader_known": "a leader is known",
    "all_follow_leader": "all nodes follow one leader",
    "all_follow": "all nodes follow {node}",
    "is_not_leader": "another node than {node} leads",
    "responds": "{node} responds",
    "is_follower": "{node} is a follower",
    "is_unattached": "{node} is unattached",
    "is_prospective": "{node} is prospective",
    "is_candidate": "{node} is a candidate",
    "is_leader": "{node} has become a leader",
    "lost_election": "{node} follows the winner of an election in which it was a candidate",
    "any_lost_election": "a node follows the winner of an election in which it was a candidate",
    "a_node_is_behind": "a node has not reached the leader's epoch",
    "has_longest_log": "the log of {node} is longer than that of every other follower",
    "has_leaders_log": "the log of {node} ends where the leader's does",
    "caught_up": "every node that responds has caught up with the leader",
    "broker_live": "broker {node} is live",
    "brokers_live": "all brokers are live",
    "leads_partition": "{node} leads {partition}",
    "in_sync": "{node} is in sync in {partition}",
    "not_in_sync": "{node} is not in sync in {partition}",
    "partition_online": "{partition} has a leader",
    "partition_offline": "{partition} has no leader",
    "replication_settled": "{node} is in sync in {partition}, or its fetcher has failed there",
    "stored_high_watermark": "{node} has stored a high watermark of {partition}",
    "compacted": "{node} has compacted {partition}",
    "session_lost": "the session of broker {node} has ended",
}
"""The text of each condition by name. A condition whose text mentions a node or a partition needs one."""

OF_BROKERS: Final = (
    "broker_live",
    "brokers_live",
    "leads_partition",
    "in_sync",
    "not_in_sync",
    "partition_online",
    "partition_offline",
    "replication_settled",
    "stored_high_watermark",
    "compacted",
    "session_lost",
)
"""The conditions that only an observer of brokers can evaluate."""

WITH_OFFSET: Final = ("stored_high_watermark",)
"""The conditions that may have a lowest offset."""

LEADER_KNOWN: Final = Condition("leader_known")
ALL_FOLLOW_LEADER: Final = Condition("all_follow_leader")
CAUGHT_UP: Final = Condition("caught_up")
BROKERS_LIVE: Final = Condition("brokers_live")
ANY_LOST_ELECTION: Final = Condition("any_lost_election")
A_NODE_IS_BEHIND: Final = Condition("a_node_is_behind")
"""So it is when a leader that was cut off has been replaced."""


def needs_node(name: str) -> bool:
    """Whether the condition concerns one node."""
    return "{node}" in TEXTS[name]


def needs_partition(name: str) -> bool:
    """Whether the condition concerns one partition."""
    return "{partition}" in TEXTS[name]


def all_follow(node: int) -> Condition:
    """This node leads and every other follows it."""
    return Condition("all_follow", node)


def is_not_leader(node: int) -> Condition:
    """A leader is known, and it is another node."""
    return Condition("is_not_leader", node)


def lost_election(node: int) -> Condition:
    """This node was a Candidate in the epoch in which it follows another node."""
    return Condition("lost_election", node)


def has_longest_log(node: int) -> Condition:
    """The leader knows this voter's log to be longer than those of all other voters but its own."""
    return Condition("has_longest_log", node)


def has_leaders_log(node: int) -> Condition:
    """The leader knows this node's log to end where its own does, whether that is committed or not."""
    return Condition("has_leaders_log", node)


def responds(node: int) -> Condition:
    """This node has answered the last request of the observer."""
    return Condition("responds", node)


def is_follower(node: int) -> Condition:
    """This node is a Follower, of any leader."""
    return Condition("is_follower", node)


def is_unattached(node: int) -> Condition:
    """This node is Unattached."""
    return Condition("is_unattached", node)


def is_prospective(node: int) -> Condition:
    """This node is Prospective (KIP-996)."""
    return Condition("is_prospective", node)


def is_candidate(node: int) -> Condition:
    """This node is a Candidate."""
    return Condition("is_candidate", node)


def is_leader(node: int) -> Condition:
    """This node is a Leader, though others may not know it yet."""
    return Condition("is_leader", node)


def leads_partition(node: int, partition: str) -> Condition:
    """This broker leads the partition, and no other broker knows a later leader."""
    return Condition("leads_partition", node, partition)


def in_sync(node: int, partition: str) -> Condition:
    """This broker is among the in-sync replicas, as the partition's leader reports them.

    A partition without a leader keeps the last of them, until eligible leader replicas took their place (KIP-966).
    """
    return Condition("in_sync", node, partition)


def not_in_sync(node: int, partition: str) -> Condition:
    """This broker is not among the in-sync replicas, as the partition's leader reports them."""
    return Condition("not_in_sync", node, partition)


def partition_online(partition: str) -> Condition:
    """The partition has a leader, and no broker knows a later change of it."""
    return Condition("partition_online", partition=partition)


def partition_offline(partition: str) -> Condition:
    """The partition has no leader, and no broker knows a later one."""
    return Condition("partition_offline", partition=partition)


def replication_settled(node: int, partition: str) -> Condition:
    """This broker is in sync, or has logged since its start that it cannot append what it fetched."""
    return Condition("replication_settled", node, partition)


def stored_high_watermark(node: int, partition: str, offset: int | None = None) -> Condition:
    """This broker's high-watermark checkpoint has the partition, with an offset above 0, or at least this one."""
    return Condition("stored_high_watermark", node, partition, offset)


def compacted(node: int, partition: str) -> Condition:
    """This broker's cleaner has compacted the partition's log up to its active segment, which is never compacted."""
    return Condition("compacted", node, partition)


def broker_live(node: int) -> Condition:
    """The broker responds, and all brokers that respond list it: with KRaft it is not fenced."""
    return Condition("broker_live", node)


def session_lost(node: int) -> Condition:
    """The broker's session has ended: with ZooKeeper it is not registered, with KRaft the controller has fenced it."""
    return Condition("session_lost", node)
