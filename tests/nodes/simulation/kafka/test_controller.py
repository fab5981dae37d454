"""The state machine of the registers, without a JVM: what nodes apply, read and refuse."""

from __future__ import annotations

import dataclasses

import pytest
from kio.schema.errors import ErrorCode

from harness.model import BadInput, Op
from nodes.simulation.kafka.controller import Writes, not_controller, written
from nodes.wire import codec
from workloads.register import RegisterSession, read_of, write_of


def values(response):
    return [{config.name: config.value for config in result.configs} for result in response.results]


def test_each_node_reads_what_it_has_applied():
    writes = Writes()
    first, second = writes.begin(write_of(["r1"], 1)), writes.begin(write_of(["r1", "r2"], 2))
    writes.apply(1, first, second)
    writes.apply(2, first, first)
    assert values(writes.read(1, read_of(["r1", "r2"]))) == [{"metrics": "2"}, {"metrics": "2"}]
    assert values(writes.read(2, read_of(["r1", "r2"]))) == [{"metrics": "1"}, {}]
    assert values(writes.read(3, read_of(["r1"]))) == [{}]
    writes.restart(1)
    assert values(writes.read(1, read_of(["r1"]))) == [{}]


def test_all_resources_of_a_request_have_the_same_result():
    response = written(write_of(["r1", "r2"], 1))
    assert [(each.resource_name, each.error_code) for each in response.responses] == [
        ("r1", ErrorCode.none),
        ("r2", ErrorCode.none),
    ]


@pytest.mark.parametrize(("leader", "type_", "following"), [(3, "fail", 3), (None, "info", 2)])
def test_the_sessions_of_registers_understand_a_refusal(leader, type_, following):
    session = RegisterSession([1, 2, 3], connect=lambda _node: None, process=0, reads_at="any node")
    (result,) = not_controller(write_of(["r1"], 1), leader).responses
    done = session._rejected(Op("invoke", "write", 0, "r1", 1, 1), result.error_code, result.error_message)
    assert (done.type, session._leader) == (type_, following)


def test_an_operation_other_than_to_set_a_value_is_bad_input():
    request = write_of(["r1"], 1)
    (resource,) = request.resources
    (config,) = resource.configs
    appending = dataclasses.replace(config, config_operation=2)
    changed = dataclasses.replace(request, resources=(dataclasses.replace(resource, configs=(appending,)),))
    with pytest.raises(BadInput, match=r"expected the operation SET \(0\), found 2"):
        Writes().begin(changed)


def test_responses_can_be_encoded():
    writes = Writes()
    writes.apply(1, writes.begin(write_of(["r1"], 1)), 0)
    for response in (writes.read(1, read_of(["r1"])), not_controller(write_of(["r1"], 1), 2)):
        frame = codec.encode_response(response, 7)
        assert codec.decode_response(type(response), frame[4:]) == (7, response)
