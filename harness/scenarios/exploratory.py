"""Stories that no KIP tells, but that a reader of one asks about: each names what it questions."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import LEADER, SKEWED, cut, drift, for_, heal, once, one, seconds

RAFT_THESIS = Source("Ongaro, Consensus: Bridging Theory and Practice")

EX_01 = Scenario(
    id="EX-01",
    title="A leader whose clock runs slow answers stale reads from its lease",
    question="Does a leader whose clocks go five times too slow, once cut off, read what others have overwritten?",
    source=RAFT_THESIS / "6.4.1, leases",
    nodes=3,
    story=(
        once(ALL_FOLLOW_LEADER),
        for_(seconds(1)),
        drift(one(LEADER), rate=0.2),
        cut(SKEWED),
        for_(seconds(6)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(1)),
    ),
    bad=Side(on(reference={"reference.read_mode": "lease"}), breaks=("non-linearizable",)),
    good=Side(on(reference={"reference.read_mode": "read-index"})),
    workload="register",
)

SCENARIOS = (EX_01,)
