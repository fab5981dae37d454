"""Scenarios that send single requests to chosen nodes, and compare their responses with what the KIPs say.

The requests are those of a node that takes part in the protocol, but it is the test that sends them: it can ask for a
vote in an epoch, or with a log, that no healthy node would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    LEADER_KNOWN,
    all_follow,
    is_follower,
    is_prospective,
    is_unattached,
    responds,
)
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.measures import enters
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import LEADER, Step, Who, cut, heal, kill, lead, mark, start, wait_until
from harness.scenarios.expectations import grows, happens, leader_deposed
from harness.scenarios.kip_595 import KIP_595
from harness.scenarios.kip_642_reference import BY_KIP_642, FOLLOWERS_REFUSE, KIP_642
from harness.scenarios.kip_996 import KIP_996
from harness.scenarios.kip_996_elections import (
    CATCH_UP,
    ELECTION_TIMEOUT,
    IDLE_INTERVAL,
    N2_FIRST,
    drop_votes,
    merged,
)

METADATA_TOPIC = "__cluster_metadata"
PARTITION = "topics.0.partitions.0"
"""Where a response has the only partition of the quorum."""

OWN = "$own_epoch"
LONGEST = 1_000_000
"""An end of a log that is beyond that of every node."""


def quorum_request(partition: Mapping[str, Any], cluster_id: str = "$cluster_id") -> dict[str, Any]:
    """The fields that the quorum's requests share."""
    topic = {"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}
    return {"cluster_id": cluster_id, "topics": [topic]}


def ask_vote(
    who: Who,
    name: str,
    expect: Mapping[str, Any],
    *,
    pre_vote: bool,
    epoch: str = "$epoch",
    candidate: int | str = "$other",
    log: tuple[str | int, str | int] = ("$epoch", LONGEST),
) -> Step:
    """A Vote request of a candidate whose log ends at this epoch and offset. expect has fields of the partition."""
    fields = {"replica_epoch": epoch, "replica_id": candidate, "last_offset_epoch": log[0], "last_offset": log[1]}
    values = {**quorum_request({**fields, "pre_vote": pre_vote}), "voter_id": "$node"}
    return ask(who, Api.VOTE, 2, values, {f"{PARTITION}.{field}": value for field, value in expect.items()}, name=name)


def pre_vote_of(candidate: int, name: str, expect: Mapping[str, Any], epoch: str = OWN, end: int = LONGEST) -> Step:
    """A pre-vote that this node asks of n1, with a log that ends in n1's epoch."""
    return ask_vote("n1", name, expect, pre_vote=True, epoch=epoch, candidate=candidate, log=(OWN, end))


def vote_of(candidate: int, name: str, expect: Mapping[str, Any], end: int = LONGEST) -> Step:
    """A vote that this node asks of n1 in n1's epoch, with a log that ends in the epoch before."""
    return ask_vote("n1", name, expect, pre_vote=False, epoch=OWN, candidate=candidate, log=("$own_epoch-1", end))


GRANTED, DENIED = {"vote_granted": True}, {"vote_granted": False}
FENCED = {"error_code": "fenced_leader_epoch"}
GOOD = on(reference={}, kafka="newest 4")
N2_LEADS = (wait_until(all_follow(2)), CATCH_UP)

PV_19 = Scenario(
    id="PV-19",
    title="A leader steps down because of a pre-vote request",
    question="Does n2 deny pre-votes of its epoch, reject older ones, and step down only for a later epoch?",
    source=KIP_996 / "Pre-Vote request handling",
    nodes=3,
    story=(
        *N2_LEADS,
        ask_vote("n2", "a pre-vote of the leader's epoch", DENIED, pre_vote=True),
        ask_vote("n2", "a pre-vote of an older epoch", FENCED, pre_vote=True, epoch="$epoch-1", log=(0, 0)),
        mark("a pre-vote of a later epoch"),
        ask_vote("n2", "a pre-vote of a later epoch", GRANTED, pre_vote=True, epoch="$epoch+1"),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(
        GOOD,
        shows=(happens(enters(State.UNATTACHED, node=2), since="a pre-vote of a later epoch"),),
        never=(happens(enters(State.UNATTACHED, node=2), until="a pre-vote of a later epoch"),),
        node_switches=N2_FIRST,
    ),
)

PATIENT = merged(N2_FIRST, {1: {ELECTION_TIMEOUT: "6000"}})
"""n1 stays Prospective for long enough to be asked several times."""

PV_20 = Scenario(
    id="PV-20",
    title="Only one of several pre-vote requests is granted, or a grant is stored",
    question="Does Prospective n1 grant the pre-votes of both n2 and n3, and stay in its epoch?",
    source=KIP_996 / "Pre-Vote request handling",
    nodes=3,
    story=(
        *N2_LEADS,
        cut("n1"),
        wait_until(is_prospective(1)),
        pre_vote_of(3, "a pre-vote of n3", GRANTED),
        pre_vote_of(2, "a pre-vote of n2", GRANTED),
        pre_vote_of(3, "a pre-vote of n3 with a shorter log", DENIED, end=0),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(GOOD, never=(grows(1, at_least=1), leader_deposed), node_switches=PATIENT),
)

PV_14 = Scenario(
    id="PV-14",
    title="A Prospective votes twice, or for a node with a shorter log",
    question="Does Prospective n1 vote only once in an epoch without a leader, and not while it knows the leader?",
    source=KIP_996 / "New ProspectiveState",
    nodes=3,
    story=(
        *N2_LEADS,
        cut("n1"),
        wait_until(is_prospective(1)),
        vote_of(3, "a vote while the leader is known", DENIED),
        pre_vote_of(3, "a later epoch, without a leader", GRANTED, epoch="$own_epoch+1"),
        wait_until(is_unattached(1)),
        wait_until(is_prospective(1)),
        vote_of(3, "a vote for a shorter log", DENIED, end=0),
        vote_of(3, "the first vote, for n3", GRANTED),
        vote_of(3, "the same vote again", GRANTED),
        vote_of(2, "a vote for n2 in the same epoch", DENIED),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(
        GOOD,
        shows=(happens(enters(State.PROSPECTIVE, node=1, voted=3)),),
        never=(grows(1, at_least=2),),
        node_switches=PATIENT,
    ),
)

PV_15 = Scenario(
    id="PV-15",
    title="A voter forgets its vote on restart and can vote twice in one epoch",
    question="Does n1, which has voted for n3, deny n2 its vote in the same epoch after a restart?",
    source=KIP_996 / "FollowerState changes",
    nodes=3,
    story=(
        *N2_LEADS,
        cut("n1"),
        pre_vote_of(3, "a later epoch, without a leader", GRANTED, epoch="$own_epoch+1"),
        vote_of(3, "the first vote, for n3", GRANTED),
        kill("n1"),
        start("n1"),
        wait_until(responds(1)),
        vote_of(2, "a vote for n2 in the same epoch", DENIED),
        vote_of(3, "the same vote again", GRANTED),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(reference={"reference.mutant": "vote-forgotten-on-restart"}),
        breaks=("vote-forgotten", "unexpected-response"),
        may_break=("vote-changed",),
        node_switches=PATIENT,
    ),
    good=Side(GOOD, node_switches=PATIENT),
)

NEVER_FETCHED = (
    drop_votes("votes of n1", sources=(1,)),
    RpcRule("fetches of n1 from n3", RpcMatch((Api.FETCH,), "request", (1,), (3,)), DROP),
)
"""n3 wins the election, and n1 follows it without a fetch that succeeds."""

PV_22 = Scenario(
    id="PV-22",
    title="A follower grants a pre-vote although it fetches from a healthy leader",
    question="Does n1 deny a pre-vote while it fetches from n2, and grant one if it has never reached its leader?",
    source=KIP_996 / "Pre-Vote request handling",
    nodes=3,
    story=(
        *N2_LEADS,
        ask_vote("n1", "a pre-vote while n1 fetches", DENIED, pre_vote=True),
        intercept(*NEVER_FETCHED),
        kill("n2"),
        wait_until(is_prospective(1)),
        wait_until(is_follower(1)),
        pre_vote_of(2, "a pre-vote before the first fetch", GRANTED),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(reference={"reference.mutant": "followers-always-deny-pre-vote"}),
        breaks=("unexpected-response",),
        node_switches=PATIENT,
    ),
    good=Side(GOOD, node_switches=PATIENT),
)

JMX = "9999"
SERVES_METRICS = {"splitbrain.jmx.port": JMX}


def metric_is(node: int, state: str) -> Step:
    """The metric current-state of a node, read by JMX."""
    url = f"service:jmx:rmi:///jndi/rmi://$n{node}_host:{JMX}/jmxrmi"
    options = ["--jmx-url", url, "--object-name", "kafka.server:type=raft-metrics", "--attributes", "current-state"]
    arguments = [*options, "--one-time"]
    return run_tool("kafka-jmx", arguments, output=[rf",{state}$"], no_output=["voted$"], name=f"n{node} is {state}")


PV_33 = Scenario(
    id="PV-33",
    title="Metrics show states that the log does not",
    question="Is current-state prospective while n1 is Prospective, and never 'voted'?",
    source=KIP_996 / "Public Interfaces",
    nodes=3,
    story=(
        *N2_LEADS,
        metric_is(2, "leader"),
        metric_is(1, "follower"),
        cut("n1"),
        wait_until(is_prospective(1)),
        metric_is(1, "prospective"),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(
        on(kafka="newest 4", kafka_switches=SERVES_METRICS),
        shows=(happens(enters(State.PROSPECTIVE, node=1)),),
        node_switches=PATIENT,
    ),
)

INVALID = {"error_code": "invalid_request"}
NEXT = "$epoch+1"

PV_40 = Scenario(
    id="PV-40",
    title="A pre-vote request with an impossible epoch is accepted",
    question="Is a request rejected if its last log epoch is later than its epoch or, for a vote, equal to it?",
    source=Source("Kafka") / "KafkaRaftClient.handleVoteRequest",
    nodes=3,
    story=(
        *N2_LEADS,
        ask_vote("n1", "a pre-vote with a log of a later epoch", INVALID, pre_vote=True, log=(NEXT, 0)),
        ask_vote("n1", "a vote with a log of its own epoch", INVALID, pre_vote=False, epoch=NEXT, log=(NEXT, 0)),
        ask_vote(LEADER, "a vote with a log of a later epoch", INVALID, pre_vote=False, log=(NEXT, 0)),
    ),
    good=Side(GOOD, never=(leader_deposed,), node_switches=N2_FIRST),
)

DESCRIBE = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}


def describes(who: Who, version: int, expect: Mapping[str, Any], name: str) -> Step:
    """A DescribeQuorum request; expect has fields of the partition."""
    expected = {f"{PARTITION}.{field}": value for field, value in expect.items()}
    return ask(who, Api.DESCRIBE_QUORUM, version, DESCRIBE, expected, name=name)


VERSIONS = (0, 1)
OF_LEADER = {"error_code": "none", "leader_id": "$leader", "leader_epoch": "$epoch", "current_voters.length": 3}
NOT_LEADER = {"error_code": "not_leader_or_follower", "current_voters.length": 0}

DQ_01 = Scenario(
    id="DQ-01",
    title="A node that is not the leader describes the quorum",
    question="Does DescribeQuorum return an error on each node except the leader, in every version?",
    source=KIP_595 / "DescribeQuorum Request Handling",
    nodes=3,
    story=(
        *N2_LEADS,
        *(describes(node, version, NOT_LEADER, "who does not lead") for node in ("n1", "n3") for version in VERSIONS),
        *(describes("n2", version, OF_LEADER, "who leads") for version in VERSIONS),
    ),
    good=Side(GOOD, node_switches=N2_FIRST),
)

QUIET = {node: {IDLE_INTERVAL: "0"} for node in (1, 2, 3)}

DQ_02 = Scenario(
    id="DQ-02",
    title="The description of the quorum differs from what the nodes' logs show",
    question="Does the leader report the end of each voter's log, and a high watermark that a majority has reached?",
    source=KIP_595 / "DescribeQuorum Request Handling",
    nodes=3,
    story=(
        *N2_LEADS,
        describes(
            "n2",
            1,
            {
                "high_watermark": "$log_end",
                **{f"current_voters.{number}.log_end_offset": "$log_end" for number in range(3)},
                "observers.length": 0,
            },
            "an idle quorum",
        ),
        cut("n1"),
        kill("n3"),
        describes("n2", 1, {"high_watermark": "$high_watermark", "leader_id": 2}, "a leader without followers"),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(GOOD, node_switches=merged(N2_FIRST, QUIET)),
)

OTHER_CLUSTER = "bm90LXRoaXMtY2x1c3Rlcg"
REFUSED = {"error_code": "inconsistent_cluster_id"}
OLD_VOTE = {"replica_epoch": "$epoch-1", "replica_id": "$other", "last_offset_epoch": 0, "last_offset": 0}
NEW_VOTE = {**OLD_VOTE, "replica_epoch": NEXT}
"""A vote that is refused for its epoch, so that it changes nothing."""

RA_28 = Scenario(
    id="RA-28",
    title="A node of another cluster votes",
    question="Are Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch requests of another cluster rejected?",
    source=KIP_642 / "ClusterId",
    nodes=3,
    story=(
        *N2_LEADS,
        ask(
            "n1",
            Api.VOTE,
            0,
            quorum_request(NEW_VOTE, OTHER_CLUSTER),
            REFUSED,
            name="a vote",
        ),
        ask(
            "n1",
            Api.BEGIN_QUORUM_EPOCH,
            0,
            quorum_request({"leader_id": 3, "leader_epoch": NEXT}, OTHER_CLUSTER),
            REFUSED,
            name="a new leader",
        ),
        ask(
            "n1",
            Api.END_QUORUM_EPOCH,
            0,
            quorum_request({"leader_id": 2, "leader_epoch": "$epoch", "preferred_successors": [1]}, OTHER_CLUSTER),
            REFUSED,
            name="the end of an epoch",
        ),
    ),
    good=Side(GOOD, never=(leader_deposed, grows(1, at_least=1, until=None)), node_switches=N2_FIRST),
)

NODES = ("n1", "n2", "n3")
# Kafka looks at the log's epoch first, the reference system at the request's epoch.
OLD = {"one_of": ["fenced_leader_epoch", "invalid_request"]}
SAME_CLUSTER = {"error_code": "none", f"{PARTITION}.error_code": OLD}

CB_01 = Scenario(
    id="CB-01",
    title="Nodes of one quorum have different cluster ids",
    question="Does every node accept requests with the cluster's id, and reject those with another?",
    source=KIP_595 / "Cluster Bootstrapping",
    nodes=3,
    story=(
        *N2_LEADS,
        *(ask(node, Api.VOTE, 0, quorum_request(OLD_VOTE), SAME_CLUSTER, name="the same id") for node in NODES),
        *(ask(node, Api.VOTE, 0, quorum_request(OLD_VOTE, OTHER_CLUSTER), REFUSED, name="another") for node in NODES),
    ),
    good=Side(GOOD, never=(leader_deposed,), node_switches=N2_FIRST),
)

ADD_N9 = {
    "cluster_id": "$cluster_id",
    "timeout": 2000,
    "voter_id": 9,
    "voter_directory_id": "00000000-0000-0000-0000-000000000009",
    "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
}

RA_05 = Scenario(
    id="RA-05",
    title="A node that is not the leader accepts a reassignment",
    question="Do followers reject the addition of a voter, and give only the reason that they are not the leader?",
    source=KIP_642 / "AlterPartitionReassignments",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        lead("n2"),
        wait_until(all_follow(2)),
        *(
            ask(node, "AddRaftVoter", 0, ADD_N9, {"error_code": "not_leader_or_follower"}, name="a new voter")
            for node in ("n1", "n3")
        ),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=FOLLOWERS_REFUSE), never=(leader_deposed,)
    ),
)

SCENARIOS = (
    PV_14,
    PV_15,
    PV_19,
    PV_20,
    PV_22,
    PV_33,
    PV_40,
    DQ_01,
    DQ_02,
    RA_05,
    RA_28,
    CB_01,
)
