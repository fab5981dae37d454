"""Defects of released Kafka that no issue reports: found with splitbrain, each with its cause in docs/findings.

Contains scenarios named EX-NN. Bugs with an issue number are in regressions.py.
"""

from __future__ import annotations

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    CAUGHT_UP,
    LEADER_KNOWN,
    all_follow,
    broker_live,
    has_leaders_log,
    is_not_leader,
    is_unattached,
)
from harness.model.faults.membership import add_voter, await_membership, remove_voter
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.requests import create_topic
from harness.model.faults.rpc import CLOSE, DROP, Api, RpcMatch, RpcRule, delay, intercept
from harness.model.measures import enters
from harness.model.quorum_states import State
from harness.model.scenario import Deployment, Scenario, Side, Source, on
from harness.model.story import (
    DOWN,
    LEADER,
    Step,
    both_ways,
    crash_loop,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    lead,
    mark,
    pause,
    resume,
    seconds,
    sleep,
    split,
    start,
    stop_clients,
    wait_until,
)
from harness.scenarios.expectations import grows, happens, no_leader, two_leaders
from harness.scenarios.kip_642_reference import BY_KIP_853
from harness.scenarios.kip_996_elections import first_leader, merged

KIP_853 = Source("KIP-853")


N1_LEADS = (wait_until(ALL_FOLLOW_LEADER), lead("n1"), wait_until(all_follow(1)))
_TRUNCATE = (
    *N1_LEADS,
    wait_until(BROKERS_LIVE),
    mark("n1 is cut off and appends records that are lost"),
    cut_links(both_ways((1, 2))),  # n2 lags, so that n3 wins the election
    sleep(seconds(1)),
    cut("n1"),
    create_topic("n1", "burst", partitions=1000, is_answered=False),
    wait_until(is_not_leader(1)),
    sleep(seconds(2)),
    heal_links(both_ways((1, 2), (1, 3), (1, 4))),
    wait_until(all_follow(3)),
    wait_until(CAUGHT_UP),
    sleep(seconds(1)),
)
_REPLACE_AND_SPLIT = (
    mark("n2 fails and is replaced by n4"),
    cut("n2"),
    remove_voter("n2"),
    await_membership(),
    add_voter("n4"),
    await_membership(),
    mark("n1 and n2 are split from n3 and n4"),
    heal_links(both_ways((1, 2))),
    split([1, 2], [3, 4]),
    sleep(seconds(15)),
    stop_clients(),
    heal_links(both_ways((1, 3), (1, 4), (2, 3), (2, 4))),
    sleep(seconds(5)),
)

EX_02 = Scenario(
    id="EX-02",
    title="A controller that truncates its log keeps removed voters, and two leaders commit",
    question="After a voter was replaced, do both sides of a network split elect a leader that commits?",
    source=KIP_853 / "Voter changes",
    nodes=4,
    voters=3,
    layout="combined",
    workload="register",
    story=(*_TRUNCATE, *_REPLACE_AND_SPLIT),
    bad=Side(
        on(kafka="4.3.1", reference={**BY_KIP_853, "reference.mutant": "voters-below-former-end-ignored"}),
        shows=(two_leaders(at_least_ms=5000),),
        breaks=(
            "stale-voters",
            "elected-without-majority",
            "high-watermark-went-back",
            "lost-write|non-linearizable",
            "committed-record-not-on-leader",
            "server-exited",
        ),
    ),
    good=Side(
        on(kafka="4.3.1", reference=BY_KIP_853),
        never=(two_leaders(at_least_ms=5000),),
        story=(*_TRUNCATE, kill("n1"), start("n1"), wait_until(all_follow(3)), *_REPLACE_AND_SPLIT),
    ),
)

NO_VOTER_FETCHES = RpcRule("fetches of voters", RpcMatch((Api.FETCH,), "request", (1, 2, 3), (1, 2, 3)), DROP)
NO_REGISTRATION = RpcRule(
    "registrations of n4", RpcMatch((Api.BROKER_REGISTRATION,), sources=(4,)), CLOSE, may_be_idle=True
)
"""Between following a leader and truncating its log, n4 knows voters of before, and might be registered."""
_FIRST_RECORDS = (
    mark("n4 alone fetches the first records"),
    intercept(NO_VOTER_FETCHES),
    start("n4"),
    wait_until(is_unattached(4)),
    start(DOWN),
    wait_until(has_leaders_log(4)),
    mark("another leader writes other records"),
    kill(LEADER),
    heal(),
    intercept(NO_REGISTRATION),
    wait_until(ALL_FOLLOW_LEADER),
    wait_until(has_leaders_log(4)),
    *(wait_until(broker_live(node)) for node in (1, 2, 3)),
    heal(),
)
_REGISTERED = ask(
    "n1",
    "DescribeCluster",
    0,
    {"include_cluster_authorized_operations": False},
    {"brokers.length": 4},
    listener="client",
    within=30,
    until_expected=True,
    name="the brokers",
)

