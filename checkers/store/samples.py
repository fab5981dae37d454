"""The judged runs of a store that a comparison needs: one query for any number of nights.

    rows = samples(spark, [store / "runs.parquet"], {"base": base_runs, "head": head_runs})

Contains the query. What follows from the rows is in harness.comparing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from harness.model.records.tables import COMPARED, RUNS

COLUMNS: Final = (
    "run", "kind", "case", "variant", "system", "hosts", "outcome", "problems", *COMPARED, "command"
)  # fmt: skip
"""The columns of RUNS that are compared, or named in a comparison."""

CODE_GENERATION: Final = "spark.sql.codegen.factoryMode"
"""Spark's setting: whether it compiles the expressions of a query to Java."""


def samples(spark: SparkSession, files: Sequence[Path], sets: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
    """The judged runs of the sets, by name: `set` and COLUMNS.

    A run is returned once for each set that it belongs to. Reproductions themselves are left out: their runs are
    compared. Spark reads the runs between the first and the last name of all sets: a join with the names would be two
    jobs more.
    """
    sets_of = defaultdict(list)
    for name, runs in sets.items():
        for run in runs:
            sets_of[run].append(name)
    if not sets_of:
        return []
    table = spark.read.schema(from_arrow_schema(RUNS)).parquet(*map(str, files))
    is_judged = (fn.col("kind") == "run") & fn.col("outcome").isNotNull()
    judged = table.where(is_judged & fn.col("run").between(min(sets_of), max(sets_of)))
    with _without_compiling(spark):
        rows = judged.select(*COLUMNS).toArrow().to_pylist()
    found = [{"set": name, **row} for row in rows for name in sets_of.get(row["run"], ())]
    return sorted(found, key=itemgetter("run"))


@contextmanager
def _without_compiling(spark: SparkSession) -> Iterator[None]:
    """Spark interprets the expressions of the query. Compiling them takes longer for the few rows of a store."""
    spark.conf.set(CODE_GENERATION, "NO_CODEGEN")
    try:
        yield
    finally:
        spark.conf.unset(CODE_GENERATION)
