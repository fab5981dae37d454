"""The register's session against connections that answer as they are told: what each answer becomes in the history."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from harness.model import Op
from harness.model.session import NoAnswer, NotSent
from harness.systems.kafka import KAFKA
from harness.systems.reference import REFERENCE
from workloads.register import KEYS, RegisterSession, operation, register
from workloads.workload import WorkloadSpec

WRITE = Op("invoke", "write", 4, "r1", 7)
READ = Op("invoke", "read", 4, "r1")
NAMES_NODE_3 = "The active controller appears to be node 3."
NAMES_NOBODY = "No controller appears to be active."


class FakeCluster:
    """Connections to nodes 1 to 3; each answers with the next of its answers, an exception being raised."""

    def __init__(self) -> None:
        self.answers = {1: [], 2: [], 3: []}
        self.asked: list[int] = []
        self.closed: list[int] = []

    def connect(self, node):
        return SimpleNamespace(call=partial(self._call, node), close=partial(self._close, node))

    async def _call(self, node, _request, timeout_ms):
        assert timeout_ms > 0
        self.asked.append(node)
        answer = self.answers[node].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _close(self, node):
        self.closed.append(node)


def answered(error=ErrorCode.none, message=None, configs=()):
    """An answer to either request: Kafka names the list `responses` in one and `results` in the other."""
    resource = SimpleNamespace(error_code=error, error_message=message, configs=configs)
    return SimpleNamespace(responses=(resource,), results=(resource,))


def holding(value):
    return answered(
        configs=(SimpleNamespace(name="interval.ms", value="5"), SimpleNamespace(name="metrics", value=value))
    )


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def invoke(cluster):
    """Invokes operations one after another in one session of process 0, which begins at node 1."""

    def invoke(*ops, reads_at="leader"):
        session = RegisterSession([1, 2, 3], cluster.connect, 0, reads_at)

        async def one_by_one():
            return [await session.invoke(op) for op in ops]

        return asyncio.run(one_by_one())

    return invoke


def test_an_acknowledged_write_is_ok_and_says_which_node_took_it(cluster, invoke):
    cluster.answers[1] = [answered()]
    assert invoke(WRITE) == [Op("ok", "write", 4, "r1", 7, node=1)]


@pytest.mark.parametrize(
    ("answer", "value"),
    [(holding("7"), 7), (holding(""), None), (holding(None), None), (answered(), None)],
    ids=["a value", "an empty one", "none", "no such resource"],
)
def test_a_read_returns_the_register_s_value_or_nothing(cluster, invoke, answer, value):
    cluster.answers[1] = [answer]
    assert invoke(READ) == [Op("ok", "read", 4, "r1", value, node=1)]


def test_a_refusal_that_names_the_leader_is_a_failure_and_the_leader_is_asked_next(cluster, invoke):
    cluster.answers = {1: [answered(ErrorCode.not_controller, NAMES_NODE_3)], 2: [], 3: [answered()]}
    refused, done = invoke(WRITE, WRITE)
    assert (refused.type, refused.error, refused.node) == ("fail", "not_controller", 1)
    assert (done.type, done.node) == ("ok", 3)


@pytest.mark.parametrize("message", [NAMES_NOBODY, None])
def test_a_refusal_that_names_nobody_may_have_been_appended_and_the_next_node_is_asked(cluster, invoke, message):
    cluster.answers = {1: [answered(ErrorCode.not_controller, message)], 2: [answered()], 3: []}
    unknown, done = invoke(WRITE, WRITE)
    assert (unknown.type, unknown.error) == ("info", "not_controller")
    assert done.node == 2


def test_a_leader_that_is_none_of_the_nodes_is_not_turned_to(cluster, invoke):
    cluster.answers = {
        1: [answered(ErrorCode.not_controller, "active controller appears to be node 9")],
        2: [answered()],
    }
    assert [op.node for op in invoke(WRITE, WRITE)] == [1, 2]


@pytest.mark.parametrize(
    "error", [ErrorCode.request_timed_out, ErrorCode.unknown_server_error, ErrorCode.not_controller]
)
def test_a_refused_read_is_always_a_failure(cluster, invoke, error):
    cluster.answers[1] = [answered(error, NAMES_NOBODY)]
    (refused,) = invoke(READ)
    assert (refused.type, refused.error) == ("fail", error.name)


@pytest.mark.parametrize("error", [ErrorCode.request_timed_out, ErrorCode.unknown_server_error])
def test_a_write_refused_for_any_other_reason_may_have_happened(cluster, invoke, error):
    cluster.answers[1] = [answered(error, "it took too long; active controller appears to be node 3")]
    (unknown,) = invoke(WRITE)
    assert (unknown.type, unknown.error) == ("info", error.name)


@pytest.mark.parametrize("op", [READ, WRITE], ids=["read", "write"])
def test_what_was_never_sent_has_failed_and_the_next_node_is_asked(cluster, invoke, op):
    cluster.answers = {
        1: [NotSent("connecting to 10.77.0.1:9093: refused")],
        2: [NotSent("no route")],
        3: [holding("7")],
    }
    *failures, done = invoke(op, op, op)
    assert [failed.type for failed in failures] == ["fail", "fail"]
    assert failures[0].error == "connecting to 10.77.0.1:9093: refused"
    assert (done.type, done.node) == ("ok", 3)


@pytest.mark.parametrize("op", [READ, WRITE], ids=["read", "write"])
def test_what_got_no_answer_is_left_to_the_engine_which_makes_it_info(cluster, invoke, op):
    cluster.answers[1] = [NoAnswer("waiting for 10.77.0.1:9093: no answer in time")]
    with pytest.raises(NoAnswer):
        invoke(op)


def test_an_operation_is_one_request_whatever_comes_of_it(cluster, invoke):
    cluster.answers[1] = [answered(ErrorCode.request_timed_out)]
    invoke(WRITE)
    assert cluster.asked == [1]


def test_reads_at_any_node_stay_where_they_are_while_writes_go_to_the_leader(cluster, invoke):
    cluster.answers = {
        1: [answered(ErrorCode.not_controller, NAMES_NODE_3)],
        2: [holding("7"), holding("8")],
        3: [answered(), answered()],
    }
    done = invoke(WRITE, READ, WRITE, READ, WRITE, reads_at="any node")
    assert [(op.f, op.node) for op in done] == [("write", 1), ("read", 2), ("write", 3), ("read", 2), ("write", 3)]


def test_processes_begin_at_nodes_of_their_own(cluster):
    for process, node in ((0, 1), (1, 2), (5, 3)):
        cluster.answers[node] = [answered()]
        (done,) = [asyncio.run(RegisterSession([1, 2, 3], cluster.connect, process, "leader").invoke(WRITE))]
        assert done.node == node


def test_closing_closes_every_connection_that_was_opened(cluster):
    cluster.answers = {1: [NotSent("refused")], 2: [answered()], 3: []}
    session = RegisterSession([1, 2, 3], cluster.connect, 0, "leader")

    async def scene():
        await session.invoke(WRITE)
        await session.invoke(WRITE)
        await session.close()

    asyncio.run(scene())
    assert cluster.closed == [1, 2]


def test_operations_are_reads_and_writes_of_few_keys_and_every_value_is_written_once():
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