# The voters of a node that does not vote are those of its log alone. After the truncation n4 reads none of the new
# records, since it takes those below the end that its log had as read: it knows no voter, and so no controller.
EX_13 = Scenario(
    id="EX-13",
    title="A broker that has truncated a new cluster's first records is never registered",
    question="Is n4 registered after it fetched records from a leader that was replaced before it committed them?",
    source=KIP_853 / "Voter changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*_FIRST_RECORDS, _REGISTERED),
    bad=Side(on(kafka="4.3.1"), breaks=("unexpected-response",)),
    good=Side(on(kafka="4.3.1"), story=(*_FIRST_RECORDS, kill("n4"), start("n4"), _REGISTERED)),
    not_started=(1, 2, 3, 4),
)

LONG_REQUESTS = {"controller.quorum.request.timeout.ms": "10000"}

PATIENT_FOLLOWER = merged(first_leader(1, nodes=3), {3: {"controller.quorum.fetch.timeout.ms": "10000"}})
"""Without Pre-Vote, up to 3.9, a resumed follower whose fetch timeout has passed deposes the leader first.

n1 leads from the beginning: what it sends to n3 while a cut makes it the leader could be unanswered until the removal.
"""

_PAUSE = (*N1_LEADS, sleep(seconds(2)), pause("n3"))

EX_03 = Scenario(
    id="EX-03",
    title="The leader exits when a removed voter responds to a BeginQuorumEpoch request",
    question="Does the leader survive the removal of a voter that was paused?",
    source=KIP_853 / "Voter changes",
    nodes=3,
    voters=3,
    layout="combined",
    workload="register",
    story=(
        *_PAUSE,
        sleep(seconds(3)),
        remove_voter("n3"),
        resume("n3"),
        sleep(seconds(12)),
        mark("an operator starts servers that have ended"),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(5)),  # a controller that was just started answers from an older image
    ),
    bad=Side(
        on(
            kafka="4.3.1",
            kafka_switches=LONG_REQUESTS,
            reference={**BY_KIP_853, **LONG_REQUESTS, "reference.mutant": "removed-voter-ends-leader"},
        ),
        node_switches=PATIENT_FOLLOWER,
        shows=(no_leader(at_least_ms=5000),),
        breaks=("server-exited",),
    ),
    good=Side(
        on(kafka="4.3.1", kafka_switches=LONG_REQUESTS, reference={**BY_KIP_853, **LONG_REQUESTS}),
        node_switches=PATIENT_FOLLOWER,
        never=(no_leader(at_least_ms=5000),),
        story=(
            *_PAUSE,
            sleep(seconds(3)),
            resume("n3"),
            wait_until(CAUGHT_UP),
            sleep(seconds(2)),
            remove_voter("n3"),
            await_membership(),
            sleep(seconds(12)),
        ),
    ),
)

LONG_ELECTION = {"controller.quorum.election.timeout.ms": "8000", **LONG_REQUESTS}
SLOW_VOTES = RpcRule("votes", RpcMatch((Api.VOTE,), "request", pre_vote=False), delay(3000))
"""A new leader is elected three seconds after the first candidacy, and until then no node knows one."""


def described_while_leaderless(bootstrap: str, addresses: str) -> tuple[Step, ...]:
    """The leader is killed, and the tool asks for the quorum's status at once."""
    return (
        wait_until(ALL_FOLLOW_LEADER),
        wait_until(BROKERS_LIVE),
        sleep(seconds(1)),
        intercept(SLOW_VOTES),
        kill(LEADER),
        run_tool(
            "kafka-metadata-quorum",
            [bootstrap, addresses, "describe", "--status"],
            output=[r"LeaderId:\s+\d"],
            within=90,
            name="the status during an election",
        ),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    )


