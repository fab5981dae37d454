"""Which client processes are pinned to one node, and where pinned processes are refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model import BadInput
from harness.planning.plan import Plan, Request, checked
from harness.planning.workloads import access_of, workload_of
from workloads.workload import ClusterAccess


def plan_with(**fields: Any) -> Plan:
    return Plan.model_validate({"name": "pins", "seed": 1, "story": [], "workload": "register", **fields})


def nodes_of(plan: Plan, nodes: int) -> list[tuple[int, ...]]:
    """The nodes that each of the first processes reaches."""
    access = ClusterAccess(
        lambda _: pytest.fail("connected"), range(1, nodes + 1), {}, lambda _: pytest.fail("dialled")
    )
    return [tuple(access_of(plan, access, process).controllers) for process in range(plan.concurrency)]


@pytest.mark.parametrize(("nodes", "free"), [(3, 6), (5, 6), (4, 0), (3, 2)])
def test_two_pinned_processes_for_each_node_are_a_reader_and_a_writer(nodes: int, free: int) -> None:
    plan = plan_with(concurrency=2 * nodes + free, pinned=2 * nodes)
    reached = nodes_of(plan, nodes)
    readers, writers = reached[: plan.concurrency // 2], reached[plan.concurrency // 2 :]
    for each in (readers, writers):
        assert sorted(found for found in each if len(found) == 1) == [(node,) for node in range(1, nodes + 1)]
    assert sum(len(found) == nodes for found in reached) == free


def test_process_that_follows_a_crashed_one_is_pinned_to_the_same_node() -> None:
    plan = plan_with(concurrency=6, pinned=3)
    access = ClusterAccess(lambda _: pytest.fail("connected"), [1, 2, 4], {2: "a", 4: "b"}, lambda _: pytest.fail("x"))
    pinned = {access_of(plan, access, process).controllers for process in (2, 8, 14)}
    assert pinned == {(2,)}
    assert access_of(plan, access, 2).addresses == {2: "a"}


def test_without_pinned_processes_all_reach_every_node() -> None:
    assert nodes_of(plan_with(), 3) == [(1, 2, 3)] * 6


def test_more_pinned_processes_than_processes_are_refused() -> None:
    with pytest.raises(BadInput, match="--pinned: expected at most --concurrency, 6, found 7"):
        checked(Request, {"pinned": 7})


@pytest.mark.parametrize("workload", ["idle", "log", "transactions"])
def test_workload_without_clients_that_can_be_pinned_is_refused(workload: str) -> None:
    plan = plan_with(system="kafka:4.3.1", layout="combined", workload=workload, pinned=1)
    with pytest.raises(BadInput, match=f"--pinned: workload {workload} has no clients"):
        workload_of(plan)
