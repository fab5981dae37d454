"""Random reassignments under random cuts, crashes and restarts: no invariant breaks, and none is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.reference.core.events import Assignment
from tests.nodes.reference.test_any_faults import act, load, stale_reads
from tests.support.nodes.quorum_simulation import Operation, Simulation, is_ok

NODES = st.integers(1, 6)
ACTIONS = st.one_of(
    st.tuples(st.just("reassign"), st.lists(NODES, max_size=5, unique=True)),
    st.tuples(st.just("reassign"), st.lists(NODES, min_size=1, max_size=5, unique=True)),
    st.tuples(st.sampled_from(["isolate", "crash", "stop", "restart"]), NODES),
    st.tuples(st.sampled_from(["cut", "cut_one_way"]), NODES, NODES),
    st.tuples(st.just("heal")),
)
SWITCHES: dict[str, Mapping[str, Any]] = {
    "defaults": {},
    "lease": {"read_mode": "lease"},
    "in order": {"promotion": "in-order"},
    "observer based": {"promotion": "observer-based"},
}
STEPS = st.lists(st.tuples(ACTIONS, st.integers(1, 3_000)), min_size=1, max_size=12)


def reassign(quorum: Simulation, voters: list[int]) -> list[Operation]:
    """A request to each node that considers itself the leader; without voters, the cancellation."""
    leaders = [node for node, member in quorum.members.items() if member.node and member.node.leader_id == node]
    return [quorum.reassign(node, *voters) for node in leaders]


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@settings(
    max_examples=settings.default.max_examples // 10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 1_000), steps=STEPS)
def test_random_faults_and_reassignments_break_nothing(
    switches: Mapping[str, Any], seed: int, steps: list[Any]
) -> None:
    quorum = Simulation(seed=seed, observers=3, voter_changes="kip-642", **switches)
    writes: list[Operation] = []
    reads: list[Operation] = []
    reassignments: list[Operation] = []
    load(quorum, 3_000, writes, reads)
    for action, duration_ms in steps:
        if action[0] == "reassign":
            reassignments += reassign(quorum, action[1])
        else:
            act(quorum, action)
        load(quorum, duration_ms, writes, reads)
    quorum.heal()
    for node, member in quorum.members.items():
        if member.node is None:
            quorum.restart(node)
    quorum.run(8_000)
    last = quorum.reassign(quorum.elect(), 2, 4, 6)
    reached = Assignment((2, 4, 6))
    quorum.run_until(lambda: all(m.node and m.node.voters.last.assignment == reached for m in quorum.members.values()))
    load(quorum, 100, writes, reads)
    quorum.run(2_000)
    assert quorum.violations == []
    assert stale_reads(quorum, writes, reads) == []
    assert is_ok(writes[-1]), f"no progress after all faults were healed: {quorum.describe()}"
    written = {assignment.target for assignment in quorum.assignments(quorum.elect())}
    accepted = [each for each in [*reassignments, last] if each.response and each.response.error is ErrorCode.none]
    assert {sorted_or_none(each.request.voters) for each in accepted} <= written | {(1, 2, 3)}


def sorted_or_none(voters: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The target that a request writes."""
    return None if voters is None else tuple(sorted(voters))
