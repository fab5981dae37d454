"""A register a key in the quorum's own metadata: written by IncrementalAlterConfigs, read by DescribeConfigs.

A key is a CLIENT_METRICS resource (KIP-714), which takes any name, and its register that resource's `metrics`, which
takes any text; controllers serve both requests from 3.7 on (KIP-919). Written values are unique, so every read names
its write.

Reads are asked of one node and answered as that node promises: a leader of the reference quorum proves that it leads
before it answers; a Kafka controller answers from its own image, late by whatever it lags.

    session = RegisterSession(nodes=[1, 2, 3], connect=connect, process=0, reads_at="leader")
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kio.schema.describe_configs.v4 import request as read_request
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as write_request
from kio.static.primitive import i8

from harness.model import BadInput, Op
from harness.model.session import Connection, NotSent
from workloads.workload import Connect, MakeSession, Workload, WorkloadKind, WorkloadSpec, refuse_options

CLIENT_METRICS = i8(16)
CONFIG = "metrics"
SET = i8(0)
KEYS = 8
TIMEOUT_MS = 1000
"""Shorter than the time in which a deposed leader notices, so that writers move on while readers still ask it."""

ReadsAt = Literal["leader", "any node"]


def operation(number: int, drawn: int) -> Op:
    """The number-th operation: on one of KEYS keys, a read or a write in turn by the draw; number is the value."""
    key = f"r{drawn % KEYS}"
    if (drawn // KEYS) % 2:
        return Op("invoke", "read", key=key)
    return Op("invoke", "write", key=key, value=number)


def read(_number: int, drawn: int) -> Op:
    """A read of one of KEYS keys."""
    return Op("invoke", "read", key=f"r{drawn % KEYS}")


class RegisterSession:
    """harness.model.session.Session: one process's connections and whom it takes for the leader."""

    def __init__(self, nodes: Sequence[int], connect: Connect, process: int, reads_at: ReadsAt) -> None:
        self._nodes = nodes
        self._connect = connect
        self._connections: dict[int, Connection] = {}
        self._leader = nodes[process % len(nodes)]
        self._reader = self._leader
        self._reads_at = reads_at

    async def invoke(self, op: Op) -> Op:
        """One request, never repeated: a retry would be another operation."""
        node = self._reader if op.f == "read" and self._reads_at == "any node" else self._leader
        at_node = Op("invoke", op.f, op.process, op.key, op.value, node)
        try:
            return await (self._read(at_node) if op.f == "read" else self._write(at_node))
        except NotSent as error:
            self._turn_from(node)
            return at_node.fail(str(error))

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _write(self, op: Op) -> Op:
        assert op.node is not None
        response = await self._connection(op.node).call(_write_request(op), TIMEOUT_MS)
        answer = response.responses[0]
        if answer.error_code is ErrorCode.none:
            return op.ok()
        return self._refused(op, answer.error_code, answer.error_message or "")

    async def _read(self, op: Op) -> Op:
        assert op.node is not None
        response = await self._connection(op.node).call(_read_request(op), TIMEOUT_MS)
        answer = response.results[0]
        if answer.error_code is not ErrorCode.none:
            return self._refused(op, answer.error_code, answer.error_message or "")
        text = next((config.value for config in answer.configs if config.name == CONFIG), None)
        return op.ok(json.loads(text) if text else None)

    def _refused(self, op: Op, error: ErrorCode, message: str) -> Op:
        """What a refusal means. NOT_CONTROLLER that names the active controller was said before anything was done.

        A controller that loses its leadership answers NOT_CONTROLLER to writes it has already appended, naming nobody
        (QuorumController.renounce): such a write may yet be committed.
        """
        assert op.node is not None
        named = re.search(r"active controller appears to be node (\d+)", message)
        self._turn_from(op.node, int(named.group(1)) if named else None)
        if op.f == "read" or (error is ErrorCode.not_controller and named):
            return op.fail(error.name)
        return op.info(error.name)

    def _turn_from(self, node: int, towards: int | None = None) -> None:
        """Ask another node next time."""
        following = self._nodes[(self._nodes.index(node) + 1) % len(self._nodes)]
        if node == self._leader:
            self._leader = towards if towards in self._nodes and towards is not None else following
        if node == self._reader:
            self._reader = following

    def _connection(self, node: int) -> Connection:
        if node not in self._connections:
            self._connections[node] = self._connect(node)
        return self._connections[node]


def _write_request(op: Op) -> write_request.IncrementalAlterConfigsRequest:
    config = write_request.AlterableConfig(name=CONFIG, config_operation=SET, value=json.dumps(op.value))
    resource = write_request.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=str(op.key), configs=(config,)
    )
    return write_request.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def _read_request(op: Op) -> read_request.DescribeConfigsRequest:
    resource = read_request.DescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=str(op.key), configuration_keys=(CONFIG,)
    )
    return read_request.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=False, include_documentation=False
    )


@dataclass(frozen=True, slots=True)
class RegisterClient:
    """How a system serves the register workload: a session for each process, and the check that judges its reads.

    check is "register" where reads are linearizable, "promised-reads" where a node answers from its own state.
    """

    make_session: MakeSession
    check: str


def register(spec: WorkloadSpec) -> Workload:
    """The workload. Raises BadInput for a system that has no registers."""
    refuse_options("register", spec)
    client = spec.clients.get("register")
    if not isinstance(client, RegisterClient):
        raise BadInput(f"workload register: --system {spec.system} has no registers")
    return registers("register", client)


def registers(name: str, client: RegisterClient) -> Workload:
    """A workload of registers with this client."""
    return Workload(
        name=name,
        summary=f"{KEYS} registers, judged by the check {client.check}",
        checks=(client.check,),
        operation=operation,
        read=read,
        final_operations=tuple(Op("invoke", "read", key=f"r{number}") for number in range(KEYS)),
        make_session=client.make_session,
    )


REGISTER = WorkloadKind("register", f"{KEYS} registers: reads and writes of unique values", register)
