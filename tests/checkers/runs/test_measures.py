"""What a scenario measures itself: counts, delays and growth of epochs, on literal rows and beside the plain twin."""

from __future__ import annotations

import random
from dataclasses import asdict, astuple, replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.framework.contract import JudgeSettings
from checkers.framework.tables import configure_for
from checkers.runs.measures import MEASURES
from checkers.twins import measures as twin
from harness import plugins
from harness.model import NEMESIS, Observation, Op
from harness.model.faults.rpc import Api, RpcRow
from harness.model.measures import (
    After,
    Between,
    Count,
    EpochGrowth,
    Largest,
    Measure,
    enters,
    exits,
    grants,
    needs_rpcs,
    sends,
    starts_as,
)
from harness.model.nemesis_ops import HEAL
from harness.model.quorum_states import State
from harness.model.records.tables import RPCS
from harness.model.story import MARK, STORY_BEGINS
from tests.support.checks.on_spark import history_table, observation_table
from tests.support.checks.small_histories import MS, history

pytestmark = pytest.mark.spark

SETTINGS = JudgeSettings(ops=plugins.ops())
CUT = "n1 is cut off"
OPS = history(
    Op("info", MARK, NEMESIS, time_ns=10 * MS, value=STORY_BEGINS),
    Op("info", MARK, NEMESIS, time_ns=20 * MS, value=CUT),
    Op("info", HEAL, NEMESIS, time_ns=60 * MS),
)
TIMES = {STORY_BEGINS: 10 * MS, CUT: 20 * MS, HEAL: 60 * MS}
OPS = [replace(op, time_ns=time) for op, time in zip(OPS, (10 * MS, 20 * MS, 60 * MS), strict=True)]


def goes(ms: int, node: int, previous: str | None, state: str, epoch: int) -> Observation:
    return Observation(ms * MS, node, "log", "transition", state, previous, epoch)


SEEN = [
    goes(5, 1, "Unattached", "Prospective", 1),  # before the story
    goes(8, 1, "Candidate", "Leader", 2),
    goes(25, 1, "Leader", "Resigned", 2),
    goes(26, 2, "Follower", "Prospective", 2),
    goes(27, 1, "Resigned", "Unattached", 3),
    goes(28, 1, "Unattached", "Prospective", 3),
    goes(40, 1, "Prospective", "Unattached", 3),
    goes(47, 1, "Unattached", "Prospective", 3),
    goes(70, 1, None, "Follower", 5),  # after the heal
    Observation(75 * MS, 2, "process", "exited", detail="exit 1"),
]
VOTE = int(Api.VOTE)
RPC_ROWS = [
    RpcRow(26 * MS, 2, 3, VOTE, 2, 7, "request", 60, pre_vote=True, epoch=2),
    RpcRow(27 * MS, 3, 2, VOTE, 2, 7, "response", 60, pre_vote=True, epoch=2, granted=True),
    RpcRow(28 * MS, 2, 3, VOTE, 2, 8, "request", 72, pre_vote=False, epoch=3),
    RpcRow(29 * MS, 3, 2, VOTE, 2, 8, "response", 60, pre_vote=False, epoch=3, granted=False),
]
PROSPECTIVE = enters(State.PROSPECTIVE, node=1)
CASES: dict[str, tuple[Measure, float | None]] = {
    "transitions of a node since the story began": (Count(PROSPECTIVE), 2),
    "of any node": (Count(enters(State.PROSPECTIVE)), 3),
    "from a state": (Count(enters(State.PROSPECTIVE, previous=State.FOLLOWER)), 1),
    "until the heal": (Count(enters(State.FOLLOWER, node=1), until=HEAL), 0),
    "starts": (Count(starts_as(State.FOLLOWER, 1)), 1),
    "exits": (Count(exits()), 1),
    "after a mark that was never reached": (Count(PROSPECTIVE, since="never"), None),
    "requests for pre-votes": (Count(sends(Api.VOTE, source=2, pre_vote=True)), 1),
    "requests of an epoch": (Count(sends(Api.VOTE, epoch=3)), 1),
    "granted pre-votes": (Count(grants(source=3, target=2)), 1),
    "granted votes": (Count(grants(pre_vote=False)), 0),
    "largest request": (Largest(sends(Api.VOTE)), 72),
    "largest until the heal": (Largest(sends(Api.VOTE, source=2), until=HEAL), 72),
    "largest of what was never sent": (Largest(sends(Api.FETCH)), None),
    "time to the first transition": (After(CUT, enters(State.RESIGNED, node=1)), 5),
    "time to what never happened": (After(CUT, enters(State.CANDIDATE)), None),
    "longest": (Between(PROSPECTIVE, enters(State.UNATTACHED)), 12),
    "shortest": (Between(enters(State.UNATTACHED), enters(State.PROSPECTIVE), "shortest"), 1),
    "longest until the heal": (Between(enters(State.UNATTACHED), enters(State.PROSPECTIVE), until=HEAL), 7),
    "pre-vote before vote": (Between(sends(Api.VOTE, pre_vote=True), sends(Api.VOTE, pre_vote=False), "shortest"), 2),
    "vote before pre-vote": (Between(sends(Api.VOTE, pre_vote=False), sends(Api.VOTE, pre_vote=True)), None),
    "growth of a node's epoch": (EpochGrowth(1), 3),
    "growth until the heal": (EpochGrowth(1, until=HEAL), 1),
    "growth on a node that knew none before": (EpochGrowth(2), 0),
    "growth on an unknown node": (EpochGrowth(9), None),
}


