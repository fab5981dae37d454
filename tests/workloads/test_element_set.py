"""The set workload: which elements a read asks for, and what it returns."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import BadInput, Op
from harness.systems.kafka import KAFKA
from harness.systems.reference import REFERENCE
from workloads.element_set import KEYS, Elements, SetSession, element_set, operation, read
from workloads.workload import WorkloadSpec

READ = Op("invoke", "read", 4, "s1")


def add(element: int) -> Op:
    return Op("invoke", "add", 4, f"s{element % KEYS}", element)


class FakeNode:
    """A node that keeps what it is told, apart from the names in `loses`."""

    def __init__(self, loses: tuple[str, ...] = ()) -> None:
        self.loses = loses
        self.values: dict[str, str] = {}
        self.asked: list[list[str]] = []

    async def call(self, request: Any, _timeout_ms: int) -> Any:
        names = [resource.resource_name for resource in request.resources]
        if hasattr(request, "validate_only"):
            (resource,) = request.resources
            self.values |= {name: resource.configs[0].value for name in names if name not in self.loses}
            return SimpleNamespace(responses=(SimpleNamespace(error_code=ErrorCode.none, error_message=None),))
        self.asked.append(names)
        return SimpleNamespace(results=tuple(self._result(name) for name in names))

    def _result(self, name: str) -> Any:
        config = SimpleNamespace(name="metrics", value=self.values.get(name, ""))
        return SimpleNamespace(error_code=ErrorCode.none, error_message=None, configs=(config,))


def invoked(node: FakeNode, *ops: Op) -> list[Op]:
    async def all_of_them() -> list[Op]:
        elements = Elements()
        sessions = [SetSession(elements, [1], lambda _node: node, process, "leader") for process in range(2)]
        return [await sessions[number % 2].invoke(op) for number, op in enumerate(ops)]

    return asyncio.run(all_of_them())


def test_read_returns_the_elements_of_its_part_that_exist() -> None:
    node = FakeNode(loses=(f"e{1 + KEYS}",))
    *added, done = invoked(node, add(1), add(2), add(1 + KEYS), add(1 + 2 * KEYS), READ)
    assert [op.type for op in added] == ["ok"] * 4
    assert node.asked == [["e1", f"e{1 + KEYS}", f"e{1 + 2 * KEYS}"]]
    assert done == Op("ok", "read", 4, "s1", [1, 1 + 2 * KEYS], node=1)


def test_read_of_a_part_without_elements_needs_a_node_too() -> None:
    """Otherwise a run whose nodes never answer would have reads that returned."""
    node = FakeNode()
    assert invoked(node, READ) == [Op("ok", "read", 4, "s1", [], node=1)]
    assert node.asked == [["s1"]]


def test_every_number_is_added_once_to_a_part_that_is_read_at_the_end() -> None:
    adds = [operation(number, 0) for number in range(3 * KEYS)]
    assert [op.value for op in adds] == list(range(3 * KEYS))
    parts = {op.key for op in adds}
    assert {read(0, number).key for number in range(KEYS)} == parts
    workload = element_set(WorkloadSpec("reference", clients=REFERENCE.clients))
    assert {op.key for op in workload.final_operations} == parts


def test_reads_of_a_nodes_own_state_show_a_loss_only_at_the_end() -> None:
    checks = {
        system.name: element_set(WorkloadSpec(system.name, clients=system.clients)).checks
        for system in (KAFKA, REFERENCE)
    }
    assert checks == {"kafka": ("promised-set",), "reference": ("set",)}


def test_final_reads_wait_where_nodes_answer_from_their_own_state() -> None:
    lags = {
        system.name: element_set(WorkloadSpec(system.name, clients=system.clients)).final_reads_lag
        for system in (KAFKA, REFERENCE)
    }
    assert lags == {"kafka": True, "reference": False}


@pytest.mark.parametrize(
    "spec", [WorkloadSpec("other"), WorkloadSpec("kafka:3.9.1", "zookeeper", KAFKA.clients)], ids=["other", "zookeeper"]
)
def test_system_without_a_metadata_quorum_is_refused(spec: WorkloadSpec) -> None:
    with pytest.raises(BadInput, match=f"workload set: --system {spec.system} --layout .* has no registers"):
        element_set(spec)
