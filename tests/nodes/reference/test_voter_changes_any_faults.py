"""Random changes of single voters under random cuts, crashes, restarts and lost disks: no invariant breaks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.reference.core.messages import ReplicaKey
from tests.nodes.reference.test_any_faults import act, load, stale_reads
from tests.support.nodes.quorum_simulation import Operation, Simulation, is_ok
from tests.support.nodes.voter_changes import add, formatted, key, outcome, remove, replace_disk, run_until_voters

NODES = st.integers(1, 6)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["add", "remove"]), NODES),
    st.tuples(st.sampled_from(["add", "remove"]), NODES),
    st.tuples(st.sampled_from(["isolate", "crash", "stop", "restart"]), NODES),
    st.tuples(st.sampled_from(["cut", "cut_one_way"]), NODES, NODES),
    st.tuples(st.just("heal")),
)
SWITCHES: dict[str, Mapping[str, Any]] = {
    "defaults": {},
    "lease": {"read_mode": "lease"},
    "without pre-votes": {"pre_vote": False},
}
STEPS = st.lists(st.tuples(ACTIONS, st.integers(1, 3_000)), min_size=1, max_size=14)


def change(quorum: Simulation, action: str, replica: ReplicaKey) -> list[Operation]:
    """A request to each node that considers itself the leader."""
    leaders = [node for node, member in quorum.members.items() if member.node and member.node.leader_id == node]
    request = add if action == "add" else remove
    return [request(quorum, leader, replica) for leader in leaders]


def healed(quorum: Simulation) -> None:
    """Remove all faults, and let the quorum recover."""
    quorum.heal()
    for node, member in quorum.members.items():
        if member.node is None:
            quorum.restart(node)
    quorum.run(8_000)


def until_done(quorum: Simulation, action: str, replica: ReplicaKey) -> None:
    """Repeat a change until it is done or is found to be."""
    done = {ErrorCode.none, ErrorCode.duplicate_voter if action == "add" else ErrorCode.voter_not_found}
    request = add if action == "add" else remove
    errors = []
    while not done & set(errors):
        errors.append(outcome(quorum, request(quorum, quorum.elect(), replica)))
        quorum.run(500)
        assert len(errors) < 20, f"{action} {replica}: {errors} {quorum.describe()}"


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@settings(
    max_examples=settings.default.max_examples // 10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 1_000), steps=STEPS)
def test_random_faults_and_voter_changes_break_nothing(
    switches: Mapping[str, Any], seed: int, steps: list[Any]
) -> None:
    quorum = formatted(seed=seed, **switches)
    writes: list[Operation] = []
    reads: list[Operation] = []
    changes: list[Operation] = []
    load(quorum, 3_000, writes, reads)
    for action, duration_ms in steps:
        if action[0] in ("add", "remove"):
            changes += change(quorum, action[0], key(action[1]))
        else:
            act(quorum, action)
        load(quorum, duration_ms, writes, reads)
    healed(quorum)
    for node in (2, 4, 6):
        until_done(quorum, "add", key(node))
    for node in (1, 3, 5):
        until_done(quorum, "remove", key(node))
    run_until_voters(quorum, key(2), key(4), key(6))
    load(quorum, 100, writes, reads)
    quorum.run(2_000)
    assert quorum.violations == []
    assert stale_reads(quorum, writes, reads) == []
    assert is_ok(writes[-1]), f"no progress after all faults were healed: {quorum.describe()}"
    sets = [set(assignment.keys) for assignment in quorum.assignments(quorum.elect())]
    assert all(len(before ^ after) <= 1 for before, after in itertools.pairwise(sets))
    for each in changes:
        if each.response is not None and each.response.error is ErrorCode.none:
            is_added = hasattr(each.request, "ack_when_committed")
            replica = each.request.voter.key if is_added else each.request.voter
            assert any((replica in after) is is_added for after in sets)


@settings(
    max_examples=settings.default.max_examples // 10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 1_000), lost=st.lists(st.integers(1, 3), min_size=1, max_size=4), pause_ms=st.integers(0, 3_000)
)
def test_disks_that_are_lost_one_after_another_lose_nothing(seed: int, lost: list[int], pause_ms: int) -> None:
    """A voter's disk is lost, and the quorum repaired as an operator does it, before the next one is."""
    quorum = formatted(seed=seed, observers=0)
    writes: list[Operation] = []
    reads: list[Operation] = []
    load(quorum, 3_000, writes, reads)
    current = {node: key(node) for node in (1, 2, 3)}
    for disk, node in enumerate(lost, start=2):
        quorum.crash(node)
        new = replace_disk(quorum, node, disk)
        load(quorum, pause_ms, writes, reads)
        quorum.restart(node)
        load(quorum, 3_000, writes, reads)
        until_done(quorum, "remove", current[node])
        until_done(quorum, "add", new)
        current[node] = new
    run_until_voters(quorum, *(current[node] for node in (1, 2, 3)))
    load(quorum, 100, writes, reads)
    quorum.run(2_000)
    assert quorum.violations == []
    assert stale_reads(quorum, writes, reads) == []
    assert is_ok(writes[-1]), quorum.describe()
