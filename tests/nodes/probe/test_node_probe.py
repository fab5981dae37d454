"""Requests go to the chosen listener over a connection of their own; tools end by themselves or are killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.model import EnvironmentFailure
from harness.model.faults.probe import ApiRequest, ToolResult
from harness.model.session import NoAnswer
from nodes.probe.facts import ClusterFacts
from nodes.probe.probe import NodeProbe, run_to_end
from nodes.wire import codec

RESPONSE = {"error_code": codec.ErrorCode.cluster_authorization_failed, "topics": []}


class FakeConnection:
    """Answers DescribeQuorum, or does not."""

    def __init__(self, answers: bool = True) -> None:
        self.answers, self.calls, self.closed = answers, [], 0

    async def call(self, request: Any, timeout_ms: int) -> Any:
        self.calls.append((request.__api_key__, request.__version__, timeout_ms))
        if not self.answers:
            raise NoAnswer("timed out")
        return codec.build(codec.DESCRIBE_QUORUM, 1, "response", RESPONSE)

    async def close(self) -> None:
        self.closed += 1


def asked(connection: FakeConnection, listener: Any) -> tuple[Any, list[Any]]:
    opened: list[Any] = []

    def connect(node: int, name: str) -> Any:
        opened.append((node, name))
        return connection

    nothing = ClusterFacts({}, lambda: None, {}, {}, {}.get, None)
    probe = NodeProbe(nothing, connect, lambda tool, arguments: [tool, *arguments])
    request = ApiRequest("DescribeQuorum", 1, listener, {"topics": []})
    return asyncio.run(probe.ask(3, request, 1.5)), opened


@pytest.mark.parametrize("listener", ["controller", "client"])
def test_request_has_a_connection_of_its_own(listener: str) -> None:
    connection = FakeConnection()
    response, opened = asked(connection, listener)
    assert response == {"error_code": "cluster_authorization_failed", "topics": []}
    assert (opened, connection.calls, connection.closed) == ([(3, listener)], [(55, 1, 1500)], 1)


def test_connection_is_closed_without_an_answer() -> None:
    connection = FakeConnection(answers=False)
    with pytest.raises(NoAnswer):
        asked(connection, "controller")
    assert connection.closed == 1


def run(code: str, timeout_seconds: float = 30) -> ToolResult:
    return asyncio.run(run_to_end([sys.executable, "-uc", code], timeout_seconds))


def test_tool_ends_with_its_code_and_both_its_outputs_in_order() -> None:
    code = "import sys; print('one'); print('two', file=sys.stderr); print('three'); sys.exit(3)"
    assert run(code) == ToolResult(3, "one\ntwo\nthree\n")


def test_output_that_fills_a_pipe_does_not_stop_the_tool() -> None:
    assert len(run("print('x' * 1_000_000)").output) == 1_000_001


def test_tool_is_killed_at_its_deadline_and_has_no_exit_code() -> None:
    ended = run("print('begun'); import threading; threading.Event().wait()", timeout_seconds=2)
    assert ended == ToolResult(None, "begun\n")


def test_tool_is_told_to_stop_once_when_its_output_says_so() -> None:
    code = """
import signal, threading
ends = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: (print("stopping"), ends.set()))
print("at work")
ends.wait()
"""
    argv = [sys.executable, "-uc", code]
    assert asyncio.run(run_to_end(argv, 30, stop_at="at w.rk\n")) == ToolResult(0, "at work\nstopping\n")


def no_connection(node: int, _listener: str) -> Any:
    raise AssertionError(f"n{node} is not asked")


def test_tools_of_a_probe_share_a_directory_that_is_removed() -> None:
    nothing = ClusterFacts({}, lambda: None, {}, {}, {}.get, None)

    async def using() -> tuple[ToolResult, Path]:
        probe = NodeProbe(nothing, no_connection, lambda _, code: [sys.executable, "-c", *code])
        await probe.run_tool("", ["open('b', 'w').write(open('a').read() * 2)"], 30, {"a": "x"}, None)
        ended = await probe.run_tool("", ["import os; print(open('b').read(), os.getcwd(), end='')"], 30, {}, None)
        await probe.close()
        return ended, Path(ended.output.removeprefix("xx "))

    ended, directory = asyncio.run(using())
    assert ended.output.startswith("xx /")
    assert not directory.exists()


def test_command_that_does_not_exist_is_an_environment_failure() -> None:
    with pytest.raises(EnvironmentFailure, match="starting /no/java: No such file or directory"):
        asyncio.run(run_to_end(["/no/java"], 5))
