"""Groups the runs of a store by case and system, for comparisons: one query for any number of nights.

    groups = samples(spark, [store / "runs.parquet"], {"base": base_runs, "head": head_runs}, ["commit_gap_ms"])

Each group is a case on a family of systems, for one of the sets, and has its runs' outcomes, problems and quantities.
Contains the query. What follows from the numbers is in harness.comparing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from harness.model.records.tables import RUNS

SETS = pa.schema([("set", pa.string()), ("run", pa.string())])


def samples(
    spark: SparkSession, files: Sequence[Path], sets: Mapping[str, Collection[str]], quantities: Collection[str]
) -> list[dict[str, Any]]:
    """The groups, each with set, case, family and `runs`: a list of the RUNS columns of its judged runs.

    A run may belong to several sets, and has those of these quantities that it measured. Reproductions themselves are
    left out: their runs are compared.
    """
    of_set = spark.createDataFrame(pa.concat_tables(_members(name, runs) for name, runs in sets.items()))
    table = spark.read.schema(from_arrow_schema(RUNS)).parquet(*map(str, files))
    wanted_quantities = fn.filter("quantities", lambda each: each["name"].isin(*quantities))
    judged = table.where((fn.col("kind") == "run") & fn.col("outcome").isNotNull()).withColumn(
        "quantities", wanted_quantities
    )
    grouped = (
        judged.join(fn.broadcast(of_set), "run")
        .withColumn("family", fn.substring_index("system", ":", 1))
        .groupBy("set", "case", "family")
        .agg(fn.sort_array(fn.collect_list(fn.struct(*RUNS.names))).alias("runs"))
    )
    groups: list[dict[str, Any]] = grouped.toArrow().to_pylist()
    # Few rows: Spark would need two jobs more to sort them.
    return sorted(groups, key=lambda group: (group["case"], group["family"], group["set"]))


def _members(name: str, runs: Collection[str]) -> pa.Table:
    """A row for each run of a set."""
    return pa.table([pa.array([name] * len(runs)), pa.array(list(runs), pa.string())], schema=SETS)
