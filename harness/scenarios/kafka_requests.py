"""Defects of released Kafka that no issue reports: messages between nodes that are sent twice, or lack a field.

Contains EX-15 to EX-17. The other defects are in kafka_defects.py.
"""

from __future__ import annotations

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    CAUGHT_UP,
    LEADER_KNOWN,
    all_follow,
    has_leaders_log,
    is_follower,
    is_leader,
    responds,
)
from harness.model.faults.membership import add_voter, await_membership, remove_voter
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
from harness.scenarios.kip_996_elections import first_leader

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
    title="A follower that receives the same records twice exits after its leader was paused",
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
    title="A voter that does not know of a new voter exits when the new voter resigns",
    question="Does n3, which was down while n5 was added, survive the resignation of n5?",
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


def _new_node(removes_the_leader: bool) -> tuple[Step, ...]:
    """n1 leads, and may append its own removal; n1 and n2 fail, n2 returns, and n4 starts for the first time."""
    return (
        wait_until(is_leader(1)),
        *(wait_until(is_follower(node)) for node in (2, 3)),
        wait_until(has_leaders_log(2)),
        mark("n3 goes down"),
        kill("n3"),
        *([remove_voter("n1", is_answered=False)] if removes_the_leader else []),
        sleep(seconds(1)),
        mark("n1 and n2 fail, and n2 returns"),
        kill("n1"),
        kill("n2"),
        start("n2"),
        wait_until(responds(2)),
        mark("n4 starts for the first time"),
        start("n4"),
        sleep(seconds(6)),
        mark("n1 and n3 return"),
        start(DOWN),
        heal(),
        wait_until(LEADER_KNOWN),
        wait_until(CAUGHT_UP),
    )


# By its log n2 votes with n3, and not with n1, whom its quorum-state names as the leader. So it has no endpoints of n1,
# but names it in its answers. n4 has no voters yet in which it could look for them. Simulation found it.
EX_17 = Scenario(
    id="EX-17",
    title="A new node exits when it fetches from a voter that names a leader without endpoints",
    question="Can n4 start for the first time while n1, which was removing itself, is down?",
    source=KIP_853 / "Fetch",
    nodes=4,
    voters=3,
    layout="combined",
    story=_new_node(removes_the_leader=True),
    bad=Side(on(kafka="4.3.1"), node_switches=first_leader(1, nodes=4), breaks=("server-exited",)),
    good=Side(
        on(kafka="4.3.1"),
        node_switches=first_leader(1, nodes=4),
        story=_new_node(removes_the_leader=False),
    ),
    not_started=(4,),
)

SCENARIOS = (EX_15, EX_16, EX_17)
