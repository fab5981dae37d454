"""Which replica a voter change names, by its directory id, where a node has had two disks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from harness.model import PeerFailure
from harness.model.faults.membership import VoterChange
from nodes.kafka.membership import _replica_of


@dataclass(frozen=True)
class State:
    """A replica of a DescribeQuorum response, as far as the choice reads it."""

    replica_id: int
    replica_directory_id: str
    last_fetch_timestamp: int


LEADER = State(1, "of n1", -1)
OLD, NEW = State(3, "old disk of n3", 100), State(3, "new disk of n3", 200)


@pytest.mark.parametrize(
    ("joins", "node", "voters", "observers", "chosen"),
    [
        (True, 3, (LEADER,), (NEW, OLD), NEW),
        (True, 3, (LEADER,), (OLD, NEW), NEW),
        (True, 3, (LEADER, OLD), (NEW,), NEW),
        (False, 3, (LEADER, OLD), (NEW,), OLD),
        (False, 1, (LEADER, OLD), (), LEADER),
        (False, 3, (LEADER,), (OLD, NEW), NEW),
    ],
    ids=[
        "the disk that fetches is added",
        "in any order",
        "also while the old one is a voter",
        "the voter is removed",
        "the leader is removed",
        "the removal of an observer, which is refused",
    ],
)
def test_the_voter_leaves_and_the_disk_that_fetches_joins(
    joins: bool, node: int, voters: tuple[State, ...], observers: tuple[State, ...], chosen: State
) -> None:
    assert _replica_of(VoterChange(node, joins), voters, observers) is chosen


def test_an_unknown_node_is_a_failure() -> None:
    with pytest.raises(PeerFailure, match="n4 becomes a voter: the leader knows no n4"):
        _replica_of(VoterChange(4, True), (LEADER,), (OLD,))
