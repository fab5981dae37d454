"""KIP-996, Pre-Vote: elections, from the request for votes to the new leader, and elections that fail.

If a story needs a certain node as the first leader, `first_leader` gives the other nodes longer election timeouts. The
story then waits until all nodes follow that leader; the run is unknown if they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, all_follow, is_candidate, is_not_leader
from harness.model.faults.disks import lose_disk
from harness.model.faults.rpc import DROP, HOLD, Api, RpcMatch, RpcRule, intercept
from harness.model.measures import enters, grants
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, on
from harness.model.story import (
    LEADER,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    lead,
    mark,
    only_links,
    seconds,
    sleep,
    start,
    stop_clients,
    wait_until,
)
from harness.scenarios.expectations import (
    commit_gap,
    epochs_burned,
    grows,
    happens,
    later_than,
    leader_changes,
    leader_changes_until_heal,
    leader_deposed,
    no_leader,
)
from harness.scenarios.kip_996 import FETCH_TIMEOUT, KIP_996, WITHOUT_PRE_VOTE

ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
IDLE_INTERVAL = "metadata.max.idle.interval.ms"

NodeSwitches = Mapping[int, Mapping[str, str]]
"""Properties of single nodes."""


def first_leader(leader: int, nodes: int, others_ms: int = 3000) -> NodeSwitches:
    """Election timeouts that let this node campaign first, even if it starts two seconds after the others."""
    return {node: {ELECTION_TIMEOUT: "500" if node == leader else str(others_ms)} for node in range(1, nodes + 1)}


def merged(*parts: NodeSwitches) -> NodeSwitches:
    """The union of these properties, by node."""
    nodes = {node for part in parts for node in part}
    return {node: {name: text for part in parts for name, text in part.get(node, {}).items()} for node in nodes}


def drop_votes(name: str, sources: Iterable[int], targets: Iterable[int] = (), pre_vote: bool | None = None) -> RpcRule:
    """Drop Vote requests from sources to targets."""
    return RpcRule(name, RpcMatch((Api.VOTE,), "request", tuple(sources), tuple(targets), pre_vote), DROP)


CATCH_UP = sleep(seconds(1))
"""A new follower needs time to replicate the log; until then it gets no votes."""

N2_IS_MADE_LEADER = (wait_until(ALL_FOLLOW_LEADER), lead("n2"), wait_until(all_follow(2)), CATCH_UP)

# n1 receives no votes, so that there is time to partition it while it is a Candidate; n3 does not compete with it.
VOTES_OF_N1 = drop_votes("votes of n1", sources=(1,), pre_vote=False)
CAMPAIGN_OF_N3 = drop_votes("campaign of n3", sources=(3,), targets=(1,))
N2_FIRST = first_leader(2, nodes=3, others_ms=2500)

PV_11 = Scenario(
    id="PV-11",
    title="A partitioned candidate keeps incrementing its epoch",
    question="By how much does the epoch increase in 24 s if n1 is partitioned while it is a Candidate?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        intercept(VOTES_OF_N1, CAMPAIGN_OF_N3),
        kill("n2"),
        wait_until(is_candidate(1)),
        cut("n1"),
        start(),
        sleep(seconds(24)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(grows(1, at_least=5),), node_switches=N2_FIRST),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(grows(1, at_least=1),),
        never=(grows(1, at_least=2),),
        node_switches=N2_FIRST,
    ),
)

# The old voters do not campaign for 30 s, so only n1 can become leader before that.
OLD_VOTERS = {node: {"reference.pre_vote": "false", FETCH_TIMEOUT: "30000"} for node in (2, 3)}
OLD_AND_NEW = merged(OLD_VOTERS, {1: {ELECTION_TIMEOUT: "4000"}})
WITHOUT_FALLBACK = {"reference.mutant": "pre-vote-without-fallback"}

PV_25 = Scenario(
    id="PV-25",
    title="A Prospective among voters without Pre-Vote waits for pre-votes indefinitely",
    question="Is n1 elected after the leader is killed if n1 supports Pre-Vote and n2 and n3 do not?",
    source=KIP_996 / "Compatibility",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        wait_until(is_not_leader(1)),
        CATCH_UP,
        kill(LEADER),
        sleep(seconds(12)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(on(reference=WITHOUT_FALLBACK), shows=(no_leader(at_least_ms=10_000),), node_switches=OLD_AND_NEW),
    good=Side(
        on(reference={}, kafka="3.9.1", kafka_nodes={1: "newest 4"}),
        never=(no_leader(8000),),
        node_switches=OLD_AND_NEW,
    ),
)

# n1 requests pre-votes when the others no longer follow a leader. Two of them grant at once, so n1 becomes a Candidate.
# The pre-vote of n5 arrives while n1 waits for votes, of which only n3's arrives: counted as a vote, it is the third of
# five.
OTHERS_CAMPAIGN = drop_votes("campaigns of the others", sources=(2, 3, 4, 5))
TWO_VOTES = drop_votes("votes of n4 and n5", sources=(1,), targets=(4, 5), pre_vote=False)
LATE_PRE_VOTE = RpcRule("late pre-vote of n5", RpcMatch((Api.VOTE,), "response", (5,), (1,), pre_vote=True), HOLD)
LATE_GRANT = grants(source=5, target=1, pre_vote=True)
N1_LAST = merged(first_leader(2, nodes=5), {1: {FETCH_TIMEOUT: "3500"}})

PV_26 = Scenario(
    id="PV-26",
    title="A delayed pre-vote response is counted as a vote",
    question="Is n1 elected by its own vote, the vote of n3 and the pre-vote of n5?",
    source=KIP_996 / "Pre-Vote response handling",
    nodes=5,
    story=(
        wait_until(all_follow(2)),
        CATCH_UP,
        intercept(OTHERS_CAMPAIGN, TWO_VOTES, LATE_PRE_VOTE),
        kill("n2"),
        wait_until(is_candidate(1)),
        intercept(OTHERS_CAMPAIGN, TWO_VOTES),
        sleep(seconds(8)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(
        on(reference={"reference.mutant": "pre-vote-counted-as-vote"}),
        shows=(happens(LATE_GRANT), leader_changes_until_heal(1)),
        node_switches=N1_LAST,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(LATE_GRANT), happens(enters(State.CANDIDATE, node=1))),
        never=(leader_changes_until_heal(1),),
        node_switches=N1_LAST,
    ),
)

# n5 is isolated, so n3 and n4 need the vote of n2, which still fetches from the leader.
PV_28 = Scenario(
    id="PV-28",
    title="A leader without a majority prevents its last follower from voting for a new leader",
    question="Is a new leader elected if leader n1 reaches only n2, and n3 and n4 need the vote of n2?",
    source=KIP_996 / "Can Pre-Vote prevent a quorum from electing a leader?",
    nodes=5,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        mark("the leader reaches n2 only"),
        only_links({(1, 2), (2, 3), (2, 4), (3, 4)}, leader_as=1),
        sleep(seconds(15)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(
        on(reference={"reference.check_quorum": "false"}),
        shows=(commit_gap(at_least_ms=14_000),),
        never=(happens(enters(State.LEADER), until="heal"),),
    ),
    # Check Quorum expires after 3 s, and n3 and n4 need up to two election timeouts of at most 2 s.
    good=Side(
        on(reference={}, kafka="newest 4"),
        shows=(happens(enters(State.LEADER), until="heal"),),
        never=(later_than(7500, "the leader reaches n2 only", enters(State.LEADER)),),
    ),
)

# An idle leader appends nothing, so a partitioned node has a complete log and can be elected.
EQUAL_LOGS = {node: {IDLE_INTERVAL: "0"} for node in (1, 2, 3)}
FLAPPING_LINK = (only_links({(1, 3), (2, 3)}, leader_as=1), sleep(seconds(5)), heal(), sleep(seconds(2.5)))

PV_29 = Scenario(
    id="PV-29",
    title="Leadership alternates between two nodes with a flapping link",
    question="Does n1 stay leader if its link to n2 flaps, n3 reaches both, and all logs are equal?",
    source=KIP_996 / "Why do we need Followers to reject Pre-Vote requests?",
    nodes=3,
    story=(wait_until(ALL_FOLLOW_LEADER), *FLAPPING_LINK * 3, wait_until(LEADER_KNOWN)),
    full=(wait_until(ALL_FOLLOW_LEADER), *FLAPPING_LINK * 16, wait_until(LEADER_KNOWN)),  # two minutes
    bad=Side(
        on(reference={"reference.follower_denies_pre_vote": "false"}, kafka="3.9.1"),
        shows=(leader_deposed, leader_changes(at_least=2)),
        node_switches=EQUAL_LOGS,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1)), node_switches=EQUAL_LOGS
    ),
)

COMMITTED_DATA_LOSS = ("lost-write|non-linearizable", "high-watermark-went-back", "committed-record-not-on-leader")
"""An acknowledged write is gone. Reads of the reference system are linearizable; those of a controller are not."""

# n2 and n3 commit records that n1 does not have. n3 returns with an empty disk while n2 is partitioned. On Kafka 4.3.1
# n2 halts when it learns of the new leader, because it would have to truncate below its high watermark.
PV_32 = Scenario(
    id="PV-32",
    title="A voter with a replaced disk elects a lagging voter, and committed records are lost",
    question="Is n1, which lacks committed records, elected with the vote of n3, whose disk was replaced?",
    source=KIP_996 / "Covering disk loss scenario in scope",
    nodes=3,
    workload="register",
    story=(
        wait_until(all_follow(2)),
        cut("n1"),
        sleep(seconds(4)),
        stop_clients(),  # what they wrote last is on n2 and n3 alone
        lose_disk("n3"),
        heal_links([(1, 3), (3, 1)]),
        cut_links([(2, 3), (3, 2)]),
        start("n3"),
        sleep(seconds(15)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(4)),
    ),
    bad=Side(
        on(reference={}, kafka="newest 4"),
        breaks=COMMITTED_DATA_LOSS,
        may_break=("server-exited", "nonmonotonic-read", "committed-record-missing", "diverged-logs"),
        node_switches=N2_FIRST,
    ),
    good=Side(on(reference={"reference.new_disk_votes": "false"}), node_switches=N2_FIRST),
)

# In the KIP a leader resigns that "is unable to send FETCH responses" to a majority; Kafka counts the requests that it
# receives (KAFKA-15489, LeaderState.updateCheckQuorumForFollowingVoter). A follower that receives no response fetches
# again after its request timeout, 2 s, as long as it is a Follower; then it requests pre-votes for an election timeout.
# Kafka 4.3.1 with a fetch timeout of 6 s or 4 s: the leader never resigns, and nothing is committed until the heal.
# With the default of 2 s a follower fetches once before it requests pre-votes, so its fetches are 3 to 4 s apart, and
# Check Quorum just expires after 3 s. If the followers without responses are a majority by themselves, they elect a
# new leader, whose vote requests depose the old one at once (measured with three of four: within 0.7 s).
LOST_FETCH_RESPONSES = RpcRule("fetch responses of n2", RpcMatch((Api.FETCH,), "response", (2,), (3, 4)), DROP)

LONG_FETCH_TIMEOUT = merged(first_leader(2, nodes=5), {node: {FETCH_TIMEOUT: "6000"} for node in range(1, 6)})

PV_38 = Scenario(
    id="PV-38",
    title="A leader whose fetch responses are lost does not resign, because Check Quorum counts requests",
    question="Does leader n2 resign if n3 and n4 receive no responses and need the vote of n1 to replace it?",
    source=KIP_996 / "Can Pre-Vote prevent a quorum from electing a leader?",
    nodes=5,
    story=(
        wait_until(all_follow(2)),
        cut("n5"),
        intercept(LOST_FETCH_RESPONSES),
        sleep(seconds(25)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    bad=Side(
        on(reference={"reference.check_quorum_counts": "requests"}, kafka="newest 4"),
        shows=(commit_gap(at_least_ms=20_000),),
        node_switches=LONG_FETCH_TIMEOUT,
    ),
    good=Side(
        on(reference={}),
        never=(commit_gap(at_least_ms=12_000),),
        node_switches=LONG_FETCH_TIMEOUT,
    ),
)

SCENARIOS = (PV_11, PV_25, PV_26, PV_28, PV_29, PV_32, PV_38)
