"""Stories that no KIP tells, but that a reader of one asks about: each names what it questions."""

from __future__ import annotations

from harness.model.scenario import Scenario, Side, Source
from harness.model.story import (
    A_LEADER_IS_KNOWN,
    ALL_FOLLOW_ONE_LEADER,
    LEADER,
    SKEWED,
    cut,
    drift,
    for_,
    heal,
    once,
    one,
    seconds,
)

RAFT_THESIS = Source("Ongaro, Consensus: Bridging Theory and Practice")

EX_01 = Scenario(
    id="EX-01",
    title="A leader whose clock runs slow answers stale reads from its lease",
    question="Does a leader whose clocks go five times too slow, once cut off, read what others have overwritten?",
    source=RAFT_THESIS / "6.4.1, leases",
    nodes=3,
    story=(
        once(ALL_FOLLOW_ONE_LEADER),
        for_(seconds(1)),
        drift(one(LEADER), rate=0.2),
        cut(SKEWED),
        for_(seconds(6)),
        heal(),
        once(A_LEADER_IS_KNOWN),
        for_(seconds(1)),
    ),
    bad=Side({"reference.read_mode": "lease"}, None, breaks=("non-linearizable",)),
    good=Side({"reference.read_mode": "read-index"}, None),
    workload="register",
)

SCENARIOS = (EX_01,)
