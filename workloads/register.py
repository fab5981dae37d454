"""Registers in the quorum's metadata: written by IncrementalAlterConfigs, read by DescribeConfigs.

A key is a CLIENT_METRICS resource (KIP-714), which may have any name; its register is the resource's `metrics`, which
may have any text. Controllers serve both requests from 3.7 on (KIP-919). Written values are unique, so every read
identifies its write.

With the option keys=hot-and-cold half of the operations use cold keys. The KEYS hot keys are overwritten so fast that a
write which was lost is rarely read; but only on them do many operations of one key overlap. A cold key is written once
on average, within WRITES_A_KEY operations, and then not again for COLD_KEYS times as many. Every read of a cold key
selects any of those written so far, so what a leader has lost is read seconds later, and all keys at the end. A write
whose outcome is unknown is followed by reads of its key.

With the option batches=large some operations use a batch: a register that is stored in BATCH resources. One request
writes all of them, atomically (IncrementalAlterConfigs), and one reads them. If they differ, the read returns the list
of what they have, which nobody wrote, so the check finds it.

The guarantee of a read depends on the system: a leader of the reference quorum proves that it leads before it responds;
a Kafka controller responds from its own metadata image, which may lag.

    session = RegisterSession(nodes=[1, 2, 3], connect=connect, process=0, reads_at="leader")
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kio.schema.describe_configs.v4 import request as read_request
from kio.schema.describe_configs.v4.response import DescribeConfigsResult
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as write_request
from kio.static.primitive import i8

from harness.model import BadInput, Op
from harness.model.session import Connection, NotSent
from workloads.workload import Connect, MakeSession, OpFunction, Workload, WorkloadKind, WorkloadSpec

CLIENT_METRICS = i8(16)
CONFIG = "metrics"
SET = i8(0)
KEYS = 8
COLD_KEYS = 1024
WRITES_A_KEY = 4
"""Of as many operations, one writes a cold key on average: half of them are writes, and half of these use cold keys."""
HOT, HOT_AND_COLD = "hot", "hot-and-cold"
BATCHES = 4
BATCH = 200
"""The resources of a batch: its write is a record batch of about 8 KiB."""
BATCH_SHARE = 32
"""One operation in so many uses a batch."""
NO, LARGE = "no", "large"
TIMEOUT_MS = 1000
"""Shorter than the time after which a deposed leader resigns, so writers move on while readers still call it."""
REJECTED_SECONDS = 0.25
"""The pause of a session that has one node only after an operation that did not succeed there. Without it the quick
rejections of followers would use up most of the load."""

ReadsAt = Literal["leader", "any node"]


def operation(number: int, random: int) -> Op:
    """The number-th operation: a read or a write of one of KEYS keys, selected by random; number is the value."""
    key = f"r{random % KEYS}"
    if (random // KEYS) % 2:
        return Op("invoke", "read", key=key)
    return Op("invoke", "write", key=key, value=number)


def read(_number: int, random: int) -> Op:
    """A read of one of KEYS keys."""
    return Op("invoke", "read", key=f"r{random % KEYS}")


def mixed_operation(number: int, random: int) -> Op:
    """As operation, of a hot or a cold key."""
    return _hot_or_cold(operation(number, random), number, random)


def mixed_read(number: int, random: int) -> Op:
    """As read, of a hot or a cold key."""
    return _hot_or_cold(read(number, random), number, random)


def _hot_or_cold(op: Op, number: int, random: int) -> Op:
    """Half of the operations as they are, the others on a cold key: a write on the newest, a read on any so far."""
    is_cold, place = (random // (2 * KEYS)) % 2, random // (4 * KEYS)
    if not is_cold:
        return op
    newest = number // WRITES_A_KEY
    cold = newest % COLD_KEYS if op.f == "write" else place % min(newest + 1, COLD_KEYS)
    return Op("invoke", op.f, key=f"c{cold}", value=op.value)


def with_batches(function: OpFunction) -> OpFunction:
    """The operations of function, some of them on a batch instead of its key."""

    def operation_or_batch(number: int, random: int) -> Op:
        op, place = function(number, random), random >> 48  # the bits that select keys are lower
        is_batch = place % BATCH_SHARE == 0
        return Op("invoke", op.f, key=f"b{place // BATCH_SHARE % BATCHES}", value=op.value) if is_batch else op

    return operation_or_batch


def resources_of(key: str) -> list[str]:
    """The resources that store a register: those of a batch, or one of the key's name."""
    return [f"{key}.{number}" for number in range(BATCH)] if key.startswith("b") else [key]


