"""Probes: one request to one node, and one of Kafka's command-line tools, each compared with what is expected.

A probe records the request and the response, or the tool's exit code and output, and each comparison. A comparison
that does not hold is a finding of the check `responses`. The probe itself fails if there is nothing to compare: a role
that no node has, a placeholder without a value, no answer although one is expected, a tool that cannot be started.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from harness.model import PeerFailure
from harness.model.expected import Compared, compared, found_at, refuse_malformed
from harness.model.faults.probe import (
    ASK,
    ASK_SECONDS,
    OWN_TOOLS,
    RUN_TOOL,
    TIMED_OUT,
    TOOL_SECONDS,
    ApiRequest,
    ListenerName,
    Probe,
    TimedOut,
    ToolResult,
    ask,
)
from harness.model.faults.rpc import Api
from harness.model.placeholders import LEADERS, NAMES, OF_NODE, fill, names_in, refuse_unknown
from harness.model.session import NoAnswer, NotSent
from harness.model.story import LEADER, Step
from harness.model.validation import Matching
from nemesis.arguments import Arguments, OnNodes, Seconds
from nemesis.context import NemesisContext
from nemesis.fault import Action, Fault, Resolved

VERSION_MAX = 99
OUTPUT_CHARACTERS_MAX = 20_000
"""How much of a tool's output the history keeps: its end."""

SHOWN_CHARACTERS_MAX = 500
AGAIN_SECONDS = 0.2
"""The pause before a probe that is repeated until it ends as expected."""

TOOL = "(kafka-[a-z-]{1,60}|" + "|".join(OWN_TOOLS) + ")"
TOOL_NAMES = tuple(name for name in NAMES if name not in OF_NODE)
METADATA = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def _refuse_pattern(pattern: str) -> str:
    try:
        re.compile(fill(pattern, dict.fromkeys(TOOL_NAMES, ""), re.escape))
    except re.error as error:
        raise ValueError(f"expected a regular expression: {error}") from error
    return pattern


def _refuse_in_tools(value: str) -> str:
    return str(refuse_unknown(value, TOOL_NAMES))


Name = Annotated[str, Field(max_length=200)]
Filled = Annotated[Any, AfterValidator(refuse_unknown)]
ToolText = Annotated[str, AfterValidator(_refuse_in_tools)]
FileName = Annotated[str, Matching(r"[a-z0-9_-]{1,60}(\.[a-z]{1,10})?", "the name of a file, e.g. plan.json")]
Pattern = Annotated[str, AfterValidator(_refuse_in_tools), AfterValidator(_refuse_pattern)]


class Ask(OnNodes):
    """The node, the API and its version, the request's values, and what is expected of the response."""

    api: Annotated[int, Field(ge=0)] | Annotated[str, Matching(r"[A-Za-z_]{1,60}", "the name of an API, e.g. Vote")]
    version: Annotated[int, Field(ge=0, le=VERSION_MAX)]
    values: dict[str, Filled] = Field(default_factory=dict)
    expect: dict[str, Annotated[Filled, AfterValidator(refuse_malformed)]] = Field(default_factory=dict)
    listener: ListenerName = "controller"
    is_answered: bool = True
    within_seconds: Seconds = ASK_SECONDS
    until_expected: bool = False
    name: Name = ""

    @model_validator(mode="after")
    def _can_be_compared(self) -> Ask:
        if self.expect and not self.is_answered:
            raise ValueError("expect: expected no fields, since no answer is expected (is_answered)")
        return self


class RunTool(Arguments):
    """The tool, its arguments, and what is expected of its exit code and output."""

    tool: Annotated[str, Matching(TOOL, "the name of a tool of Kafka, e.g. kafka-metadata-quorum")]
    arguments: list[ToolText] = Field(default_factory=list)
    exit_code: Annotated[int, Field(ge=0, le=255)] | TimedOut = 0
    output: list[Pattern] = Field(default_factory=list)
    no_output: list[Pattern] = Field(default_factory=list)
    within_seconds: Seconds = TOOL_SECONDS
    until_expected: bool = False
    files: dict[FileName, ToolText] = Field(default_factory=dict)
    stop_at: Pattern = ""
    name: Name = ""


def resolve(context: NemesisContext, f: str, value: Mapping[str, Any]) -> Resolved:
    """The arguments, and the one node that is asked. Raises NoLeader if a placeholder needs a leader and none leads."""
    if names_in(list(value.values())) & LEADERS:
        context.require_leader()
    return {**value, "nodes": [context.require_one(f, value["who"])] if f == ASK else []}


