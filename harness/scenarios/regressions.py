"""Bugs of Kafka by the number of their issue: stories that bring each about, on the releases that have it.

What may live here: scenarios named after an issue. What may not: those of a KIP, which have a module each.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.faults.rpc import CLIENTS, HOLD, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Expectation, Scenario, Side, Source, on
from harness.model.story import FOLLOWERS, for_, heal, kill, once, one, seconds

FIRST_END = RpcRule("the first EndTxn", RpcMatch((Api.END_TXN,), "request", (CLIENTS,), nth=1), HOLD)

OPEN_AT_HEAL = Expectation("the late EndTxn comes while another transaction is open", "writers_open_at_heal", 1)
"""Without that nothing was tried, on either side."""

SOON = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
FENCED_SOON = {1: SOON, 2: SOON, 3: SOON}
"""Brokers whose partitions lose their leader three seconds after their death, and so while the transaction waits."""

KAFKA_17754 = Scenario(
    id="KAFKA-17754",
    title="An EndTxn that comes late ends the wrong transaction",
    question="A commit is kept back, sent again, and arrives at last while the producer's next transaction is open: "
    "is a record of the latter there, though it was aborted?",
    source=Source("KAFKA-17754"),
    nodes=2,
    layout="combined",
    workload="kafka-17754",
    story=(once(LEADER_KNOWN), intercept(FIRST_END), for_(seconds(8)), heal(), for_(seconds(2))),
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
    title="A transaction that is committed while one of its partitions has no leader never ends there",
    question="The coordinator is to write a marker to a partition whose only broker is down: does it do so once the "
    "broker is back, or take the partition for deleted?",
    source=Source("KAFKA-20734"),
    nodes=3,
    layout="combined",
    workload="kafka-20734",
    story=(
        once(ALL_FOLLOW_LEADER),
        for_(seconds(5)),
        kill(one(FOLLOWERS)),
        for_(seconds(12)),
        heal(),
        once(ALL_FOLLOW_LEADER),
        for_(seconds(6)),
    ),
    bad=Side(on(kafka="4.3.1"), breaks=("hanging-transaction",), node_switches=FENCED_SOON),
    good=Side(on(kafka="3.9.1"), node_switches=FENCED_SOON),
)

SCENARIOS = (KAFKA_17754, KAFKA_20734)
