"""Scenarios that no KIP describes but that a reader of one may ask about."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import LEADER, SKEWED, cut, drift, heal, one, seconds, sleep, wait_until

RAFT_THESIS = Source("Ongaro, Consensus: Bridging Theory and Practice")

EX_01 = Scenario(
    id="EX-01",
    title="A partitioned leader with a slow clock serves stale reads from its lease",
    question="Does a partitioned leader whose clocks run five times too slow return overwritten values?",
    source=RAFT_THESIS / "6.4.1, leases",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        sleep(seconds(1)),
        drift(one(LEADER), rate=0.2),
        cut(SKEWED),
        sleep(seconds(6)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(1)),
    ),
    bad=Side(on(reference={"reference.read_mode": "lease"}), breaks=("non-linearizable",)),
    good=Side(on(reference={"reference.read_mode": "read-index"})),
    workload="register",
)

SCENARIOS = (EX_01,)
