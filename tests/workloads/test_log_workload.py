"""The log workload: its operations, its options, and the systems that support it."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.planning.plan import Plan
from harness.planning.workloads import workload_of
from workloads.log import LOG, LogOptions, send


def plan(**changes) -> Plan:
    values = {"name": "run", "seed": 1, "story": [], "workload": "log", "system": "kafka:4.3.1", "layout": "combined"}
    return Plan.model_validate(values | changes)


def options(**given) -> LogOptions:
    return LogOptions(**LOG.completed(given))


def test_sends_go_to_every_partition_with_unique_values():
    ops = [send(number, number * 7919) for number in range(400)]
    assert {op.key for op in ops} == {"log-0", "log-1", "log-2", "log-3"}
    assert len({op.value for op in ops}) == 400


def test_readers_poll_and_rarely_assign():
    ops = [options().poll(number, number) for number in range(5000)]
    assert [op.f for op in ops].count("assign") == 10
    assert {op.f for op in ops} == {"poll", "assign"}


def test_members_of_a_group_subscribe_poll_and_commit():
    ops = [options(assignment="subscribe").poll(number, number) for number in range(5000)]
    assert [op.f for op in ops].count("subscribe") == 125
    assert {op.f for op in ops} == {"poll", "subscribe", "commit", "committed"}
    assert [op.f for op in ops].count("poll") > 2 * [op.f for op in ops].count("commit") > 2000


def test_final_operations_drain_every_partition():
    assert [(op.f, op.key) for op in options().final_operations] == [("drain", f"log-{number}") for number in range(4)]


def test_final_operations_of_a_group_read_its_committed_offsets():
    final = options(assignment="subscribe").final_operations
    assert [(op.f, op.key) for op in final][4:] == [("committed", f"log-{number}") for number in range(4)]


def test_retries_are_enabled_for_idempotent_producers_only():
    assert options().producer == {"acks": "all", "enable.idempotence": True}
    assert options(acks="1", idempotence="false").producer == {
        "acks": "1", "enable.idempotence": False, "message.send.max.retries": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ack": "1"}, "workload log: option ack: expected one of acks, idempotence, isolation, assignment"),
        ({"acks": "0"}, "workload log: option acks: expected all or 1, found '0'"),
        ({"acks": "1"}, "workload log: option acks: expected all, or idempotence=false"),
    ],
)
def test_invalid_option_is_bad_input(given, message):
    with pytest.raises(BadInput, match=message):
        workload_of(plan(option=given))


@pytest.mark.parametrize(("system", "layout"), [("reference", "controllers"), ("kafka:4.3.1", "controllers")])
def test_system_without_brokers_is_bad_input(system, layout):
    with pytest.raises(BadInput, match="expected --system kafka --layout combined"):
        workload_of(plan(system=system, layout=layout))


def test_options_of_a_workload_without_options_are_bad_input():
    with pytest.raises(BadInput, match="workload idle: option acks: expected no options"):
        workload_of(plan(workload="idle", workload_options={"acks": "1"}))


def test_log_check_is_among_the_checks_of_the_workload():
    assert "log" in workload_of(plan(workload_options={"isolation": "read_committed"})).checks
