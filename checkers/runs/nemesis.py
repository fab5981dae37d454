"""Whether the nemesis did what its plan says: a fault without effect is no test, and unknown is not passed.

Every nemesis operation verifies its own effect and ends with an error in the history if it had none. A run with such an
operation may look healthy because the fault never happened, so it is unknown, whatever the other checks find.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.framework.contract import Check, JudgeSettings, finding
from harness.model import NEMESIS

CHECK = "nemesis"


def findings(history: DataFrame, _observations: DataFrame, _settings: JudgeSettings) -> DataFrame:
    """fault-not-effective: a fault, its healing, or a wait of the story ended with an error."""
    failed = history.where((fn.col("process") == NEMESIS) & fn.col("error").isNotNull())
    message = fn.concat(
        fn.lit("the nemesis operation "), fn.col("f"), fn.lit(" did not take effect: "), fn.col("error")
    )
    return finding(
        failed,
        CHECK,
        "fault-not-effective",
        message,
        severity="unknown",
        time_ns=fn.col("time_ns"),
        witnesses=fn.array(fn.col("index")),
    )


NEMESIS_CHECK = Check(findings, judges="fault action", handles_many_runs=True)
