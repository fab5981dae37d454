"""When each node takes part in the quorum.

A node whose process was started takes part from the first state that it shows, in its log or in an answer. Java needs
seconds until then, on a busy machine many, in which nothing can be asked of the node.

Contains this. Rules that need it are in commits.py and liveness.py.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from checkers.framework.by_run import RUN
from harness.model.records.observation import ENDS, SHOWS_STATE


def process_events(observations: DataFrame) -> DataFrame:
    """(run, node, time_ns, position, takes_part): starts, ends, and the first state that is shown after each start."""
    seen = observations.where(fn.col("kind").isin("started", *SHOWS_STATE, *ENDS))
    before = fn.lag("kind").over(Window.partitionBy(RUN, "node").orderBy("time_ns", "position"))
    takes_part = fn.col("kind").isin(*SHOWS_STATE)
    events = seen.withColumn("before", before).where(~takes_part | (fn.col("before") == "started"))
    return events.select(RUN, "node", "time_ns", "position", takes_part.alias("takes_part"))
