"""The log workload as a value: its operations, its options, and the systems that can serve it."""

from __future__ import annotations

import pytest

from harness.model import BadInput
from harness.planning.plan import Plan
from harness.planning.workloads import workload_of
from workloads.log import LogOptions, log, send


def plan(**changes) -> Plan:
    settled = {"name": "run", "seed": 1, "story": [], "workload": "log", "system": "kafka:4.3.1", "layout": "combined"}
    return Plan.model_validate(settled | changes)


def test_sends_go_to_every_partition_and_each_has_a_value_of_its_own():
    ops = [send(number, number * 7919) for number in range(400)]
    assert {op.key for op in ops} == {"log-0", "log-1", "log-2", "log-3"}
    assert len({op.value for op in ops}) == 400


def test_the_others_poll_and_rarely_begin_anew():
    ops = [LogOptions().poll(number, number) for number in range(5000)]
    assert [op.f for op in ops].count("assign") == 10
    assert {op.f for op in ops} == {"poll", "assign"}


def test_members_of_a_group_say_so_before_they_poll():
    ops = [LogOptions(assignment="subscribe").poll(number, number) for number in range(5000)]
    assert [op.f for op in ops].count("subscribe") == 125
    assert {op.f for op in ops} == {"poll", "subscribe", "commit", "committed"}
    assert [op.f for op in ops].count("poll") > 2 * [op.f for op in ops].count("commit") > 2000


def test_every_partition_is_drained_in_the_end():
    assert [(op.f, op.key) for op in log({}).final_operations] == [("drain", f"log-{number}") for number in range(4)]


def test_where_a_group_reads_what_it_committed_is_asked_of_every_partition_in_the_end():
    asked = log({"assignment": "subscribe"}).final_operations
    assert [(op.f, op.key) for op in asked][4:] == [("committed", f"log-{number}") for number in range(4)]


def test_no_retry_is_hidden_but_those_that_the_broker_knows_again():
    assert LogOptions().producer == {"acks": "all", "enable.idempotence": True}
    assert LogOptions(acks="1", idempotence="false").producer == {
        "acks": "1", "enable.idempotence": False, "message.send.max.retries": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ack": "1"}, "workload option 'ack': expected one of acks, idempotence, isolation, assignment"),
        ({"acks": "0"}, "workload option acks=0: expected all or 1"),
        ({"acks": "1"}, "workload option acks=1: expected all, or idempotence=false beside it"),
    ],
)
def test_an_option_that_cannot_be_is_bad_input(given, message):
    with pytest.raises(BadInput, match=message):
        log(given)


@pytest.mark.parametrize(("system", "layout"), [("reference", "controllers"), ("kafka:4.3.1", "controllers")])
def test_a_system_without_brokers_is_bad_input(system, layout):
    with pytest.raises(BadInput, match="expected --system kafka --layout combined"):
        workload_of(plan(system=system, layout=layout))


def test_options_of_a_workload_that_has_none_are_bad_input():
    with pytest.raises(BadInput, match="workload idle: expected no options, found acks"):
        workload_of(plan(workload="idle", workload_options={"acks": "1"}))


def test_the_workload_of_a_kafka_with_brokers_is_judged_as_a_log():
    assert "log" in workload_of(plan(workload_options={"isolation": "read_committed"})).checks
