"""Probes compare what nodes answer and how tools end; only a probe without anything to compare fails."""

from __future__ import annotations

import asyncio
from itertools import chain, repeat
from typing import Any

import pytest

from harness import plugins
from harness.model import BadInput, PeerFailure
from harness.model.faults.probe import ToolResult, ask, run_tool
from harness.model.faults.rpc import Api
from harness.model.session import NoAnswer, NotSent
from harness.model.story import ALL, LEADER, Step
from harness.planning.story_steps import StoryStep
from nemesis.context import NoLeader
from nemesis.faults.probe import FAULT
from nemesis.session import refuse_unavailable

RESPONSE = {"error_code": "none", "topics": [{"leader_epoch": 7, "vote_granted": False}]}


class FakeProbe:
    """A cluster in epoch 7, with one response or failure to every request, and one end of every tool."""

    def __init__(self, response: Any = RESPONSE, ended: ToolResult | None = None) -> None:
        self.response, self.ended = response, ended
        self.requested: list[Any] = []

    async def facts(self, names: Any, node: int | None) -> dict[str, Any]:
        known = {"epoch": 7, "node": node, "cluster_id": "c", "controllers": "10.0.0.1:9093"}
        return {name: known[name] for name in names}

    async def ask(self, node: int, request: Any, timeout_seconds: float) -> Any:
        self.requested.append((node, request, timeout_seconds))
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    async def run_tool(self, tool: str, arguments: Any, timeout_seconds: float, files: Any, stop_at: Any) -> ToolResult:
        self.requested.append((tool, arguments, timeout_seconds, files, stop_at))
        assert self.ended is not None
        return self.ended


def inject(context: Any, probe: FakeProbe, step: Step) -> dict[str, Any]:
    context.probe = probe
    value = FAULT.actions[step.f].complete(step.value)
    return asyncio.run(FAULT.inject(context, step.f, FAULT.resolve(context, step.f, value)))


def differing(done: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["field"], each["expected"], each["found"]) for each in done["compared"] if not each["holds"]]


def test_request_is_sent_with_facts_and_its_response_is_recorded(context: Any) -> None:
    probe = FakeProbe()
    values = {"cluster_id": "$cluster_id", "topics": [{"replica_epoch": "$epoch+1"}]}
    expect = {"topics.0.vote_granted": False, "topics.0.leader_epoch": "$epoch", "error_code": "none"}
    done = inject(context, probe, ask(LEADER, Api.VOTE, 2, values, expect, name="a pre-vote"))
    ((node, request, timeout_seconds),) = probe.requested
    assert (node, request.api, request.version, request.listener, timeout_seconds) == (2, "vote", 2, "controller", 10)
    assert (done["api"], done["version"], done["listener"]) == ("vote", 2, "controller")
    assert request.values == {"cluster_id": "c", "topics": [{"replica_epoch": 8}]} == done["request"]
    assert (done["nodes"], done["response"], done["label"]) == ([2], RESPONSE, "a pre-vote to n2: as expected")
    assert [each["holds"] for each in done["compared"]] == [True, True, True]


@pytest.mark.parametrize(("epochs", "found"), [([5, 6, 7, 8], []), ([5, 6], ["6"])])
def test_request_is_repeated_until_its_response_is_as_expected(
    context: Any, epochs: list[int], found: list[str]
) -> None:
    following = chain(epochs, repeat(epochs[-1]))

    class Advancing(FakeProbe):
        async def ask(self, *_: Any) -> Any:
            return {"leader_epoch": next(following)}

    step = ask("n1", "Vote", 2, {}, {"leader_epoch": 7}, within=0.5, until_expected=True)
    assert [each for *_, each in differing(inject(context, Advancing(), step))] == found


def test_each_field_that_differs_is_recorded_with_both_values(context: Any) -> None:
    expect = {"error_code": {"not": "none"}, "topics.0.leader_epoch": {"at_least": "$epoch+1"}, "topics.1.x": 3}
    done = inject(context, FakeProbe(), ask("n1", "Vote", 2, {}, expect))
    assert differing(done) == [
        ("error_code", 'not "none"', '"none"'),
        ("topics.0.leader_epoch", "at least 8", "7"),
        ("topics.1.x", "3", "no such field"),
    ]
    assert done["label"].startswith("Vote version 2 to n1: not as expected: error_code, topics.0.leader_epoch, ")


@pytest.mark.parametrize(
    "failure", [NoAnswer("timed out"), NotSent("connection refused")], ids=["no answer", "not sent"]
)
def test_missing_answer_fails_the_probe_unless_none_is_expected(context: Any, failure: PeerFailure) -> None:
    with pytest.raises(PeerFailure, match=f"a to n1: expected an answer: {failure}"):
        inject(context, FakeProbe(failure), ask("n1", Api.VOTE, 2, {}, name="a"))
    done = inject(context, FakeProbe(failure), ask("n1", Api.VOTE, 2, {}, is_answered=False, name="a"))
    assert (done["response"], differing(done)) == (None, [])


