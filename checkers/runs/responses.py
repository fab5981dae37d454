"""Whether nodes and Kafka's tools answered as the story expects: every comparison that an action recorded.

    unexpected-response     a response, or whether there was one, differs from what an `ask` or a voter change expects,
                            or the voter assignments in the log from what `await_voters` expects
    unexpected-output       a tool's exit code or output differs from what a `run_tool` expects

Each is invalid: the story expects what a KIP promises. An action that had nothing to compare, e.g. without an answer
although one is expected, ended with an error, which the check `nemesis` reports. A voter change that is expected to
succeed compares nothing.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from checkers.framework.contract import Check, JudgeSettings, finding
from checkers.framework.timeline import is_done
from harness.model.faults.membership import ADD_VOTER, REMOVE_VOTER
from harness.model.faults.probe import ASK, RUN_TOOL
from harness.model.faults.reassignment import AWAIT_VOTERS, REASSIGN_VOTERS

CHECK = "responses"
COMPARING = (ASK, RUN_TOOL, ADD_VOTER, REMOVE_VOTER, REASSIGN_VOTERS, AWAIT_VOTERS)
NAME, GUARANTEE = "unexpected-response", "a response is as its API promises"
TOOL_NAME, TOOL_GUARANTEE = "unexpected-output", "a tool ends as it promises"
COMPARED = "array<struct<field string, expected string, found string, holds boolean>>"


def findings(history: DataFrame, _observations: DataFrame, _settings: JudgeSettings) -> DataFrame:
    """Every comparison that does not hold."""
    differing = comparisons(history).where("not holds")
    name, guarantee = _of_tool_or(TOOL_NAME, NAME), _of_tool_or(TOOL_GUARANTEE, GUARANTEE)
    message = fn.format_string("%s: %s: %s: expected %s, found %s", guarantee, "name", "field", "expected", "found")
    return finding(
        differing,
        CHECK,
        name,
        message,
        node=fn.col("node"),
        time_ns=fn.col("time_ns"),
        witnesses=fn.array(fn.col("index")),
    )


def comparisons(history: DataFrame) -> DataFrame:
    """(run, index, time_ns, f, node, name, field, expected, found, holds): what was compared with a node's answer.

    The nemesis's invocations are `info` too; they have no comparisons.
    """
    done = history.where(is_done(COMPARING))
    compared = fn.from_json(fn.get_json_object("value", "$.compared"), COMPARED)
    return done.select(
        RUN,
        "index",
        "time_ns",
        "f",
        fn.get_json_object("value", "$.nodes[0]").cast("int").alias("node"),
        fn.get_json_object("value", "$.name").alias("name"),
        fn.inline(compared),
    )


def _of_tool_or(of_tool: str, other: str) -> Column:
    return fn.when(fn.col("f") == RUN_TOOL, of_tool).otherwise(other)


RESPONSES = Check(findings, handles_many_runs=True)
