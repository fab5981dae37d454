"""KIP-996, Pre-Vote: what a Prospective does until it is elected, gives up, or finds a leader.

Contains scenarios in which n1 loses its leader. Those about the election that follows are in kip_996_elections.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, all_follow, is_candidate
from harness.model.faults.disks import lose_disk
from harness.model.faults.rpc import Api, intercept
from harness.model.measures import Event, enters, grants, sends, starts_as
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, on
from harness.model.story import (
    FOLLOWERS,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    mark,
    one,
    pause,
    resume,
    seconds,
    sleep,
    start,
    wait_until,
)
from harness.scenarios.expectations import (
    commit_gap,
    epochs_burned,
    grows,
    happens,
    leader_deposed,
    longest,
    shortest,
)
from harness.scenarios.kip_996 import FETCH_TIMEOUT, KIP_996, WITHOUT_PRE_VOTE
from harness.scenarios.kip_996_elections import (
    CAMPAIGN_OF_N3,
    CATCH_UP,
    ELECTION_TIMEOUT,
    N2_FIRST,
    N2_IS_MADE_LEADER,
    VOTES_OF_N1,
    first_leader,
    merged,
)

N1_N2 = [(1, 2), (2, 1)]
"""Both directions of the link between n1 and the leader n2."""

N1_IS_PROSPECTIVE = enters(State.PROSPECTIVE, node=1)
N1_IS_CANDIDATE = enters(State.CANDIDATE, node=1)
PRE_VOTES_OF_N1 = sends(Api.VOTE, source=1, pre_vote=True)
STANDARD_VOTES_OF_N1 = sends(Api.VOTE, source=1, pre_vote=False)

WITHOUT_LEADER = (
    wait_until(all_follow(2)),
    CATCH_UP,
    cut_links(N1_N2),
    sleep(seconds(12)),
    heal(),
    wait_until(LEADER_KNOWN),
    sleep(seconds(2)),
)
"""n1 loses the link to its leader, which n3 keeps."""

PV_06 = Scenario(
    id="PV-06",
    title="A follower increments its epoch at its fetch timeout before it knows whether it can be elected",
    question="Does n1 request pre-votes in its own epoch, and write nothing, when it loses the link to its leader?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=WITHOUT_LEADER,
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(happens(N1_IS_CANDIDATE), grows(1, at_least=1)),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(N1_IS_PROSPECTIVE), happens(PRE_VOTES_OF_N1)),
        never=(happens(STANDARD_VOTES_OF_N1), grows(1, at_least=1)),
        node_switches=N2_FIRST,
    ),
)

PV_09 = Scenario(
    id="PV-09",
    title="A node that loses an election does not return to the leader that it knows",
    question="Does n1, whose pre-vote n3 denies, follow n2 again in the same epoch?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=WITHOUT_LEADER,
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(leader_deposed, grows(1, at_least=1)),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(enters(State.FOLLOWER, node=1, previous=State.PROSPECTIVE)),),
        never=(
            happens(enters(State.UNATTACHED, node=1, previous=State.PROSPECTIVE)),
            leader_deposed,
            grows(1, at_least=1),
        ),
        node_switches=N2_FIRST,
    ),
)

PV_42 = Scenario(
    id="PV-42",
    title="A follower without a link to its leader alternates between Prospective and Follower",
    question="Is the alternation no faster than one fetch timeout, and without effect on the leader?",
    source=KIP_996 / "Why do we need Followers to reject Pre-Vote requests?",
    nodes=3,
    story=(*WITHOUT_LEADER[:3], sleep(seconds(25)), *WITHOUT_LEADER[4:]),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(enters(State.FOLLOWER, node=1, previous=State.PROSPECTIVE), at_least=4),
            shortest(1900, enters(State.FOLLOWER, node=1), N1_IS_PROSPECTIVE),  # the fetch timeout is 2 s
        ),
        never=(leader_deposed, epochs_burned(at_least=1)),
        node_switches=N2_FIRST,
    ),
)

# n3 waits longer than n1 for its leader, so only n1 campaigns.
PATIENT_N3 = {3: {FETCH_TIMEOUT: "6000", ELECTION_TIMEOUT: "3000"}}
N1_CAMPAIGNS = merged(N2_FIRST, PATIENT_N3, {1: {ELECTION_TIMEOUT: "1000"}})

PV_07 = Scenario(
    id="PV-07",
    title="An election takes one epoch: pre-votes of a majority come before votes",
    question="Does n1 collect pre-votes before it increments its epoch, and is one epoch enough to replace the leader?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=(wait_until(all_follow(2)), CATCH_UP, kill("n2"), sleep(seconds(9)), heal(), wait_until(LEADER_KNOWN)),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(grants(pre_vote=True), until="heal"),
            shortest(0, sends(Api.VOTE, pre_vote=True), sends(Api.VOTE, pre_vote=False)),
            epochs_burned(at_least=1),
        ),
        never=(epochs_burned(at_least=2),),
        node_switches=merged(N2_FIRST, {3: {FETCH_TIMEOUT: "6000"}}),
    ),
)

UNCLASSIFIED_VOTES = Event(
    "rpcs",
    "Vote requests that say neither pre-vote nor vote",
    (("api_key", int(Api.VOTE)), ("direction", "request"), ("pre_vote", None)),
)

PV_36 = Scenario(
    id="PV-36",
    title="Pre-votes cannot be distinguished from votes",
    question="Does every Vote request state which one it is, and does the log name the state in which it was sent?",
    source=KIP_996 / "Rejected alternatives",
    nodes=3,
    story=(wait_until(all_follow(2)), CATCH_UP, kill("n2"), sleep(seconds(9)), heal(), wait_until(LEADER_KNOWN)),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(sends(Api.VOTE, pre_vote=True)),
            happens(sends(Api.VOTE, pre_vote=False)),
            happens(enters(State.PROSPECTIVE)),
            happens(enters(State.CANDIDATE, previous=State.PROSPECTIVE)),
        ),
        never=(happens(UNCLASSIFIED_VOTES), happens(enters(State.CANDIDATE, previous=State.FOLLOWER))),
        node_switches=N2_FIRST,
    ),
)

# n1 returns with an empty disk, so it knows neither an epoch nor a leader.
PV_08 = Scenario(
    id="PV-08",
    title="A node that knows no leader keeps incrementing its epoch",
    question="Does n1, which knows no leader and reaches no other node, stay in its epoch until its links heal?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=(
        *N2_IS_MADE_LEADER,
        lose_disk("n1"),
        cut("n1"),
        start("n1"),
        sleep(seconds(15)),
        mark("n1 is reachable"),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(happens(N1_IS_CANDIDATE, at_least=3),),
        may_break=("vote-changed",),  # its vote was lost with its disk
        node_switches=merged(N2_FIRST, {1: {ELECTION_TIMEOUT: "1000"}}),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(enters(State.UNATTACHED, node=1, previous=State.PROSPECTIVE), at_least=2),
            happens(enters(State.FOLLOWER, node=1), since="n1 is reachable"),
        ),
        never=(happens(N1_IS_CANDIDATE), leader_deposed),
        node_switches=merged(N2_FIRST, {1: {ELECTION_TIMEOUT: "1000"}}),
    ),
)

# n3 hears all that n1 asks, but its votes in the election itself do not reach n1.
PV_12 = Scenario(
    id="PV-12",
    title="A candidate whose election times out waits longer and longer before it tries again",
    question="Does n1 send pre-votes before each further attempt, without an exponential backoff?",
    source=KIP_996 / "CandidateState changes",
    nodes=3,
    alone=True,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        intercept(VOTES_OF_N1, CAMPAIGN_OF_N3),
        kill("n2"),
        sleep(seconds(20)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(
            happens(enters(State.PROSPECTIVE, node=1, previous=State.CANDIDATE), at_least=4),
            happens(enters(State.CANDIDATE, node=1, previous=State.PROSPECTIVE), at_least=4),
        ),
        never=(longest(2000, N1_IS_CANDIDATE, enters(State.PROSPECTIVE, node=1, previous=State.CANDIDATE)),),
        node_switches=merged(N2_FIRST, {1: {ELECTION_TIMEOUT: "900"}}),
    ),
)

N2_RESIGNS = enters(State.RESIGNED, node=2)
N2_IS_UNATTACHED = enters(State.UNATTACHED, node=2, previous=State.RESIGNED)
N2_IS_PROSPECTIVE = enters(State.PROSPECTIVE, node=2)
ISOLATED_LEADER = (
    wait_until(all_follow(2)),
    CATCH_UP,
    mark("n2 is cut off"),
    cut("n2"),
    sleep(seconds(10)),
    heal(),
    wait_until(LEADER_KNOWN),
    sleep(seconds(2)),
)

PV_16 = Scenario(
    id="PV-16",
    title="A leader that resigned follows itself",
    question="Does n2 leave its epoch when it resigns, and follow no node while it reaches none?",
    source=KIP_996 / "ResignedState changes",
    nodes=3,
    story=ISOLATED_LEADER,
    bad=Side(
        on(reference={"reference.mutant": "resigned-keeps-its-epoch"}),
        shows=(happens(enters(State.FOLLOWER, node=2), until="heal"),),
        breaks=("illegal-transition",),
        node_switches=N2_FIRST,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(N2_RESIGNS), happens(N2_IS_UNATTACHED), grows(2, at_least=1)),
        never=(happens(enters(State.FOLLOWER, node=2), until="heal"), grows(2, at_least=2)),
        node_switches=N2_FIRST,
    ),
)

PV_17 = Scenario(
    id="PV-17",
    title="A leader that resigned waits for a second election timeout",
    question="Does n2 request pre-votes as soon as it is Unattached, because its election timeout has passed?",
    source=KIP_996 / "ResignedState changes",
    nodes=3,
    story=ISOLATED_LEADER,
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(N2_IS_UNATTACHED), shortest(0, N2_IS_UNATTACHED, N2_IS_PROSPECTIVE)),
        never=(longest(250, N2_IS_UNATTACHED, N2_IS_PROSPECTIVE),),
        node_switches=N2_FIRST,
    ),
)

# The idle leader appends a record every half second, which n1 does not receive.
PV_21 = Scenario(
    id="PV-21",
    title="A voter whose log is behind starts elections and increments its epoch",
    question="Is n1, whose log lacks records that n3 has, denied pre-votes, so that it never becomes a Candidate?",
    source=KIP_996 / "Pre-Vote request handling",
    nodes=3,
    story=(
        *N2_IS_MADE_LEADER,
        cut("n1"),
        sleep(seconds(3)),
        kill("n2"),
        heal_links([(1, 3), (3, 1)]),
        sleep(seconds(9)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(2)),
    ),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"),
        shows=(happens(N1_IS_CANDIDATE), epochs_burned(at_least=2)),
        node_switches=N1_CAMPAIGNS,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(N1_IS_PROSPECTIVE), happens(enters(State.LEADER, node=3))),
        never=(happens(N1_IS_CANDIDATE),),
        node_switches=N1_CAMPAIGNS,
    ),
)

# With different fetch timeouts n2 and n3 are not Prospective at the same time, when they would grant each other.
N1_FIRST = merged(first_leader(1, nodes=3, others_ms=1500), {3: {FETCH_TIMEOUT: "2300"}})

PV_23 = Scenario(
    id="PV-23",
    title="Two followers deny each other pre-votes because each still trusts the old leader",
    question="Do n2 and n3, which reach each other, elect a leader if n3 loses n1 first and n2 loses it later?",
    source=KIP_996 / "Why do we need Followers to reject Pre-Vote requests?",
    nodes=3,
    story=(
        wait_until(all_follow(1)),
        CATCH_UP,
        cut_links([(1, 3), (3, 1)]),
        sleep(seconds(6)),
        cut("n1"),
        sleep(seconds(15)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(2)),
    ),
    bad=Side(
        on(reference={"reference.mutant": "followers-always-deny-pre-vote"}),
        shows=(commit_gap(at_least_ms=12_000),),
        node_switches=N1_FIRST,
    ),
    good=Side(on(reference={}, kafka="newest 4"), never=(commit_gap(at_least_ms=8000),), node_switches=N1_FIRST),
)

PV_27 = Scenario(
    id="PV-27",
    title="A majority of pre-votes and the rejection by an older voter arrive in either order",
    question="Does n1 become a Candidate once, in one new epoch, if two of five voters do not support Pre-Vote?",
    source=KIP_996 / "Compatibility",
    nodes=5,
    story=(
        *N2_IS_MADE_LEADER,
        kill("n2"),
        sleep(seconds(9)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(
        on(reference={}, kafka="newest 4", kafka_nodes={4: "3.9.1", 5: "3.9.1"}),
        shows=(happens(N1_IS_CANDIDATE), happens(enters(State.LEADER, node=1)), grows(1, at_least=1)),
        never=(happens(N1_IS_CANDIDATE, at_least=2), grows(1, at_least=2)),
        node_switches=merged(
            {node: {ELECTION_TIMEOUT: "500" if node == 2 else "2500"} for node in range(1, 6)},
            {node: {FETCH_TIMEOUT: "8000"} for node in (3, 4, 5)},
            {node: {"reference.pre_vote": "false"} for node in (4, 5)},
        ),
    ),
)

REACHES_VOTERS = mark("n1 reaches n3, n4 and n5")
CANDIDATE_AGAIN = "reference.candidate_backoff"
MANY_REJECT_N1 = merged(
    {node: {ELECTION_TIMEOUT: {1: "2500", 2: "500"}.get(node, "9000")} for node in range(1, 6)},
    {node: {FETCH_TIMEOUT: "30000"} for node in (3, 4, 5)},
    {node: {"reference.pre_vote": "false"} for node in (2, 3, 4, 5)},
)

# A voter rejects n1, whose log is shorter. Only voters without Pre-Vote let it become a Candidate. They would campaign
# after their own election timeout, 9 s or more.
PV_13 = Scenario(
    id="PV-13",
    title="Candidates that lose an election compete repeatedly",
    question="How often does n1 become Candidate within 8 s if a majority rejects it each time?",
    source=KIP_996 / "CandidateState",
    nodes=5,
    story=(
        *N2_IS_MADE_LEADER,
        cut("n1"),
        sleep(seconds(4)),
        kill("n2"),
        REACHES_VOTERS,
        heal_links([link for other in (3, 4, 5) for link in ((1, other), (other, 1))]),
        sleep(seconds(8)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    bad=Side(
        on(reference={CANDIDATE_AGAIN: "exponential"}, kafka="3.9.1"),
        shows=(happens(N1_IS_CANDIDATE, at_least=7, since=REACHES_VOTERS.value, until="heal"),),
        node_switches=MANY_REJECT_N1,
    ),
    good=Side(
        on(reference={CANDIDATE_AGAIN: "remaining"}, kafka="3.9.1", kafka_nodes={1: "newest 4"}),
        shows=(happens(N1_IS_CANDIDATE, at_least=2, since=REACHES_VOTERS.value, until="heal"),),
        never=(happens(N1_IS_CANDIDATE, at_least=7, since=REACHES_VOTERS.value, until="heal"),),
        node_switches=MANY_REJECT_N1,
    ),
)

FLAKY_FOLLOWER = (cut(one(FOLLOWERS)), sleep(seconds(5)), heal(), sleep(seconds(2)))

PV_35 = Scenario(
    id="PV-35",
    title="Disruptions become more frequent as the quorum grows",
    question="Does a quorum of 3, 5 or 7 nodes keep its leader if one follower after another is cut off for 5 s?",
    source=KIP_996 / "Motivation",
    nodes=5,
    sizes=(3, 7),
    story=(wait_until(ALL_FOLLOW_LEADER), *FLAKY_FOLLOWER * 4, wait_until(LEADER_KNOWN)),
    full=(wait_until(ALL_FOLLOW_LEADER), *FLAKY_FOLLOWER * 86, wait_until(LEADER_KNOWN)),  # ten minutes
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(leader_deposed, epochs_burned(at_least=4))),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1))),
)

# The leader pauses for less than its own check of the quorum, 15 s; n1 becomes a Candidate in that time and is killed.
# A start as Prospective (reference.starts_as_prospective) would not help: n1 has incremented its epoch, and a leader
# steps down on a pre-vote of a later epoch (PV-19).
PV_41 = Scenario(
    id="PV-41",
    title="A node that was killed as a Candidate deposes a healthy leader when it starts",
    question="Does n1 request pre-votes after a restart, if its quorum-state file has its vote for itself?",
    source=KIP_996 / "QuorumState changes",
    nodes=3,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        intercept(VOTES_OF_N1, CAMPAIGN_OF_N3),
        pause("n2"),
        wait_until(is_candidate(1)),
        kill("n1"),
        resume("n2"),
        heal(),
        sleep(seconds(6)),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(starts_as(State.CANDIDATE, node=1)), leader_deposed),
        node_switches=merged(N2_FIRST, {2: {FETCH_TIMEOUT: "10000"}}),
    ),
)

SCENARIOS = (PV_06, PV_07, PV_08, PV_09, PV_12, PV_13, PV_16, PV_17, PV_21, PV_23, PV_27, PV_35, PV_36, PV_41, PV_42)