def measured(
    spark: SparkSession, measures: list[Measure], seen: list[Observation], rpcs: list[RpcRow]
) -> dict[str, float]:
    configure_for(spark, rows=1)
    rows = spark.createDataFrame([astuple(row) for row in rpcs], from_arrow_schema(RPCS))
    frame = rows.withColumns({"position": fn.lit(0), "run": fn.lit(0)})
    settings = replace(SETTINGS, measures=tuple(dict.fromkeys(measures)))
    assert MEASURES.quantities is not None
    found = MEASURES.quantities(history_table(spark, list(OPS)), observation_table(spark, seen), frame, settings)
    return {row["name"]: row["value"] for row in found.collect()}


def test_measures_of_literal_rows(spark: SparkSession) -> None:
    names = [measure.name for measure, _ in CASES.values()]
    assert len(set(names)) == len(CASES), "each measure has a name of its own"
    values = measured(spark, [measure for measure, _ in CASES.values()], SEEN, RPC_ROWS)
    assert {case: values.get(measure.name) for case, (measure, _) in CASES.items()} == {
        case: value for case, (_, value) in CASES.items()
    }


def test_rpcs_that_were_not_recorded_are_not_counted(spark: SparkSession) -> None:
    count = Count(sends(Api.VOTE))
    assert needs_rpcs(count)
    assert measured(spark, [count], SEEN, []) == {}


def test_names_say_what_is_measured() -> None:
    assert Count(sends(Api.VOTE, source=1, pre_vote=True), until=HEAL).name == (
        "Vote requests of n1 for a pre-vote until the heal"
    )
    assert Between(enters(State.RESIGNED, 1), enters(State.PROSPECTIVE, 1)).name == (
        "longest time from transitions of n1 to Resigned to transitions of n1 to Prospective"
    )
    assert After(CUT, enters(State.RESIGNED, 1)).name == (
        'time to the first of transitions of n1 to Resigned after "n1 is cut off"'
    )


def test_measures_agree_with_the_plain_twin_on_random_rows(spark: SparkSession) -> None:
    source = random.Random(7)
    states = [state.value for state in State]
    seen = [
        goes(ms, source.randrange(1, 4), source.choice([None, *states]), source.choice(states), source.randrange(9))
        for ms in sorted(source.sample(range(1, 90), 60))
    ]
    measures = [measure for measure, _ in CASES.values()]
    rows: list[dict[str, Any]] = [asdict(each) for each in seen]
    tables = {"observations": rows, "rpcs": [asdict(each) for each in RPC_ROWS]}
    expected = {measure.name: twin.value_of(measure, tables, TIMES) for measure in measures}
    assert measured(spark, measures, seen, RPC_ROWS) == {k: v for k, v in expected.items() if v is not None}