def test_answer_where_none_is_expected_differs(context: Any) -> None:
    done = inject(context, FakeProbe(), ask("n1", Api.VOTE, 2, {}, is_answered=False))
    assert differing(done) == [("answer", "no answer", "a response")]


def test_tool_is_run_with_facts_and_its_end_is_recorded(context: Any) -> None:
    probe = FakeProbe(ended=ToolResult(0, "LeaderId:  7\nall\n"))
    step = run_tool("kafka-x", ["--at", "$controllers"], output=["LeaderId:\\s+$epoch$"], no_output=["Error"], within=5)
    done = inject(context, probe, step)
    assert probe.requested == [("kafka-x", ["--at", "10.0.0.1:9093"], 5, {}, None)]
    assert (done["exit_code"], done["timed_out"], done["output"]) == (0, False, "LeaderId:  7\nall\n")
    assert (done["label"], differing(done)) == ("kafka-x --at 10.0.0.1:9093: as expected", [])


def test_tool_gets_its_files_and_is_told_when_to_stop(context: Any) -> None:
    probe = FakeProbe(ended=ToolResult(0, ""))
    inject(context, probe, run_tool("kafka-x", [], files={"plan.json": '{"epoch": $epoch}'}, stop_at="at $controllers"))
    assert probe.requested == [("kafka-x", [], 60.0, {"plan.json": '{"epoch": 7}'}, r"at 10\.0\.0\.1:9093")]


def test_tool_that_ends_otherwise_differs(context: Any) -> None:
    ended = ToolResult(1, "an Error\nmore")
    done = inject(context, FakeProbe(ended=ended), run_tool("kafka-x", [], output=["LeaderId"], no_output=["Error"]))
    assert differing(done) == [
        ("exit code", "0", "1"),
        ("output", "text like LeaderId", '"an Error\\nmore"'),
        ("output", "no text like Error", '"an Error\\nmore"'),
    ]


@pytest.mark.parametrize(("expected", "differs"), [("timed out", False), (0, True)])
def test_tool_that_was_killed_has_no_exit_code(context: Any, expected: Any, differs: bool) -> None:
    done = inject(context, FakeProbe(ended=ToolResult(None, "")), run_tool("kafka-x", [], exit_code=expected))
    assert (done["exit_code"], done["timed_out"]) == (None, True)
    assert differing(done) == ([("exit code", "0", "timed out")] if differs else [])


def test_placeholder_of_the_leader_waits_for_one(context: Any) -> None:
    context.leader = lambda: None
    step = ask("n1", Api.VOTE, 2, {"topics": ["$epoch-1"]})
    with pytest.raises(NoLeader):
        FAULT.resolve(context, step.f, step.value)
    free = ask("n1", Api.VOTE, 2, {"cluster_id": "$cluster_id"})
    assert FAULT.resolve(context, free.f, free.value)["nodes"] == [1]


def test_role_must_have_one_node(context: Any) -> None:
    with pytest.raises(PeerFailure, match="ask: expected one node in the role all, found 3"):
        FAULT.resolve(context, "ask", ask(ALL, Api.VOTE, 2, {}).value)


REFUSED = {
    # case: step, message
    "an unknown placeholder": (
        ask("n1", "Vote", 2, {"a": ["$epok"]}),
        "ask.values.a: expected one of the placeholders",
    ),
    "an unknown placeholder expected": (
        ask("n1", "Vote", 2, {}, {"a": "$epok"}),
        "ask.expect.a: expected one of the pl",
    ),
    "no comparison": (
        ask("n1", "Vote", 2, {}, {"a": {"is": 3}}),
        "ask.expect.a: expected a value, or a table of one of",
    ),
    "fields of no answer": (ask("n1", "Vote", 2, {}, {"a": 3}, is_answered=False), "expect: expected no fields"),
    "no version": (Step("ask", {"who": "n1", "api": "Vote"}), "ask.version: expected a value, found nothing"),
    "another listener": (
        Step("ask", ask("n1", "Vote", 2, {}).value | {"listener": "x"}),
        "ask.listener: expected cont",
    ),
    "no tool": (run_tool("rm", []), "run_tool.tool: expected the name of a tool of Kafka"),
    "a placeholder of a request": (run_tool("kafka-x", ["$own_epoch"]), "run_tool.arguments.0: expected one of the pl"),
    "no regular expression": (
        run_tool("kafka-x", [], output=["("]),
        "run_tool.output.0: expected a regular expression",
    ),
    "a file elsewhere": (
        run_tool("kafka-x", [], files={"../x": ""}),
        "run_tool.files.../x: expected the name of a file",
    ),
    "no exit code": (run_tool("kafka-x", [], exit_code=256), "run_tool.exit_code"),
}


@pytest.mark.parametrize(("step", "message"), REFUSED.values(), ids=REFUSED)
def test_arguments_are_refused(step: Step, message: str) -> None:
    with pytest.raises(ValueError, match=step.f) as refused:
        StoryStep.of(step)
    assert message in str(refused.value)


def test_hosts_without_the_capability_are_refused(context: Any) -> None:
    with pytest.raises(BadInput, match="story: action ask"):
        refuse_unavailable(["ask"], context, plugins.actions())
