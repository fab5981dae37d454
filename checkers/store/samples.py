"""The judged runs of a store that a comparison needs: one query for any number of nights.

    rows = samples(spark, [store / "runs.parquet"], {"base": base_runs, "head": head_runs}, ["commit_gap_ms"])

Contains the query. What follows from the rows is in harness.comparing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from harness.model.records.tables import RUNS

COLUMNS: Final = (
    "run", "kind", "case", "variant", "system", "hosts", "outcome", "problems", "quantities", "command"
)  # fmt: skip
"""The columns of RUNS that are compared, or named in a comparison."""

SETS = pa.schema([("set", pa.string()), ("run", pa.string())])


def samples(
    spark: SparkSession, files: Sequence[Path], sets: Mapping[str, Collection[str]], quantities: Collection[str]
) -> list[dict[str, Any]]:
    """The judged runs of the sets, by name: `set` and COLUMNS, of the quantities only these.

    A run is returned once for each set that it belongs to. Reproductions themselves are left out: their runs are
    compared.
    """
    of_set = spark.createDataFrame(pa.concat_tables(_members(name, runs) for name, runs in sets.items()))
    table = spark.read.schema(from_arrow_schema(RUNS)).parquet(*map(str, files))
    judged = table.where((fn.col("kind") == "run") & fn.col("outcome").isNotNull())
    wanted_quantities = fn.filter("quantities", lambda each: each["name"].isin(*quantities))
    found = judged.join(fn.broadcast(of_set), "run").withColumn("quantities", wanted_quantities)
    rows: list[dict[str, Any]] = found.select("set", *COLUMNS).toArrow().to_pylist()
    # Few rows: Spark would need two jobs more to sort them.
    return sorted(rows, key=itemgetter("run"))


def _members(name: str, runs: Collection[str]) -> pa.Table:
    """A row for each run of a set."""
    return pa.table([pa.array([name] * len(runs)), pa.array(list(runs), pa.string())], schema=SETS)
