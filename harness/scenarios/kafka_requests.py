"""Defects of released Kafka that no issue reports: requests between voters that are sent twice, or lack a field.

Contains EX-15 and EX-16. The other defects are in kafka_defects.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, CAUGHT_UP, all_follow, responds
from harness.model.faults.membership import add_voter, await_membership
from harness.model.scenario import Scenario, Side, on
from harness.model.story import (
    DOWN,
    Step,
    heal,
    kill,
    lead,
    mark,
    pause,
    resume,
    seconds,
    sleep,
    start,
    wait_until,
)
from harness.model.systems import BOOTSTRAP_NODES
from harness.scenarios.kafka_defects import KIP_853, N1_LEADS

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

N5_IS_ADDED = (add_voter("n5"), await_membership(), wait_until(CAUGHT_UP))


def _power_failure_after(*changed: Step) -> tuple[Step, ...]:
    """n5 is added and leads; all nodes fail, and n3 is the first to return, and n5 the second."""
    return (
        *N1_LEADS,
        wait_until(BROKERS_LIVE),
        *changed,
        lead("n5"),
        mark("power failure: n3 returns first, and then n5"),
        *(kill(node) for node in ("n1", "n2", "n4", "n5")),
        start("n3"),
        wait_until(responds(3)),
        start("n5"),
        sleep(seconds(6)),
        start(DOWN),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    )


FROM_ORIGINAL_VOTERS = {3: {BOOTSTRAP_NODES: "1,2,4"}}
"""n3 does not ask n5, whose answer would name its endpoints."""

# n5 led when it failed, so it begins as Resigned and sends EndQuorumEpoch to all voters. The request names the leader,
# but never its endpoints, and by its own log n3 knows no n5. Simulation found it.
EX_16 = Scenario(
    id="EX-16",
    title="A voter that does not know of a new voter exits when that one resigns",
    question="Does n3, which was down while n5 was added, survive that n5 resigns?",
    source=KIP_853 / "EndQuorumEpoch",
    nodes=5,
    voters=4,
    layout="combined",
    story=_power_failure_after(mark("n3 is down while n5 is added and elected"), kill("n3"), *N5_IS_ADDED),
    bad=Side(on(kafka="4.3.1"), node_switches=FROM_ORIGINAL_VOTERS, breaks=("server-exited",)),
    good=Side(
        on(kafka="4.3.1"),
        node_switches=FROM_ORIGINAL_VOTERS,
        story=_power_failure_after(*N5_IS_ADDED, mark("n3 knows n5 when it goes down"), kill("n3")),
    ),
)

SCENARIOS = (EX_15, EX_16)
