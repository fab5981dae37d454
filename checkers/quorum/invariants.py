"""The invariants that a simulated run broke, as the simulation recorded them: each is a finding of its name.

The simulation compares all nodes at every event (nodes.simulation), which no check of recorded tables can. The first
broken invariant ends its run.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, JudgeSettings, finding

CHECK: Final = "invariants"
DETAIL: Final = "invariant string, message string"


def findings(_history: DataFrame, observations: DataFrame, _settings: JudgeSettings) -> DataFrame:
    """One finding for each recorded violation."""
    broken = observations.where("kind = 'violation'").withColumn("broken", fn.from_json("detail", DETAIL))
    node = fn.when(fn.col("node") > 0, fn.col("node"))
    return finding(
        broken, CHECK, fn.col("broken.invariant"), fn.col("broken.message"), node=node, time_ns=fn.col("time_ns")
    )


INVARIANTS = Check(findings, handles_many_runs=True)