async def inject(context: NemesisContext, f: str, resolved: Resolved) -> dict[str, Any]:
    """Carry out the probe; returns what was sent and received, and each comparison.

    With until_expected it is carried out again until everything agrees, or the time is over; the last one is recorded.
    """
    assert context.probe is not None, "unavailable actions are refused before"
    now = asyncio.get_running_loop().time
    deadline = now() + resolved["within_seconds"]
    while True:
        done, comparisons = await {ASK: _ask, RUN_TOOL: _run_tool}[f](context.probe, resolved)
        differing = [each.field for each in comparisons if not each.holds]
        if not differing or not resolved["until_expected"] or now() > deadline:
            break
        await asyncio.sleep(AGAIN_SECONDS)
    outcome = f"not as expected: {', '.join(differing)}" if differing else "as expected"
    recorded = [each.to_json() for each in comparisons]
    return {"nodes": resolved["nodes"], **done, "compared": recorded, "label": f"{done['name']}: {outcome}"}


async def _ask(probe: Probe, resolved: Resolved) -> tuple[dict[str, Any], list[Compared]]:
    (node,) = resolved["nodes"]
    facts = await probe.facts(names_in([resolved["values"], resolved["expect"]]), node)
    request = ApiRequest(resolved["api"], resolved["version"], resolved["listener"], fill(resolved["values"], facts))
    name = resolved["name"] or f"{request.api} version {request.version}"
    response, failure = await _response(probe, node, request, resolved["within_seconds"])
    done: dict[str, Any] = {"name": f"{name} to n{node}", "api": request.api, "version": request.version}
    done |= {"listener": request.listener, "request": request.values, "response": response}
    if not resolved["is_answered"]:
        found = "a response" if failure is None else str(failure)
        return done, [Compared("answer", "no answer", found, failure is not None)]
    if failure is not None:
        raise PeerFailure(f"{done['name']}: expected an answer: {failure}")
    expected = fill(resolved["expect"], facts)
    return done, [compared(path, value, found_at(response, path)) for path, value in expected.items()]


async def _response(
    probe: Probe, node: int, request: ApiRequest, timeout_seconds: float
) -> tuple[Any, NotSent | NoAnswer | None]:
    """The response, or why there is none."""
    try:
        return await probe.ask(node, request, timeout_seconds), None
    except (NotSent, NoAnswer) as failure:
        return None, failure


async def _run_tool(probe: Probe, resolved: Resolved) -> tuple[dict[str, Any], list[Compared]]:
    patterns = {"output": resolved["output"], "no_output": resolved["no_output"]}
    given = {"arguments": resolved["arguments"], "files": resolved["files"]}
    facts = await probe.facts(names_in([given, patterns, resolved["stop_at"]]), None)
    filled = fill(given, facts)
    arguments, stop_at = [str(each) for each in filled["arguments"]], fill(resolved["stop_at"], facts, re.escape)
    seconds = resolved["within_seconds"]
    ended = await probe.run_tool(resolved["tool"], arguments, seconds, filled["files"], stop_at or None)
    name = resolved["name"] or " ".join([resolved["tool"], *arguments])
    done = {"name": name, "tool": resolved["tool"], "arguments": arguments, "exit_code": ended.exit_code}
    done |= {"timed_out": ended.exit_code is None, "output": ended.output[-OUTPUT_CHARACTERS_MAX:]}
    return done, _tool_compared(resolved["exit_code"], fill(patterns, facts, re.escape), ended)


def _tool_compared(
    expected: int | TimedOut, patterns: Mapping[str, Sequence[str]], ended: ToolResult
) -> list[Compared]:
    exit_code = TIMED_OUT if ended.exit_code is None else ended.exit_code
    found = json.dumps(ended.output.strip()[-SHOWN_CHARACTERS_MAX:])  # one line

    def has(pattern: str) -> bool:
        return re.search(pattern, ended.output, re.MULTILINE) is not None

    return [
        Compared("exit code", str(expected), str(exit_code), expected == exit_code),
        *(Compared("output", f"text like {each}", found, has(each)) for each in patterns["output"]),
        *(Compared("output", f"no text like {each}", found, not has(each)) for each in patterns["no_output"]),
    ]


def sample(_random_source: random.Random, _nodes: int) -> list[Step]:
    """DescribeQuorum to the leader, which may have been deposed when it answers."""
    return [ask(LEADER, Api.DESCRIBE_QUORUM, 0, METADATA, {"error_code": "none"})]


FAULT = Fault(
    name="probe",
    summary="one request to one node, or one of Kafka's tools, compared with what is expected",
    actions={ASK: Action(Ask, momentary=True), RUN_TOOL: Action(RunTool, momentary=True)},
    unavailable=lambda context, action: context.why_unavailable("probe") or context.unavailable.get(action),
    resolve=resolve,
    inject=inject,
    sample=sample,
    trials=(tuple(sample(random.Random(0), 3)),),
    checks=("responses",),
)
