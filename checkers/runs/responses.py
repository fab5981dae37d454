"""Whether nodes and Kafka's tools answered as the story expects: every comparison that a probe recorded.

    unexpected-response     a response, or whether there was one, differs from what an `ask` expects
    unexpected-output       a tool's exit code or output differs from what a `run_tool` expects

Each is invalid: the story expects what a KIP promises. A probe that had nothing to compare, e.g. without an answer
although one is expected, ended with an error, which the check `nemesis` reports.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, JudgeSettings, finding
from checkers.framework.timeline import is_done
from harness.model.faults.probe import ASK, RUN_TOOL

CHECK = "responses"
NAMES = {ASK: "unexpected-response", RUN_TOOL: "unexpected-output"}
GUARANTEES = {ASK: "a response is as its API promises", RUN_TOOL: "a tool ends as it promises"}
COMPARED = "array<struct<field string, expected string, found string, holds boolean>>"


def findings(history: DataFrame, _observations: DataFrame, _settings: JudgeSettings) -> DataFrame:
    """Every comparison that does not hold."""
    differing = comparisons(history).where("not holds")
    name, guarantee = (_by_probe(words) for words in (NAMES, GUARANTEES))
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
    """(index, time_ns, f, node, name, field, expected, found, holds): what probes compared; node is that of an ask.

    The nemesis's invocations are `info` too; they have no comparisons.
    """
    done = history.where(is_done(NAMES))
    compared = fn.from_json(fn.get_json_object("value", "$.compared"), COMPARED)
    return done.select(
        "index",
        "time_ns",
        "f",
        fn.get_json_object("value", "$.nodes[0]").cast("int").alias("node"),
        fn.get_json_object("value", "$.name").alias("name"),
        fn.inline(compared),
    )


def _by_probe(words: dict[str, str]) -> Column:
    return fn.when(fn.col("f") == ASK, words[ASK]).otherwise(words[RUN_TOOL])


RESPONSES = Check(findings)