def read_of_its_key(op: Op) -> Op | None:
    """The read that shows whether a write took effect; None for a read."""
    return None if op.f == "read" else Op("invoke", "read", key=op.key)


class RegisterSession:
    """harness.model.session.Session: one process's connections, and the node that it considers the leader."""

    def __init__(self, nodes: Sequence[int], connect: Connect, process: int, reads_at: ReadsAt) -> None:
        self._nodes = nodes
        self._connect = connect
        self._connections: dict[int, Connection] = {}
        self._leader = nodes[process % len(nodes)]
        self._reader = self._leader
        self._reads_at = reads_at

    async def invoke(self, op: Op) -> Op:
        """Send one request, without retries: a retry would be another operation."""
        node = self._reader if op.f == "read" and self._reads_at == "any node" else self._leader
        at_node = Op("invoke", op.f, op.process, op.key, op.value, node)
        try:
            done = await (self._read(at_node) if op.f == "read" else self._write(at_node))
        except NotSent as error:
            self._move_from(node)
            done = at_node.fail(str(error))
        if done.type != "ok" and len(self._nodes) == 1:
            await asyncio.sleep(REJECTED_SECONDS)
        return done

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def _write(self, op: Op) -> Op:
        assert op.node is not None
        response = await self._connection(op.node).call(self._write_request(op), TIMEOUT_MS)
        refused = refusal_of(response)
        return op.ok() if refused is None else self._rejected(op, *refused)

    async def _read(self, op: Op) -> Op:
        assert op.node is not None
        response = await self._connection(op.node).call(self._read_request(op), TIMEOUT_MS)
        refused = refusal_of(response)
        return op.ok(self._returned(values_of(response))) if refused is None else self._rejected(op, *refused)

    def _write_request(self, op: Op) -> write_request.IncrementalAlterConfigsRequest:
        return write_of(resources_of(str(op.key)), op.value)

    def _read_request(self, op: Op) -> read_request.DescribeConfigsRequest:
        return read_of(resources_of(str(op.key)))

    def _returned(self, values: Sequence[Any]) -> Any:
        """What a read returns, by the values of the resources that its request named; None for one without a value."""
        return values[0] if all(value == values[0] for value in values) else list(values)

    def _rejected(self, op: Op, error: ErrorCode, message: str) -> Op:
        """The end of an op after an error response."""
        assert op.node is not None
        self._move_from(op.node, _controller_in(message))
        return rejected(op, error, message)

    def _move_from(self, node: int, leader: int | None = None) -> None:
        """Use another node for the next operation."""
        following = self._nodes[(self._nodes.index(node) + 1) % len(self._nodes)]
        if node == self._leader:
            self._leader = leader if leader in self._nodes and leader is not None else following
        if node == self._reader:
            self._reader = following

    def _connection(self, node: int) -> Connection:
        if node not in self._connections:
            self._connections[node] = self._connect(node)
        return self._connections[node]


def refusal_of(response: Any) -> tuple[ErrorCode, str] | None:
    """The first error of a response to write_of or read_of, and its message; None if there is none."""
    results = response.results if hasattr(response, "results") else response.responses
    refused = next((each for each in results if each.error_code is not ErrorCode.none), None)
    return None if refused is None else (refused.error_code, refused.error_message or "")