# KafkaAdminClient$LeastLoadedBrokerOrActiveKController.provide() returns the controller of the last metadata, which is
# null if DescribeCluster has answered -1. ControllerNodeProvider requests new metadata then; this one does not.
EX_05 = Scenario(
    id="EX-05",
    title="An admin client that queries the controllers during an election hangs until its timeout",
    question="Does kafka-metadata-quorum describe the quorum if no leader is known for three seconds?",
    source=Source("KIP-919") / "Admin clients of controllers",
    nodes=3,
    layout="combined",
    story=described_while_leaderless("--bootstrap-controller", "$controllers"),
    bad=Side(on(kafka="4.3.1", kafka_switches=LONG_ELECTION), breaks=("unexpected-output",)),
    good=Side(
        on(kafka="4.3.1", kafka_switches=LONG_ELECTION),
        story=described_while_leaderless("--bootstrap-server", "$brokers"),
    ),
)

_N4_LEAVES = (
    wait_until(ALL_FOLLOW_LEADER),
    wait_until(BROKERS_LIVE),
    lead("n1"),
    wait_until(all_follow(1)),
    sleep(seconds(1)),
)
_N1_FAILS = (
    sleep(seconds(1)),
    mark("n1 fails"),
    kill("n1"),
    heal_links(both_ways((1, 2), (1, 3))),
    sleep(seconds(20)),
    mark("n1 returns"),
    start("n1"),
    wait_until(LEADER_KNOWN),
    wait_until(CAUGHT_UP),
)

_REMOVED_AND_LOST = (
    *_N4_LEAVES,
    cut_links(both_ways((1, 2), (1, 3))),
    remove_voter("n4", is_answered=False),
    *_N1_FAILS,
)

# n4 alone has the record that removes it. It is an observer by that record, and grants no vote to shorter logs. On the
# good side nothing is removed: n4 has the longest log, too, campaigns, and is elected. The reference plays the bad
# side's story there: a voter that is being removed campaigns by default.
EX_06 = Scenario(
    id="EX-06",
    title="A voter whose removal is not committed prevents the election of a leader",
    question="Do n2, n3 and n4 (three of four voters) elect a leader when n1 fails while it removes n4?",
    source=KIP_853 / "Remove voter",
    nodes=4,
    voters=4,
    layout="combined",
    story=_REMOVED_AND_LOST,
    bad=Side(
        on(kafka="4.3.1", reference={**BY_KIP_853, "reference.removed_voters_campaign": "false"}),
        shows=(no_leader(at_least_ms=18_000),),
        never=(happens(enters(State.LEADER), since="n1 fails", until="n1 returns"),),
        node_switches=first_leader(1, nodes=4),
    ),
    good=Side(
        on(
            kafka="4.3.1",
            reference=BY_KIP_853,
            reference_deployment=Deployment("combined", 4, 4, _REMOVED_AND_LOST, first_leader(1, nodes=4)),
        ),
        shows=(happens(enters(State.LEADER), since="n1 fails", until="n1 returns"),),
        node_switches=first_leader(1, nodes=4),
        story=(*_N4_LEAVES, cut_links(both_ways((1, 2), (1, 3))), sleep(seconds(1)), *_N1_FAILS),
    ),
)

SLOW_CHECK_QUORUM = {"controller.quorum.fetch.timeout.ms": "60000"}
"""A leader resigns after one and a half times as long without a majority: long enough for restarts."""


def _restarts(removes_the_leader: bool) -> tuple[Step, ...]:
    """n3 is cut off, n1 appends its own removal, which cannot be committed, and n2 restarts again and again."""
    return (
        wait_until(ALL_FOLLOW_LEADER),
        wait_until(all_follow(1)),
        sleep(seconds(1)),
        cut("n3"),
        *([remove_voter("n1", is_answered=False)] if removes_the_leader else []),
        sleep(seconds(1)),
        mark("n2 restarts"),
        *crash_loop("n2", times=3, up_seconds=12),
        mark("n3 returns"),
        heal_links(both_ways((1, 3), (2, 3))),
        sleep(seconds(5)),  # a leader that removed itself steps down
        start(DOWN),
        heal(),
        wait_until(LEADER_KNOWN),
    )


