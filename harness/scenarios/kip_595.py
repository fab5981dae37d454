"""KIP-595, leader progress timeout: a leader that a majority no longer follows must resign."""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN
from harness.model.measures import enters
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import LEADER, cut, heal, mark, seconds, sleep, wait_until
from harness.scenarios.expectations import epochs_burned, happens, leader_deposed, two_leaders

KIP_595 = Source("KIP-595")

LP_01 = Scenario(
    id="LP-01",
    title="A partitioned leader continues to respond as leader",
    question="How long does a partitioned leader claim leadership after the others have elected a new leader?",
    source=KIP_595 / "Leader Progress Timeout",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        cut(LEADER),
        sleep(seconds(12)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(on(reference={"reference.check_quorum": "false"}, kafka="3.6.2"), shows=(two_leaders(at_least_ms=5000),)),
    good=Side(on(reference={}, kafka="newest 4"), never=(two_leaders(at_least_ms=3000),)),
)

LP_05 = Scenario(
    id="LP-05",
    title="A partitioned leader rejoins with an inflated epoch and forces an election",
    question="Does an old leader that rejoins after 20 s depose the leader that the other nodes have elected?",
    source=KIP_595 / "Leader Progress Timeout",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        cut(LEADER),
        sleep(seconds(20)),
        mark("the old leader rejoins"),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(5)),
    ),
    bad=Side(
        on(reference={"reference.pre_vote": "false"}, kafka="3.9.1"),
        shows=(
            happens(enters(State.LEADER), since="the old leader rejoins"),
            epochs_burned(at_least=6),
        ),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(leader_deposed,),
        never=(
            happens(enters(State.LEADER), since="the old leader rejoins"),
            happens(enters(State.RESIGNED), since="the old leader rejoins"),
            epochs_burned(at_least=3),
        ),
    ),
)

SCENARIOS = (LP_01, LP_05)
