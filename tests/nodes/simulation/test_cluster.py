"""What follows from the statuses of simulated nodes: who could be elected."""

from __future__ import annotations

import pytest

from harness.model.quorum_states import State
from nodes.simulation.cluster import NodeStatus, electable
from nodes.simulation.schedule import NOT_COMMITTED, NOT_ELECTABLE, NOT_ELECTABLE_OF_SAME, why_unrecovered


def node(voters: str, last_epoch: int, end: int, may_campaign: bool = True) -> NodeStatus:
    """A node that is Unattached. voters are one digit each."""
    known = {int(voter): -1 for voter in voters}
    log_end = {"log_end_offset": end, "last_epoch": last_epoch, "may_campaign": may_campaign}
    return NodeStatus(State.UNATTACHED, last_epoch, None, None, -1, voters=known, **log_end)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({1: node("123", 2, 9), 2: node("123", 2, 7), 3: node("123", 1, 20)}, [1, 2]),
        ({1: node("123", 2, 9), 3: node("123", 1, 20)}, [1]),
        ({1: node("123", 2, 9)}, []),
        ({1: node("1234", 1, 5), 2: node("1234", 1, 5)}, []),
        # n1 has appended that n2 votes alone, which n2 has not (EX-11)
        ({1: node("2", 1, 12, may_campaign=False), 2: node("12", 1, 10)}, []),
        # as the reference system has it: a voter that is being removed campaigns
        ({1: node("2", 1, 12), 2: node("12", 1, 10)}, [1]),
        # n1 could be elected by n3 and itself, though it is no voter of the others' logs
        ({1: node("123", 1, 5), 2: node("23", 1, 9), 3: node("123", 1, 5)}, [1, 2, 3]),
        ({}, []),
    ],
)
def test_nodes_that_could_be_elected(statuses: dict[int, NodeStatus], expected: list[int]) -> None:
    assert electable(statuses) == expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({1: node("123", 2, 9), 2: node("123", 2, 7)}, NOT_COMMITTED),
        ({1: node("2", 1, 12, may_campaign=False), 2: node("12", 1, 10)}, NOT_ELECTABLE),
        ({1: node("123", 2, 9)}, NOT_ELECTABLE_OF_SAME),
        # what an observer knows of the voters, here nothing, decides no election
        ({1: node("1234", 1, 5), 2: node("1234", 1, 5), 5: node("", 0, 0)}, NOT_ELECTABLE_OF_SAME),
    ],
)
def test_reason_for_which_a_quorum_does_not_recover(statuses: dict[int, NodeStatus], expected: str) -> None:
    assert why_unrecovered(statuses) == expected
