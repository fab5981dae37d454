"""KIP-996, Pre-Vote: elections themselves, as they are asked for, granted, lost and found again.

Where a story needs the same node in the same role from beginning to end, `first_leader` sees to who leads: the others
wait longer before the first election. Such a story waits until all follow that node, and is unknown where they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.model.conditions import ALL_FOLLOW_LEADER, LEADER_KNOWN, all_follow, is_candidate, is_not_leader
from harness.model.faults.disks import lose_disk
from harness.model.faults.rpc import DROP, HOLD, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, on
from harness.model.story import (
    FOLLOWERS,
    LEADER,
    cut,
    cut_links,
    for_,
    heal,
    heal_links,
    kill,
    once,
    only_links,
    seconds,
    start,
)
from harness.scenarios.expectations import (
    commit_gap,
    epochs_burned,
    epochs_burned_until_heal,
    leader_changes,
    leader_changes_until_heal,
    leader_deposed,
    no_leader,
)
from harness.scenarios.kip_996 import KIP_996, WITHOUT_PRE_VOTE

ELECTION_TIMEOUT = "controller.quorum.election.timeout.ms"
FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
IDLE_INTERVAL = "metadata.max.idle.interval.ms"

OfNode = Mapping[int, Mapping[str, str]]


def first_leader(leader: int, nodes: int, others_ms: int = 3000) -> OfNode:
    """Election timeouts by which this node stands first, though its process may start two seconds after the others."""
    return {node: {ELECTION_TIMEOUT: "500" if node == leader else str(others_ms)} for node in range(1, nodes + 1)}


def along(*parts: OfNode) -> OfNode:
    """All of these properties together."""
    nodes = {node for part in parts for node in part}
    return {node: {name: text for part in parts for name, text in part.get(node, {}).items()} for node in nodes}


def votes(name: str, sources: Iterable[int], targets: Iterable[int] = (), pre_vote: bool | None = None) -> RpcRule:
    """Vote requests of these nodes to those are lost."""
    return RpcRule(name, RpcMatch((Api.VOTE,), "request", tuple(sources), tuple(targets), pre_vote), DROP)


CATCHES_UP = for_(seconds(1))
"""Whoever has just begun to follow needs a moment for the log, or nobody will vote for it."""

# n1 never hears of its election, so that there is time to cut it off as a candidate; n3 does not stand in its way.
VOTES_OF_N1 = votes("votes of n1", sources=(1,), pre_vote=False)
CAMPAIGN_OF_N3 = votes("the campaign of n3", sources=(3,), targets=(1,))
N2_FIRST = first_leader(2, nodes=3, others_ms=2500)

PV_11 = Scenario(
    id="PV-11",
    title="A candidate that is cut off goes on raising its epoch",
    question="How far does the epoch of n1 grow in 24 s, cut off just when it became a candidate?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=(
        once(all_follow(2)),
        CATCHES_UP,
        intercept(VOTES_OF_N1, CAMPAIGN_OF_N3),
        kill("n2"),
        once(is_candidate(1)),
        cut("n1"),
        start(),
        for_(seconds(24)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(3)),
    ),
    bad=Side(
        on(reference=WITHOUT_PRE_VOTE, kafka="3.9.1"), shows=(epochs_burned_until_heal(5),), node_switches=N2_FIRST
    ),
    good=Side(on(reference={}, kafka="newest 4"), never=(epochs_burned_until_heal(4),), node_switches=N2_FIRST),
)

FOLLOWER_RESTARTS = (kill(FOLLOWERS), start(), once(ALL_FOLLOW_LEADER), for_(seconds(1)))

PV_15 = Scenario(
    id="PV-15",
    title="A voter forgets over a restart whom it voted for, and may vote twice in an epoch",
    question="Does each voter's file still name its vote after a kill and a start?",
    source=KIP_996 / "FollowerState changes",
    nodes=3,
    story=(once(ALL_FOLLOW_LEADER), *FOLLOWER_RESTARTS * 4),
    bad=Side(on(reference={"reference.mutant": "vote-forgotten-on-restart"}), breaks=("vote-forgotten",)),
    good=Side(on(reference={}, kafka="newest 4")),
)

# The older voters would wait half a minute before they campaign: until then a new leader can only be n1's doing.
OLD = {node: {"reference.pre_vote": "false", FETCH_TIMEOUT: "30000"} for node in (2, 3)}
OLD_AND_NEW = along(OLD, {1: {ELECTION_TIMEOUT: "4000"}})
WAITS_FOR_EVER = {"reference.mutant": "pre-vote-without-fallback"}

PV_25 = Scenario(
    id="PV-25",
    title="A prospective among older voters waits for ever for pre-votes that they do not know",
    question="n1 knows Pre-Vote, n2 and n3 do not: does n1 replace a leader that was killed?",
    source=KIP_996 / "Compatibility",
    nodes=3,
    story=(
        once(ALL_FOLLOW_LEADER),
        once(is_not_leader(1)),
        CATCHES_UP,
        kill(LEADER),
        for_(seconds(12)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(3)),
    ),
    bad=Side(on(reference=WAITS_FOR_EVER), shows=(no_leader(at_least_ms=10_000),), node_switches=OLD_AND_NEW),
    good=Side(
        on(reference={}, kafka="3.9.1", kafka_nodes={1: "newest 4"}),
        never=(no_leader(8000),),
        node_switches=OLD_AND_NEW,
    ),
)

# n1 asks for pre-votes when the others no longer follow, and has two grants at once, which make it a candidate; the
# third comes when its calls for votes are out, of which only n3's is answered: with n5's it would make three of five.
OTHERS_CAMPAIGN = votes("campaigns of the others", sources=(2, 3, 4, 5))
TWO_VOTES = votes("votes of n4 and n5", sources=(1,), targets=(4, 5), pre_vote=False)
LATE = RpcRule("a late pre-vote", RpcMatch((Api.VOTE,), "response", (5,), (1,), pre_vote=True), HOLD)
N1_ASKS_LAST = along(first_leader(2, nodes=5), {1: {FETCH_TIMEOUT: "3500"}})

PV_26 = Scenario(
    id="PV-26",
    title="A pre-vote that comes late is counted as a vote",
    question="Is n1 elected by its own vote, that of n3, and the pre-vote of n5, where n4 and n5 never hear its call?",
    source=KIP_996 / "Pre-Vote response handling",
    nodes=5,
    story=(
        once(all_follow(2)),
        CATCHES_UP,
        intercept(OTHERS_CAMPAIGN, TWO_VOTES, LATE),
        kill("n2"),
        once(is_candidate(1)),
        intercept(OTHERS_CAMPAIGN, TWO_VOTES),
        for_(seconds(8)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(3)),
    ),
    bad=Side(
        on(reference={"reference.mutant": "pre-vote-counted-as-vote"}),
        shows=(leader_changes_until_heal(1),),
        node_switches=N1_ASKS_LAST,
    ),
    good=Side(on(reference={}, kafka="newest 4"), never=(leader_changes_until_heal(1),), node_switches=N1_ASKS_LAST),
)

# 5 is cut off from everyone, so that a majority of the others takes the vote of 2, which still fetches from the leader.
PV_28 = Scenario(
    id="PV-28",
    title="A leader that serves one follower of four keeps that one from electing another",
    question="Leader 1 sees only 2, and 3 and 4 need the vote of 2: is there a new leader, and when?",
    source=KIP_996 / "Can Pre-Vote prevent a quorum from electing a leader?",
    nodes=5,
    story=(
        once(ALL_FOLLOW_LEADER),
        only_links({(1, 2), (2, 3), (2, 4), (3, 4)}, leader_as=1),
        for_(seconds(15)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(3)),
    ),
    bad=Side(on(reference={"reference.check_quorum": "false"}), shows=(commit_gap(at_least_ms=14_000),)),
    good=Side(on(reference={}, kafka="newest 4"), never=(commit_gap(at_least_ms=12_000),)),
)

# An idle leader appends nothing: whoever was cut off has a log as long as the others', and may be voted for.
EQUAL_LOGS = {node: {IDLE_INTERVAL: "0"} for node in (1, 2, 3)}
FLICKER = (only_links({(1, 3), (2, 3)}, leader_as=1), for_(seconds(5)), heal(), for_(seconds(2.5)))

PV_29 = Scenario(
    id="PV-29",
    title="Leadership bounces between two servers whose link is flaky",
    question="The link of leader 1 and 2 flickers, 3 sees both, and all logs are equal: does 1 go on leading?",
    source=KIP_996 / "Why do we need Followers to reject Pre-Vote requests?",
    nodes=3,
    story=(once(ALL_FOLLOW_LEADER), *FLICKER, *FLICKER, *FLICKER, once(LEADER_KNOWN)),
    bad=Side(
        on(reference={"reference.follower_denies_pre_vote": "false"}, kafka="3.9.1"),
        shows=(leader_deposed, leader_changes(at_least=2)),
        node_switches=EQUAL_LOGS,
    ),
    good=Side(
        on(reference={}, kafka="newest 4"), never=(leader_deposed, epochs_burned(at_least=1)), node_switches=EQUAL_LOGS
    ),
)

LOSES_WHAT_WAS_COMMITTED = ("high-watermark-went-back", "committed-record-not-on-leader")

# n2 and n3 commit what n1 never sees; n3 comes back with nothing when it is n2's turn to be cut off. On Kafka 4.3.1 n2,
# once it hears of the new leader, ends itself: it would have to truncate what is committed.
PV_32 = Scenario(
    id="PV-32",
    title="A voter with a new disk elects a laggard, and what was committed is lost",
    question="Is n1, cut off while n2 and n3 committed, elected with the vote of n3, whose disk is new?",
    source=KIP_996 / "Covering disk loss scenario in scope",
    nodes=3,
    story=(
        once(all_follow(2)),
        cut("n1"),
        for_(seconds(4)),
        lose_disk("n3"),
        heal_links([(1, 3), (3, 1)]),
        cut_links([(2, 3), (3, 2)]),
        start("n3"),
        for_(seconds(15)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(4)),
    ),
    bad=Side(on(reference={}, kafka="newest 4"), breaks=LOSES_WHAT_WAS_COMMITTED, node_switches=N2_FIRST),
    good=Side(on(reference={"reference.new_disk_votes": "false"}), node_switches=N2_FIRST),
)

# The KIP has a leader step down that "is unable to send FETCH responses" to a majority; Kafka counts the requests that
# come in (KAFKA-15489, LeaderState.updateCheckQuorumForFollowingVoter). A follower that hears nothing fetches again
# after its request timeout, 2 s, as long as it follows, and then asks for pre-votes for one election timeout instead.
# Kafka 4.3.1 with a fetch timeout of 6 s, or 4 s: the leader never steps down, and nothing is committed until all is
# healed. With the default of 2 s a follower fetches once and then asks, so that its requests come 3 to 4 s apart, and
# Check Quorum, after 3 s, saves the quorum by a hair. Followers that hear nothing and are a majority by themselves
# elect another, whose call for votes deposes the old leader at once (measured with three of four: within 0.7 s).
UNHEARD = RpcRule("fetch answers of n2", RpcMatch((Api.FETCH,), "response", (2,), (3, 4)), DROP)

RETRIES = along(first_leader(2, nodes=5), {node: {FETCH_TIMEOUT: "6000"} for node in range(1, 6)})

PV_38 = Scenario(
    id="PV-38",
    title="Check Quorum counts fetches that came in, so a leader whose answers are lost stays and blocks the quorum",
    question="Where n3 and n4 never hear leader n2 again, and need the vote of n1, which does: does n2 step down?",
    source=KIP_996 / "Can Pre-Vote prevent a quorum from electing a leader?",
    nodes=5,
    story=(
        once(all_follow(2)),
        cut("n5"),
        intercept(UNHEARD),
        for_(seconds(25)),
        heal(),
        once(LEADER_KNOWN),
        for_(seconds(3)),
    ),
    bad=Side(on(reference={}, kafka="newest 4"), shows=(commit_gap(at_least_ms=20_000),), node_switches=RETRIES),
    good=Side(
        on(reference={"reference.check_quorum_counts": "responses"}),
        never=(commit_gap(at_least_ms=15_000),),
        node_switches=RETRIES,
    ),
)

SCENARIOS = (PV_11, PV_15, PV_25, PV_26, PV_28, PV_29, PV_32, PV_38)