# By its log n2 votes with n3, and not with n1, whom its quorum-state names as the leader. A leader that is no voter has
# no address, so n2 is Unattached, and fetches from any bootstrap server. If n1 answers, and it does as the leader, then
# KafkaRaftClient.handleFetchResponse expects a Follower. Simulation found it.
EX_07 = Scenario(
    id="EX-07",
    title="A voter that restarts while a leader removes itself exits",
    question="Does n2 restart while leader n1 waits for the commit of its own removal?",
    source=KIP_853 / "Remove voter",
    nodes=3,
    voters=3,
    layout="combined",
    story=_restarts(removes_the_leader=True),
    bad=Side(
        on(
            kafka="4.3.1",
            kafka_switches=SLOW_CHECK_QUORUM,
            reference={
                **BY_KIP_853,
                **SLOW_CHECK_QUORUM,
                "reference.mutant": "unattached-ends-at-leaders-response",
            },
        ),
        node_switches=first_leader(1, nodes=3),
        breaks=("server-exited|server-cannot-start",),
    ),
    good=Side(
        on(kafka="4.3.1", kafka_switches=SLOW_CHECK_QUORUM, reference={**BY_KIP_853, **SLOW_CHECK_QUORUM}),
        node_switches=first_leader(1, nodes=3),
        story=_restarts(removes_the_leader=False),
    ),
)

RESTORED = "the links are restored"


def _restarts_alone(removes_the_leader: bool) -> tuple[Step, ...]:
    """n1, the leader, restarts while n1 and n2 are cut off from each other; n1 may append its own removal before."""
    return (
        *N1_LEADS,
        wait_until(BROKERS_LIVE),
        mark("n1 and n2 are cut off from each other"),
        cut_links(both_ways((1, 2))),
        *([remove_voter("n1", is_answered=False)] if removes_the_leader else []),
        sleep(seconds(1)),
        kill("n1"),
        start("n1"),
        mark(RESTORED),
        heal_links(both_ways((1, 2))),
        sleep(seconds(20)),
        *([await_membership(seconds(1), is_required=False)] if removes_the_leader else []),
    )


# By its log n1 is no voter and begins no election; by its log n2 needs the vote of n1, which rejects a shorter log. No
# node is down, so none can return. It is EX-06 with the leader as the voter that is removed. Simulation found it.
EX_11 = Scenario(
    id="EX-11",
    title="A leader that fails while it removes itself leaves a quorum of two voters without a leader forever",
    question="Do n1 and n2, both up and connected again, elect a leader?",
    source=KIP_853 / "Remove voter",
    nodes=2,
    voters=2,
    layout="combined",
    story=_restarts_alone(removes_the_leader=True),
    bad=Side(
        on(kafka="4.3.1", reference={**BY_KIP_853, "reference.removed_voters_campaign": "false"}),
        shows=(no_leader(at_least_ms=18_000),),
        never=(happens(enters(State.LEADER), since=RESTORED),),
        node_switches=first_leader(1, nodes=2),
    ),
    good=Side(
        on(
            kafka="4.3.1",
            reference=BY_KIP_853,
            reference_deployment=Deployment(
                "combined", 2, 2, _restarts_alone(removes_the_leader=True), first_leader(1, nodes=2)
            ),
        ),
        shows=(happens(enters(State.LEADER), since=RESTORED),),
        node_switches=first_leader(1, nodes=2),
        story=_restarts_alone(removes_the_leader=False),
    ),
)

RETURNS, END = "the former voter returns", "the three former voters end"
STRANDED = tuple(grows(node, 10, since=RETURNS, until=END) for node in (1, 2))
"""The epochs of n1 and n2 grow with each election of n3; with the leader's they would not."""

EX_08 = Scenario(
    id="EX-08",
    title="A former voter without Pre-Vote strands other nodes in epochs that never have a leader",
    question="Do n1 and n2, which are no longer voters, follow the leader after n3 has missed their removal?",
    source=KIP_853 / "Remove voter",
    nodes=5,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        mark("n3 is cut off, and n4 and n5 become the voters"),
        cut("n3"),
        *(step for node in ("n4", "n5") for step in (add_voter(node), await_membership())),
        *(step for node in ("n3", "n2", "n1") for step in (remove_voter(node), await_membership())),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
        mark(RETURNS),
        heal(),
        sleep(seconds(20)),
        mark(END),
        kill("n1"),
        kill("n2"),
        kill("n3"),
    ),
    bad=Side(
        on(kafka="3.9.1", reference={**BY_KIP_853, "reference.pre_vote": "false"}),
        shows=STRANDED,
    ),
    good=Side(
        on(kafka="4.3.1", reference=BY_KIP_853),
        shows=(happens(enters(State.FOLLOWER, node=3), since=RETURNS, until=END),),
        never=STRANDED,
    ),
)

SCENARIOS = (EX_02, EX_03, EX_05, EX_06, EX_07, EX_08, EX_11, EX_13)
