"""Defects of released Kafka that no issue reports, about how followers fetch (docs/findings).

Contains EX-15. The other defects are in kafka_defects.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, all_follow
from harness.model.scenario import Scenario, Side, on
from harness.model.story import heal, lead, mark, pause, resume, seconds, sleep, wait_until
from harness.model.systems import BOOTSTRAP_NODES
from harness.scenarios.kafka_defects import KIP_853

FETCH_TIMEOUT_SECONDS, REQUEST_TIMEOUT_SECONDS = 10, 3
VOTER_SET_PERIOD_SECONDS = 3 * FETCH_TIMEOUT_SECONDS
"""After this time as a follower, and each time again, a voter compares itself with the voter set (KIP-853)."""

PAUSED_SECONDS = REQUEST_TIMEOUT_SECONDS + 1.0
"""The fetch that waits for the leader fails one second before the period ends, and the next one goes to a bootstrap
server."""

SHORT_REQUESTS = {
    "controller.quorum.fetch.timeout.ms": f"{FETCH_TIMEOUT_SECONDS * 1000}",
    "controller.quorum.request.timeout.ms": f"{REQUEST_TIMEOUT_SECONDS * 1000}",
}

FROM_N1 = {node: {BOOTSTRAP_NODES: "1"} for node in (2, 3)}

# While a fetch from a bootstrap server waits, which is the leader, the end of the period sends one more to the leader.
# This branch of pollFollowerAsVoter does not ask whether a fetch is in flight. The leader answers both with the record
# that it writes when it goes on. Simulation found it.
EX_15 = Scenario(
    id="EX-15",
    title="A follower that gets the same records twice exits when its leader was paused",
    question="Do followers survive a pause of the leader that is longer than the request timeout?",
    source=KIP_853 / "Voter changes",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        wait_until(BROKERS_LIVE),
        lead("n2"),
        lead("n1"),  # n2 and n3 begin to follow it now
        wait_until(all_follow(1)),
        sleep(seconds(VOTER_SET_PERIOD_SECONDS - PAUSED_SECONDS)),
        mark("the leader pauses until the period of the voter set ends"),
        pause("n1"),
        sleep(seconds(PAUSED_SECONDS + 0.8)),
        resume("n1"),
        sleep(seconds(5)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(kafka="3.9.1", kafka_switches=SHORT_REQUESTS),
        node_switches=FROM_N1,
        breaks=("server-exited",),
    ),
    good=Side(
        on(kafka="4.3.1", kafka_switches=SHORT_REQUESTS),
        node_switches=FROM_N1,
    ),
)

SCENARIOS = (EX_15,)
