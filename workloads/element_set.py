"""A grow-only set in the quorum's metadata: each element is written once, so no later write hides that one was lost.

An element is a CLIENT_METRICS resource of its own, written and read like a register (workloads.register). The set has
KEYS parts, each a key of the history: element n belongs to part n modulo KEYS. A read asks for all elements of a part
that any client has begun to add, and returns those that exist; of a part without any, it asks for one that never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from harness.model import BadInput, Op
from workloads.register import ReadsAt, RegisterSession, read_of, read_of_its_key, write_of
from workloads.workload import ClusterAccess, Connect, MakeSession, Workload, WorkloadKind, WorkloadSpec

KEYS = 256


def operation(number: int, _random: int) -> Op:
    """Add the number."""
    return Op("invoke", "add", key=f"s{number % KEYS}", value=number)


def read(_number: int, random: int) -> Op:
    """A read of one of KEYS parts."""
    return Op("invoke", "read", key=f"s{random % KEYS}")


class Elements:
    """The elements that the clients of a run have begun to add."""

    def __init__(self) -> None:
        self._parts: dict[str, list[int]] = {}

    def begin(self, part: str, element: int) -> None:
        """A client is about to add the element."""
        self._parts.setdefault(part, []).append(element)

    def of(self, part: str) -> Sequence[int]:
        """The elements of a part that may exist."""
        return self._parts.get(part, ())


class SetSession(RegisterSession):
    """harness.model.session.Session: adds elements, and reads parts of the set."""

    def __init__(
        self, elements: Elements, nodes: Sequence[int], connect: Connect, process: int, reads_at: ReadsAt
    ) -> None:
        super().__init__(nodes, connect, process, reads_at)
        self._elements = elements

    async def invoke(self, op: Op) -> Op:
        """Send one request."""
        if op.f == "add":
            self._elements.begin(str(op.key), op.value)
        return await super().invoke(op)

    def _write_request(self, op: Op) -> IncrementalAlterConfigsRequest:
        return write_of([f"e{op.value}"], op.value)

    def _read_request(self, op: Op) -> DescribeConfigsRequest:
        return read_of([f"e{element}" for element in self._elements.of(str(op.key))] or [str(op.key)])

    def _returned(self, values: Sequence[Any]) -> Any:
        return [value for value in values if value is not None]


def sessions(reads_at: ReadsAt) -> MakeSession:
    """Makes the sessions of a run, which share the elements that it adds."""
    elements = Elements()

    def make(access: ClusterAccess, process: int) -> SetSession:
        return SetSession(elements, access.controllers, access.connect, process, reads_at)

    return make


def element_set(spec: WorkloadSpec) -> Workload:
    """The workload. Raises BadInput for a system that has no registers in its metadata."""
    reads_at: ReadsAt | None = spec.clients.get("set") if spec.layout != "zookeeper" else None
    if reads_at is None:
        raise BadInput(f"workload set: --system {spec.system} --layout {spec.layout} has no registers in its metadata")
    check = "set" if reads_at == "leader" else "promised-set"
    return Workload(
        name="set",
        summary=f"a set of numbers, judged by the check {check}",
        checks=(check,),
        operation=operation,
        read=read,
        final_operations=tuple(Op("invoke", "read", key=f"s{part}") for part in range(KEYS)),
        make_session=sessions(reads_at),
        question=read_of_its_key,
        can_pin=True,
        final_reads_lag=reads_at == "any node",
        final_reads_once=reads_at == "leader",
    )


SET = WorkloadKind("set", "a set: each number is added once, and all are read at the end", element_set)
