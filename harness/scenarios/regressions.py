"""Bugs of Kafka by issue number, each reproduced on a release that has it.

Contains scenarios named after an issue. Scenarios of a KIP have a module for each KIP.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.faults.rpc import CLIENTS, HOLD, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Expectation, Scenario, Side, Source, on
from harness.model.story import FOLLOWERS, heal, kill, one, seconds, sleep, wait_until

FIRST_END_TXN = RpcRule("first EndTxn", RpcMatch((Api.END_TXN,), "request", (CLIENTS,), nth=1), HOLD)

OPEN_AT_HEAL = Expectation("the late EndTxn arrives while another transaction is open", "writers_open_at_heal", 1)
"""Required on both sides: otherwise the story did not test anything."""

SHORT_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
SHORT_SESSIONS = {1: SHORT_SESSION, 2: SHORT_SESSION, 3: SHORT_SESSION}
"""A killed broker is fenced after three seconds, so its partitions have no leader while the transaction waits."""

KAFKA_17754 = Scenario(
    id="KAFKA-17754",
    title="A delayed EndTxn request ends the producer's next transaction",
    question="If an EndTxn commit is retried and the first copy arrives during the next transaction, does a consumer "
    "read records of that transaction although it aborts?",
    source=Source("KAFKA-17754"),
    nodes=2,
    layout="combined",
    workload="kafka-17754",
    story=(wait_until(LEADER_KNOWN), intercept(FIRST_END_TXN), sleep(seconds(8)), heal(), sleep(seconds(2))),
    bad=Side(
        on(kafka="3.9.1"),
        shows=(OPEN_AT_HEAL,),
        breaks=("aborted-read", "precommitted-read", "torn-transaction"),
        workload_options={"client": "librdkafka"},
    ),
    good=Side(
        on(kafka="newest 4"),
        shows=(OPEN_AT_HEAL,),
        needs_features={"transaction.version": 1},
        workload_options={"client": "epoch-bumping"},
    ),
)

KAFKA_20734 = Scenario(
    id="KAFKA-20734",
    title="A transaction that commits while one of its partitions has no leader never ends in that partition",
    question="Does the coordinator write the commit marker to a partition without a leader once its broker is back?",
    source=Source("KAFKA-20734"),
    nodes=3,
    layout="combined",
    workload="kafka-20734",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        sleep(seconds(5)),
        kill(one(FOLLOWERS)),
        sleep(seconds(12)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
        sleep(seconds(6)),
    ),
    bad=Side(on(kafka="4.3.1"), breaks=("hanging-transaction",), node_switches=SHORT_SESSIONS),
    good=Side(on(kafka="3.9.1"), node_switches=SHORT_SESSIONS),
)

SCENARIOS = (KAFKA_17754, KAFKA_20734)