def rejected(op: Op, error: ErrorCode, message: str) -> Op:
    """The end of an op after an error response. NOT_CONTROLLER with the active controller's id had no effect.

    A controller that loses its leadership sends NOT_CONTROLLER without an id also for writes that it has already
    appended (QuorumController.renounce); such a write may still be committed.
    """
    has_no_effect = error is ErrorCode.not_controller and _controller_in(message) is not None
    return op.fail(error.name) if op.f == "read" or has_no_effect else op.info(error.name)


def values_of(response: Any) -> list[Any]:
    """The values of the resources that a request of read_of named, None for one without a value."""
    return [_value_of(each) for each in response.results]


def _controller_in(message: str) -> int | None:
    found = re.search(r"active controller appears to be node (\d+)", message)
    return int(found.group(1)) if found else None


def write_of(names: Iterable[str], value: Any) -> write_request.IncrementalAlterConfigsRequest:
    """A request that sets the value of resources."""
    config = write_request.AlterableConfig(name=CONFIG, config_operation=SET, value=json.dumps(value))
    resources = tuple(
        write_request.AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=(config,))
        for name in names
    )
    return write_request.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def read_of(names: Iterable[str]) -> read_request.DescribeConfigsRequest:
    """A request for the values of resources; the response has them in the same order."""
    resources = tuple(
        read_request.DescribeConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=(CONFIG,)
        )
        for name in names
    )
    return read_request.DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)


def _value_of(result: DescribeConfigsResult) -> Any:
    text = next((config.value for config in result.configs if config.name == CONFIG), None)
    return json.loads(text) if text else None


@dataclass(frozen=True, slots=True)
class RegisterClient:
    """How a system serves the register workload: a session for each process, and the check that judges its reads.

    check is "register" where reads are linearizable, "promised-reads" where a node answers from its own state.
    has_batches tells whether one request reads all resources of a batch at one time.
    """

    make_session: MakeSession
    check: str
    has_batches: bool = False


def register(spec: WorkloadSpec) -> Workload:
    """The workload. Raises BadInput for a system that has no registers."""
    if spec.layout == "zookeeper":
        raise BadInput("workload register: --layout zookeeper has no registers, which are records of a KRaft quorum")
    client = spec.clients.get("register")
    if not isinstance(client, RegisterClient):
        raise BadInput(f"workload register: --system {spec.system} has no registers")
    has_batches = spec.options.get("batches") == LARGE
    if has_batches and not client.has_batches:
        raise BadInput(f"workload register: option batches: --system {spec.system} does not read batches atomically")
    return registers("register", client, spec.options.get("keys") == HOT_AND_COLD, has_batches)


def registers(name: str, client: RegisterClient, has_cold_keys: bool = False, has_batches: bool = False) -> Workload:
    """A workload of registers with this client."""
    operations, reads = (mixed_operation, mixed_read) if has_cold_keys else (operation, read)
    keys = [f"r{number}" for number in range(KEYS)]
    keys += [f"c{number}" for number in range(COLD_KEYS)] if has_cold_keys else []
    keys += [f"b{number}" for number in range(BATCHES)] if has_batches else []
    return Workload(
        name=name,
        summary=f"{len(keys)} registers, judged by the check {client.check}",
        checks=(client.check,),
        operation=with_batches(operations) if has_batches else operations,
        read=with_batches(reads) if has_batches else reads,
        final_operations=tuple(Op("invoke", "read", key=key) for key in keys),
        make_session=client.make_session,
        question=read_of_its_key if has_cold_keys else None,
        can_pin=True,
        final_reads_lag=client.check == "promised-reads",
        final_reads_once=has_cold_keys and client.check == "register",
    )


REGISTER = WorkloadKind(
    "register",
    "registers: reads and writes of unique values",
    register,
    {"keys": (HOT, HOT_AND_COLD), "batches": (NO, LARGE)},
)
