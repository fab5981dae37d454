"""Bugs of Kafka by the number of their issue: stories that bring each about, on the releases that have it.

What may live here: scenarios named after an issue. What may not: those of a KIP, which have a module each.
"""

from __future__ import annotations

from harness.model.rpc import CLIENTS, HOLD, Api, RpcMatch, RpcRule, disturb
from harness.model.scenario import Expectation, Scenario, Side, Source
from harness.model.story import A_LEADER_IS_KNOWN, for_, heal, once, seconds

FIRST_END = RpcRule("the first EndTxn", RpcMatch((Api.END_TXN,), "request", (CLIENTS,), nth=1), HOLD)

OPEN_AT_HEAL = Expectation("the late EndTxn comes while another transaction is open", "writers_open_at_heal", 1)
"""Without that nothing was tried, on either side."""

KAFKA_17754 = Scenario(
    id="KAFKA-17754",
    title="An EndTxn that comes late ends the wrong transaction",
    question="A commit is kept back, sent again, and arrives at last while the producer's next transaction is open: "
    "is a record of the latter there, though it was aborted?",
    source=Source("KAFKA-17754"),
    nodes=2,
    layout="combined",
    workload="kafka-17754",
    story=(once(A_LEADER_IS_KNOWN), disturb(FIRST_END), for_(seconds(8)), heal(), for_(seconds(2))),
    bad=Side(
        None,
        "3.9.1",
        shows=(OPEN_AT_HEAL,),
        breaks=("aborted-read", "precommitted-read", "torn-transaction"),
        workload_options={"client": "librdkafka"},
    ),
    good=Side(None, "newest 4", shows=(OPEN_AT_HEAL,), workload_options={"client": "epoch-bumping"}),
)

SCENARIOS = (KAFKA_17754,)
