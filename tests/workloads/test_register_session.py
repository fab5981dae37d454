"""The register workload's session with fake connections: the op that follows from each response."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from harness.engine.randomness import draw
from harness.model import BadInput, Op
from harness.model.session import NoAnswer, NotSent
from harness.systems.kafka import KAFKA
from harness.systems.reference import REFERENCE
from workloads.register import (
    BATCH,
    BATCH_SHARE,
    BATCHES,
    COLD_KEYS,
    KEYS,
    REGISTER,
    REJECTED_SECONDS,
    WRITES_A_KEY,
    RegisterSession,
    mixed_operation,
    mixed_read,
    operation,
    register,
)
from workloads.workload import WorkloadSpec

WRITE = Op("invoke", "write", 4, "r1", 7)
READ = Op("invoke", "read", 4, "r1")
READ_WRITE = ("read", "write")
CONTROLLER_IS_3 = "The active controller appears to be node 3."
NO_CONTROLLER = "No controller appears to be active."


class FakeCluster:
    """Connections to nodes 1 to 3 with scripted responses; an exception among them is raised."""

    def __init__(self) -> None:
        self.responses = {1: [], 2: [], 3: []}
        self.called: list[int] = []
        self.closed: list[int] = []

    def connect(self, node):
        return SimpleNamespace(call=partial(self._call, node), close=partial(self._close, node))

    async def _call(self, node, _request, timeout_ms):
        assert timeout_ms > 0
        self.called.append(node)
        response = self.responses[node].pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    async def _close(self, node):
        self.closed.append(node)


def response_with(error=ErrorCode.none, message=None, configs=()):
    """A response to either request: the list is `responses` in one API and `results` in the other."""
    resource = SimpleNamespace(error_code=error, error_message=message, configs=configs)
    return SimpleNamespace(responses=(resource,), results=(resource,))


def value_response(value):
    return response_with(
        configs=(SimpleNamespace(name="interval.ms", value="5"), SimpleNamespace(name="metrics", value=value))
    )


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def invoke(cluster):
    """Invokes operations in order in one session of process 0, which starts with node 1."""

    def invoke(*ops, reads_at="leader"):
        session = RegisterSession([1, 2, 3], cluster.connect, 0, reads_at)

        async def run():
            return [await session.invoke(op) for op in ops]

        return asyncio.run(run())

    return invoke


def test_acknowledged_write_is_ok_with_its_node(cluster, invoke):
    cluster.responses[1] = [response_with()]
    assert invoke(WRITE) == [Op("ok", "write", 4, "r1", 7, node=1)]


@pytest.mark.parametrize(
    ("response", "value"),
    [(value_response("7"), 7), (value_response(""), None), (value_response(None), None), (response_with(), None)],
    ids=["value", "empty value", "null", "no such resource"],
)
def test_read_returns_the_value_or_none(cluster, invoke, response, value):
    cluster.responses[1] = [response]
    assert invoke(READ) == [Op("ok", "read", 4, "r1", value, node=1)]


def test_rejection_that_names_the_leader_fails_and_the_leader_is_called_next(cluster, invoke):
    cluster.responses = {1: [response_with(ErrorCode.not_controller, CONTROLLER_IS_3)], 2: [], 3: [response_with()]}
    rejected, done = invoke(WRITE, WRITE)
    assert (rejected.type, rejected.error, rejected.node) == ("fail", "not_controller", 1)
    assert (done.type, done.node) == ("ok", 3)


@pytest.mark.parametrize("message", [NO_CONTROLLER, None])
def test_rejection_that_names_no_leader_is_info_and_the_next_node_is_called(cluster, invoke, message):
    cluster.responses = {1: [response_with(ErrorCode.not_controller, message)], 2: [response_with()], 3: []}
    unknown, done = invoke(WRITE, WRITE)
    assert (unknown.type, unknown.error) == ("info", "not_controller")
    assert done.node == 2


def test_unknown_leader_is_not_called(cluster, invoke):
    cluster.responses = {
        1: [response_with(ErrorCode.not_controller, "active controller appears to be node 9")],
        2: [response_with()],
    }
    assert [op.node for op in invoke(WRITE, WRITE)] == [1, 2]


@pytest.mark.parametrize(
    "error", [ErrorCode.request_timed_out, ErrorCode.unknown_server_error, ErrorCode.not_controller]
)
def test_rejected_read_always_fails(cluster, invoke, error):
    cluster.responses[1] = [response_with(error, NO_CONTROLLER)]
    (rejected,) = invoke(READ)
    assert (rejected.type, rejected.error) == ("fail", error.name)


@pytest.mark.parametrize("error", [ErrorCode.request_timed_out, ErrorCode.unknown_server_error])
def test_write_with_any_other_error_is_info(cluster, invoke, error):
    cluster.responses[1] = [response_with(error, "it took too long; active controller appears to be node 3")]
    (unknown,) = invoke(WRITE)
    assert (unknown.type, unknown.error) == ("info", error.name)


@pytest.mark.parametrize("op", [READ, WRITE], ids=["read", "write"])
def test_op_that_was_not_sent_fails_and_the_next_node_is_called(cluster, invoke, op):
    cluster.responses = {
        1: [NotSent("connecting to 10.77.0.1:9093: refused")],
        2: [NotSent("no route")],
        3: [value_response("7")],
    }
    *failures, done = invoke(op, op, op)
    assert [failed.type for failed in failures] == ["fail", "fail"]
    assert failures[0].error == "connecting to 10.77.0.1:9093: refused"
    assert (done.type, done.node) == ("ok", 3)


@pytest.mark.parametrize("op", [READ, WRITE], ids=["read", "write"])
def test_op_without_a_response_raises_no_answer(cluster, invoke, op):
    cluster.responses[1] = [NoAnswer("waiting for 10.77.0.1:9093: timed out")]
    with pytest.raises(NoAnswer):
        invoke(op)


def test_operation_is_never_retried(cluster, invoke):
    cluster.responses[1] = [response_with(ErrorCode.request_timed_out)]
    invoke(WRITE)
    assert cluster.called == [1]


def test_reads_at_any_node_stay_at_their_node_while_writes_follow_the_leader(cluster, invoke):
    cluster.responses = {
        1: [response_with(ErrorCode.not_controller, CONTROLLER_IS_3)],
        2: [value_response("7"), value_response("8")],
        3: [response_with(), response_with()],
    }
    done = invoke(WRITE, READ, WRITE, READ, WRITE, reads_at="any node")
    assert [(op.f, op.node) for op in done] == [("write", 1), ("read", 2), ("write", 3), ("read", 2), ("write", 3)]


def test_processes_start_with_different_nodes(cluster):
    for process, node in ((0, 1), (1, 2), (5, 3)):
        cluster.responses[node] = [response_with()]
        (done,) = [asyncio.run(RegisterSession([1, 2, 3], cluster.connect, process, "leader").invoke(WRITE))]
        assert done.node == node


def test_session_with_one_node_stays_with_it_and_pauses_when_it_is_rejected(cluster, monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("workloads.register.asyncio.sleep", pause)
    cluster.responses[2] = [
        response_with(ErrorCode.not_controller, CONTROLLER_IS_3),
        response_with(ErrorCode.not_controller, NO_CONTROLLER),
        NotSent("refused"),
        response_with(),
    ]
    session = RegisterSession([2], cluster.connect, 0, "leader")

    async def run():
        return [await session.invoke(WRITE) for _ in range(4)]

    assert [op.type for op in asyncio.run(run())] == ["fail", "info", "fail", "ok"]
    assert cluster.called == [2, 2, 2, 2]
    assert pauses == [REJECTED_SECONDS] * 3


def test_close_closes_every_open_connection(cluster):
    cluster.responses = {1: [NotSent("refused")], 2: [response_with()], 3: []}
    session = RegisterSession([1, 2, 3], cluster.connect, 0, "leader")

    async def run():
        await session.invoke(WRITE)
        await session.invoke(WRITE)
        await session.close()

    asyncio.run(run())
    assert cluster.closed == [1, 2]


def test_operations_are_reads_and_writes_of_all_keys_with_unique_values():
    ops = [operation(number, number * 7919) for number in range(400)]
    assert {op.key for op in ops} == {f"r{key}" for key in range(KEYS)}
    assert {op.f for op in ops} == {"read", "write"}
    written = [op.value for op in ops if op.f == "write"]
    assert len(set(written)) == len(written) > 100


@pytest.mark.parametrize(("system", "check"), [(REFERENCE, "register"), (KAFKA, "promised-reads")])
def test_registers_are_checked_by_what_the_answering_node_promises(system, check):
    workload = register(WorkloadSpec(system.name, clients=system.clients))
    assert check in workload.checks
    assert {op.key for op in workload.final_operations} == {f"r{key}" for key in range(KEYS)}
    assert not workload.idle


HOT = {f"r{key}" for key in range(KEYS)}


def mixed(function, count):
    """The operations of a workload with hot and cold keys."""
    ops, seed = [], 3
    for number in range(count):
        random, seed = draw(seed)
        ops.append(function(number, random))
    return ops


def test_half_of_the_mixed_operations_use_cold_keys_and_half_of_each_kind_write():
    ops = mixed(mixed_operation, 4000)
    shares = [sum((op.key in HOT, op.f) == (hot, f) for op in ops) / 4000 for hot in (True, False) for f in READ_WRITE]
    assert shares == pytest.approx([0.25] * 4, abs=0.03)
    written = [op.value for op in ops if op.f == "write"]
    assert len(set(written)) == len(written)


def test_cold_key_is_written_within_a_few_operations_and_not_again_until_all_others_were():
    numbers = {}
    for number, op in enumerate(mixed(mixed_operation, WRITES_A_KEY * COLD_KEYS)):
        if op.f == "write" and op.key not in HOT:
            numbers.setdefault(op.key, []).append(number)
    assert all(each[-1] - each[0] < WRITES_A_KEY for each in numbers.values())
    assert 0.6 * COLD_KEYS < len(numbers) < 0.8 * COLD_KEYS


@pytest.mark.parametrize("function", [mixed_operation, mixed_read])
def test_cold_keys_are_read_soon_and_long_after_they_were_written(function):
    reads = [(number, op.key) for number, op in enumerate(mixed(function, 4000)) if op.f == "read"]
    ages = [number // WRITES_A_KEY - int(key[1:]) for number, key in reads if key not in HOT]
    assert min(ages) == 0, "no key is read before its first write"
    assert sum(age < 100 for age in ages) > 100
    assert sum(age > 500 for age in ages) > 100


def test_cold_keys_are_an_option_and_all_are_read_at_the_end():
    spec = WorkloadSpec(REFERENCE.name, clients=REFERENCE.clients, options={"keys": "hot-and-cold"})
    read_at_the_end = {op.key for op in register(spec).final_operations}
    assert read_at_the_end == HOT | {f"c{key}" for key in range(COLD_KEYS)}
    assert REGISTER.completed({}) == {"keys": "hot", "batches": "no"}


class StoringNode:
    """A node that keeps what it is told, apart from the resources in `loses`."""

    def __init__(self, loses=()):
        self.loses = loses
        self.values = {}
        self.requests = []

    async def call(self, request, _timeout_ms):
        self.requests.append(request)
        names = [resource.resource_name for resource in request.resources]
        if hasattr(request, "validate_only"):
            values = {each.resource_name: each.configs[0].value for each in request.resources}
            self.values |= {name: value for name, value in values.items() if name not in self.loses}
            return response_with()
        return SimpleNamespace(results=tuple(value_response(self.values.get(name)).results[0] for name in names))


def invoked_at(node, *ops):
    async def run():
        session = RegisterSession([1], lambda _node: node, 0, "leader")
        return [await session.invoke(op) for op in ops]

    return asyncio.run(run())


WRITE_BATCH, READ_BATCH = Op("invoke", "write", 4, "b2", 7), Op("invoke", "read", 4, "b2")


def test_batch_is_written_and_read_by_one_request_each():
    node = StoringNode()
    *_, done = invoked_at(node, WRITE_BATCH, READ_BATCH)
    assert (done.type, done.value) == ("ok", 7)
    assert [len(request.resources) for request in node.requests] == [BATCH, BATCH]


def test_read_of_a_batch_that_was_written_in_part_returns_what_nobody_wrote():
    node = StoringNode(loses=("b2.5",))
    *_, done = invoked_at(node, WRITE_BATCH, READ_BATCH)
    assert done.value == [None if number == 5 else 7 for number in range(BATCH)]


def test_some_operations_use_batches_which_are_read_at_the_end():
    options = {"keys": "hot-and-cold", "batches": "large"}
    workload = register(WorkloadSpec(REFERENCE.name, clients=REFERENCE.clients, options=options))
    ops = mixed(workload.operation, 6400)
    keys = [op.key for op in ops if op.key.startswith("b")]
    assert set(keys) == {f"b{number}" for number in range(BATCHES)}
    assert 0.5 < len(keys) * BATCH_SHARE / len(ops) < 1.5
    assert {op.key for op in workload.final_operations} >= set(keys)


def test_batches_are_refused_where_a_read_of_several_resources_is_not_atomic():
    spec = WorkloadSpec("kafka:4.3.1", clients=KAFKA.clients, options={"batches": "large"})
    with pytest.raises(BadInput, match=r"--system kafka:4\.3\.1 does not read batches atomically"):
        register(spec)
