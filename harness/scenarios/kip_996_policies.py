"""KIP-996, Pre-Vote: what the KIP rejects, its invariants under many faults, and what Kafka does otherwise.

Contains scenarios whose sides differ in a policy of the reference system, and those that judge every transition.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, all_follow, is_not_leader, is_prospective
from harness.model.faults.rpc import intercept
from harness.model.measures import enters
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import (
    ALL,
    FOLLOWERS,
    LEADER,
    Step,
    crash_loop,
    cut,
    cut_links,
    heal,
    kill,
    mark,
    pause,
    restart,
    resume,
    seconds,
    sleep,
    stop,
    wait_until,
)
from harness.scenarios.expectations import (
    commit_gap,
    epochs_burned,
    grows,
    happens,
    later_than,
    leader_changes,
    leader_deposed,
)
from harness.scenarios.kip_996 import KIP_996
from harness.scenarios.kip_996_elections import CATCH_UP, IDLE_INTERVAL, N2_FIRST, N2_IS_MADE_LEADER, drop_votes, merged
from harness.scenarios.kip_996_prospective import N1_N2, WITHOUT_LEADER

MANY_TRANSITIONS = (
    wait_until(ALL_FOLLOW_LEADER),
    cut(FOLLOWERS),
    sleep(seconds(5)),
    heal(),
    wait_until(ALL_FOLLOW_LEADER),
    cut(LEADER),
    sleep(seconds(7)),
    heal(),
    wait_until(ALL_FOLLOW_LEADER),
    *restart(LEADER),
    wait_until(ALL_FOLLOW_LEADER),
    pause(LEADER),
    sleep(seconds(5)),
    resume(),
    wait_until(ALL_FOLLOW_LEADER),
    kill(LEADER),
    sleep(seconds(4)),
    heal(),
    wait_until(ALL_FOLLOW_LEADER),
)
"""Every way in which a node leaves a state, but for the loss of an election."""

PV_05 = Scenario(
    id="PV-05",
    title="A node makes a transition that is not in the KIP's table",
    question="Is every transition legal while followers and leaders are cut off, paused, stopped and killed?",
    source=KIP_996 / "QuorumState changes",
    nodes=3,
    story=MANY_TRANSITIONS,
    bad=Side(on(reference={"reference.mutant": "resigned-keeps-its-epoch"}), breaks=("illegal-transition",)),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(enters(State.CANDIDATE, previous=State.PROSPECTIVE)),
            happens(enters(State.UNATTACHED, previous=State.RESIGNED)),
        ),
        never=(
            happens(enters(State.CANDIDATE, previous=State.FOLLOWER)),
            happens(enters(State.CANDIDATE, previous=State.UNATTACHED)),
        ),
    ),
)

PV_34 = Scenario(
    id="PV-34",
    title="An invariant of the KIP's TLA+ model is violated under random faults",
    question="Are there two leaders in an epoch, divergent logs, lost writes, or a node that stays Prospective?",
    source=KIP_996 / "Test Plan",
    nodes=3,
    workload="register",
    story=(*MANY_TRANSITIONS, sleep(seconds(3))),
    bad=Side(
        on(reference={"reference.mutant": "half-is-a-majority"}),
        breaks=("two-leaders-in-one-epoch", "committed-record-not-on-leader"),
        may_break=(
            "high-watermark-went-back",
            "high-watermark-without-majority",
            "non-linearizable",
            "elected-without-majority",
            "server-exited",
            "committed-record-missing",
            "diverged-logs",
        ),
        story=(
            wait_until(ALL_FOLLOW_LEADER),
            *(cut(ALL), sleep(seconds(8)), heal(), wait_until(LEADER_KNOWN), sleep(seconds(2))) * 3,
        ),
    ),
    good=Side(on(reference={}, kafka="newest 4"), shows=(leader_changes(at_least=3),)),
)

# n1 is Prospective while the others elect a leader. Votes to and from n1 are dropped, so it takes no part in that.
NO_VOTES_WITH_N1 = (
    drop_votes("votes of n1", sources=(1,)),
    drop_votes("votes of the others to n1", sources=(3, 4, 5), targets=(1,)),
)

PV_10 = Scenario(
    id="PV-10",
    title="A Prospective ignores a leader that was elected in the meantime",
    question="Does n1 go from Prospective to Follower when the new leader announces itself?",
    source=KIP_996 / "New ProspectiveState",
    nodes=5,
    story=(
        *N2_IS_MADE_LEADER,
        intercept(*NO_VOTES_WITH_N1),
        cut_links(N1_N2),
        wait_until(is_prospective(1)),
        mark("n2 is killed"),
        kill("n2"),
        wait_until(is_not_leader(2)),
        sleep(seconds(4)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(enters(State.FOLLOWER, node=1, previous=State.PROSPECTIVE), since="n2 is killed"),
            grows(1, at_least=1, since="n2 is killed"),
        ),
        never=(
            happens(enters(State.UNATTACHED, node=1), since="n2 is killed", until="heal"),
            happens(enters(State.CANDIDATE, node=1)),
        ),
    ),
)


def isolated_follower(*first: Step) -> tuple[Step, ...]:
    """n1 is cut off for 12 s; these steps come before it is reachable again."""
    return (
        wait_until(all_follow(2)),
        CATCH_UP,
        cut("n1"),
        sleep(seconds(12)),
        *first,
        mark("n1 is reachable"),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(10)),
    )


# With Pre-Vote, n1 alternates between Prospective and Follower while it is cut off; as a Follower it need not change.

PV_31 = Scenario(
    id="PV-31",
    title="Voters reject votes within their fetch timeout, and a disruptive server cannot rejoin",
    question="Does n1 rejoin as a follower in the leader's epoch after 12 s without links?",
    source=KIP_996 / "Rejected alternatives",
    nodes=3,
    story=isolated_follower(),
    bad=Side(
        on(reference={"reference.pre_vote": "false", "reference.deny_votes_within_fetch_timeout": "true"}),
        shows=(grows(1, at_least=3), happens(enters(State.CANDIDATE, node=1), since="n1 is reachable")),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}),
        story=isolated_follower(wait_until(is_prospective(1))),
        shows=(happens(enters(State.FOLLOWER, node=1), since="n1 is reachable"),),
        never=(
            grows(1, at_least=1),
            later_than(4000, "n1 is reachable", enters(State.FOLLOWER, node=1)),
            leader_deposed,
        ),
        node_switches=N2_FIRST,
    ),
)

PV_37 = Scenario(
    id="PV-37",
    title="A Prospective that loses its election does not return to the leader that it knows",
    question="Does n1 follow n2 again as soon as it loses, or only when n2 sends it BeginQuorumEpoch?",
    source=KIP_996 / "Rejected alternatives",
    nodes=3,
    story=WITHOUT_LEADER,
    bad=Side(
        on(reference={"reference.prospective_follows": "begin-quorum"}),
        shows=(happens(enters(State.UNATTACHED, node=1, previous=State.PROSPECTIVE), until="heal"),),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}),
        shows=(happens(enters(State.FOLLOWER, node=1, previous=State.PROSPECTIVE), until="heal"),),
        never=(happens(enters(State.UNATTACHED, node=1, previous=State.PROSPECTIVE), until="heal"),),
        node_switches=N2_FIRST,
    ),
)

N2_IS_STOPPED = "n2 is stopped"
DENIED = happens(enters(State.FOLLOWER, previous=State.PROSPECTIVE), since=N2_IS_STOPPED, until="heal")
"""A successor asked for pre-votes, was denied them, and follows the leader that has resigned."""

PV_39 = Scenario(
    id="PV-39",
    title="The preferred successor of a leader that shuts down loses the election",
    question="Does the first successor that n2 names get the pre-votes of the others, which have just fetched from n2?",
    source=Source("KAFKA-20895"),
    nodes=5,
    story=(
        *N2_IS_MADE_LEADER,
        mark(N2_IS_STOPPED),
        stop("n2"),
        sleep(seconds(6)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    bad=Side(
        on(reference={}, kafka="4.3.1"),
        shows=(DENIED, leader_deposed),
    ),
    good=Side(
        on(reference={"reference.end_quorum_grants": "true"}),
        shows=(leader_deposed,),
        never=(DENIED,),
    ),
)

KIP_642 = Source("KIP-642")

# The high watermark rises with the election, about 3 s after the kill, and not again: without that, the gap would be
# the whole story.
RA_29 = Scenario(
    id="RA-29",
    title="The high watermark of an idle quorum does not advance after an election",
    question="Does the high watermark rise in the new epoch although no client writes?",
    source=KIP_642 / "Leader change message",
    nodes=3,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        kill("n2"),
        wait_until(is_not_leader(2)),
        sleep(seconds(5)),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(leader_deposed,),
        never=(commit_gap(at_least_ms=7000),),
        node_switches=merged(N2_FIRST, {node: {IDLE_INTERVAL: "0"} for node in (1, 2, 3)}),
    ),
)

RA_31 = Scenario(
    id="RA-31",
    title="A crash leaves a torn quorum-state file",
    question="Does every voter restart with its epoch and its vote after it was killed many times?",
    source=KIP_642 / "QuorumState",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        *crash_loop(LEADER, times=3, up_seconds=3),
        *crash_loop(FOLLOWERS, times=3, up_seconds=2),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(on(reference={"reference.mutant": "vote-forgotten-on-restart"}), breaks=("vote-forgotten",)),
    good=Side(on(reference={}, kafka="newest 4"), shows=(leader_deposed, epochs_burned(at_least=1))),
)

SCENARIOS = (PV_05, PV_10, PV_31, PV_34, PV_37, PV_39, RA_29, RA_31)
