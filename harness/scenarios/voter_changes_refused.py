"""Scenarios of voter changes that Kafka refuses, or appends and does not commit (KIP-853, for what KIP-642 says).

A leader that is cut off from the majority appends a change and cannot commit it. Every node acts on the last voters in
its log, committed or not: n4 becomes Prospective when it is cut off as soon as it has fetched the record that adds it.

n1 wins the first election. Another first leader would have to be deposed, and would truncate what it appended
meanwhile; Kafka 4.3.1 then ignores a change of the voters at one of those offsets (EX-02).
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.conditions import BROKERS_LIVE, CAUGHT_UP, LEADER_KNOWN, all_follow, is_not_leader
from harness.model.faults.membership import add_voter, await_membership, remove_voter
from harness.model.faults.probe import run_tool
from harness.model.faults.requests import create_topic
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.measures import enters, exits, grants, sends
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import (
    both_ways,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    lead,
    mark,
    seconds,
    sleep,
    start,
    wait_until,
)
from harness.scenarios.expectations import commit_gap, happens, leader_deposed
from harness.scenarios.kip_595 import KIP_595
from harness.scenarios.kip_642_reference import (
    ACKNOWLEDGED_AND_LOST,
    ADDED_AGAIN,
    ADDED_AND_CUT_OFF,
    BY_KIP_642,
    BY_KIP_853,
    CATCHES_UP_LATE,
    CRASHED,
    GAVE_UP,
    KIP_642,
    NEW_LEADER,
    RETARGETED,
    without_n1,
)
from harness.scenarios.kip_996_elections import first_leader, merged
from harness.scenarios.voter_changes import N1_LEADS
from harness.scenarios.voter_roles import campaigns, role_shows

FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"


N1_FIRST = first_leader(1, nodes=4)
N1_FIRST_OF_3 = first_leader(1, nodes=3)


def patient(*nodes: int, fetch_timeout_ms: int = 15_000) -> Mapping[int, Mapping[str, str]]:
    """These nodes keep a silent leader for this long, and lead without a majority half as long again."""
    return {node: {FETCH_TIMEOUT: str(fetch_timeout_ms)} for node in nodes}


MAJORITY_OF_N1 = both_ways((1, 2), (1, 3))

N4_APPENDED = (
    *N1_LEADS,
    mark("n1 loses the majority"),
    cut_links(MAJORITY_OF_N1),
    add_voter("n4", is_answered=False),
)
"""The record that adds n4 is in the logs of n1 and n4 alone, which are two of the four voters that it names."""

N4_ADDED = (add_voter("n4"), await_membership())

RA_04 = Scenario(
    id="RA-04",
    title="Two reassignments interleave",
    question="Does the leader refuse to remove n3 while the record that adds n4 is not committed?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N4_APPENDED,
        remove_voter("n3", refused="REQUEST_TIMED_OUT"),
        heal_links(MAJORITY_OF_N1),
        await_membership(),
        remove_voter("n3"),
        await_membership(),
        wait_until(CAUGHT_UP),
        *role_shows(4),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=RETARGETED),
        shows=(happens(enters(State.PROSPECTIVE, node=4), since="the role of n4 shows"),),
        never=(happens(exits()), leader_deposed),
        node_switches=merged(N1_FIRST, patient(1, 2, 3)),
    ),
)

RA_07 = Scenario(
    id="RA-07",
    title="A voter change is acknowledged and then lost",
    question="After its leader n1 was deposed, is the addition of n4 not acknowledged, and is n4 an observer?",
    source=KIP_642 / "AlterPartitionReassignments",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N4_APPENDED,
        wait_until(is_not_leader(1)),
        heal(),
        wait_until(CAUGHT_UP),
        *role_shows(4),
        mark("n4 is added again"),
        *N4_ADDED,
        wait_until(CAUGHT_UP),
        cut("n4"),
        sleep(seconds(7)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    bad=Side(
        on(
            reference={**BY_KIP_642, "reference.mutant": "reassignment-acknowledged-early"},
            reference_deployment=ACKNOWLEDGED_AND_LOST,
        ),
        breaks=("unexpected-response",),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=ACKNOWLEDGED_AND_LOST),
        node_switches=N1_FIRST,
        shows=(happens(enters(State.PROSPECTIVE, node=4), since="n4 is added again"),),
        never=(
            *(happens(event, since="the role of n4 shows", until="n4 is added again") for event in campaigns(4)),
            happens(exits()),
        ),
    ),
)

RA_08 = Scenario(
    id="RA-08",
    title="A client that timed out assumes that its change failed",
    question="Is the addition of n4 committed although its client gave up, and is the second request rejected?",
    source=KIP_642 / "AlterPartitionReassignments",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N4_APPENDED,
        heal_links(MAJORITY_OF_N1),
        await_membership(),
        add_voter("n4", refused="DUPLICATE_VOTER"),
        wait_until(CAUGHT_UP),
        *role_shows(4),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=GAVE_UP),
        shows=(happens(enters(State.PROSPECTIVE, node=4), since="the role of n4 shows"),),
        never=(happens(exits()), leader_deposed),
        node_switches=merged(N1_FIRST, patient(1, 2, 3)),
    ),
)

RA_11 = Scenario(
    id="RA-11",
    title="A follower counts votes with the old voters until a change is committed",
    question="Does n4 start elections when it is cut off, although the record that adds it is not committed?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N4_APPENDED,
        sleep(seconds(1)),
        mark("n4 is cut off"),
        cut("n4"),
        sleep(seconds(5)),
        mark("n4 reaches the others"),
        heal(),
        wait_until(CAUGHT_UP),
    ),
    bad=Side(
        on(
            reference={**BY_KIP_642, "reference.mutant": "voters-change-when-committed"},
            reference_deployment=ADDED_AND_CUT_OFF,
        ),
        never=(happens(enters(State.PROSPECTIVE, node=4), since="n4 is cut off", until="n4 reaches the others"),),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=ADDED_AND_CUT_OFF),
        shows=(happens(enters(State.PROSPECTIVE, node=4), since="n4 is cut off", until="n4 reaches the others"),),
        never=(happens(enters(State.LEADER, node=4)), happens(exits()), leader_deposed),
        node_switches=merged(N1_FIRST, patient(1, 2, 3)),
    ),
)

LP_08 = Scenario(
    id="LP-08",
    title="A follower does not change its role when it appends a voter change",
    question="Does n3 become an observer as soon as it has fetched the record that removes it, before it is committed?",
    source=KIP_595 / "Leader Progress Timeout",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        mark("n3 is a voter"),
        cut("n3"),
        sleep(seconds(5)),
        heal(),
        wait_until(CAUGHT_UP),
        cut_links(both_ways((1, 2))),
        remove_voter("n3", is_answered=False),
        sleep(seconds(1)),
        mark("n3 is cut off"),
        cut("n3"),
        sleep(seconds(5)),
        heal(),
        await_membership(),
        wait_until(CAUGHT_UP),
    ),
    good=Side(
        on(kafka="newest 4", reference={**BY_KIP_853, "reference.removed_voters_campaign": "false"}),
        shows=(happens(enters(State.PROSPECTIVE, node=3), since="n3 is a voter", until="n3 is cut off"),),
        never=(*(happens(event, since="n3 is cut off") for event in campaigns(3)), happens(exits()), leader_deposed),
        node_switches=merged(N1_FIRST_OF_3, patient(1, 2)),
    ),
)

_DEPOSED_AND_ADDED = (
    wait_until(is_not_leader(1)),
    heal(),
    wait_until(CAUGHT_UP),
    sleep(seconds(1)),
    *N4_ADDED,
    wait_until(CAUGHT_UP),
    *role_shows(4),
    lead("n1"),
    wait_until(all_follow(1)),
    sleep(seconds(2)),
)

RA_12 = Scenario(
    id="RA-12",
    title="A node keeps voters from a record that it has truncated",
    question="Do n1 and n4 truncate the record that adds n4, and use the new record when n4 is added again?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=4,
    voters=3,
    layout="combined",
    story=(*N4_APPENDED, *_DEPOSED_AND_ADDED),
    bad=Side(
        on(kafka="4.3.1"),
        node_switches=merged(N1_FIRST, patient(1, 2, 3, fetch_timeout_ms=6000)),
        never=tuple(happens(event, since="the role of n4 shows") for event in campaigns(4)),
        breaks=("stale-voters",),
        may_break=("elected-without-majority",),
        story=(
            *N1_LEADS,
            wait_until(BROKERS_LIVE),
            *N4_APPENDED,
            create_topic("n1", "burst", partitions=1000, is_answered=False),
            *_DEPOSED_AND_ADDED,
        ),
    ),
    good=Side(
        on(kafka="4.3.1", reference=BY_KIP_642, reference_deployment=ADDED_AGAIN),
        node_switches=merged(N1_FIRST, patient(1, 2, 3, fetch_timeout_ms=6000)),
        shows=(happens(enters(State.PROSPECTIVE, node=4), since="the role of n4 shows"),),
        never=(happens(exits()),),
    ),
)

RA_13 = Scenario(
    id="RA-13",
    title="A node that crashed during a change starts with wrong voters",
    question="Does n1, killed before the record that adds n4 was committed, request n4's vote when it starts?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N4_APPENDED,
        kill("n1"),
        mark("n1 starts"),
        start("n1"),
        sleep(seconds(8)),
        heal(),
        wait_until(CAUGHT_UP),
        *N4_ADDED,
        wait_until(CAUGHT_UP),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=CRASHED),
        node_switches=N1_FIRST,
        shows=(happens(sends(Api.VOTE, source=1, target=4), since="n1 starts"),),
        never=(happens(exits()),),
    ),
)

RA_14 = Scenario(
    id="RA-14",
    title="Nodes that disagree on the voters never elect a leader",
    question="Does n3 vote for n4, which is not a voter in n3's log, so that a leader is elected after n1 is lost?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        cut("n3"),
        *N4_ADDED,
        remove_voter("n2"),
        await_membership(),
        mark("n1 is lost, and n3 reachable"),
        kill("n1"),
        heal_links(both_ways((3, 1), (3, 2), (3, 4))),
        wait_until(is_not_leader(1)),
        sleep(seconds(3)),
        heal(),
        wait_until(CAUGHT_UP),
    ),
    bad=Side(
        on(
            reference={**BY_KIP_642, "reference.non_voter_votes": "campaign"},
            reference_deployment=without_n1(sleep(seconds(20))),
        ),
        shows=(commit_gap(at_least_ms=15_000),),
        never=(happens(enters(State.LEADER), since="n1 is lost, and n3 reachable", until="n1 returns"),),
    ),
    good=Side(
        on(
            kafka="newest 4",
            reference=BY_KIP_642,
            reference_deployment=without_n1(wait_until(is_not_leader(1)), sleep(seconds(3))),
        ),
        shows=(
            happens(grants(source=3, target=4, pre_vote=True), since="n1 is lost, and n3 reachable"),
            happens(grants(source=3, target=4, pre_vote=False), since="n1 is lost, and n3 reachable"),
            happens(enters(State.LEADER, node=4), since="n1 is lost, and n3 reachable"),
        ),
        never=(happens(exits()), commit_gap(at_least_ms=15_000)),
        node_switches=N1_FIRST,
    ),
)

RA_16 = Scenario(
    id="RA-16",
    title="A slow observer becomes a voter, and commits stall",
    question="Is n4 added only after it has caught up with the leader, while the quorum keeps committing?",
    source=KIP_642 / "Observer Promotion",
    nodes=4,
    voters=3,
    layout="combined",
    workload="register",
    story=(
        *N1_LEADS,
        intercept(RpcRule("fetch responses of n2 to n4", RpcMatch((Api.FETCH,), "response", (2,), (4,)), DROP)),
        lead("n2"),
        sleep(seconds(3)),
        add_voter("n4", refused="REQUEST_TIMED_OUT"),
        sleep(seconds(5)),
        heal(),
        wait_until(all_follow(2)),
        wait_until(CAUGHT_UP),
        *N4_ADDED,
        sleep(seconds(3)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=CATCHES_UP_LATE),
        node_switches=N1_FIRST,
        never=(commit_gap(at_least_ms=8000), happens(exits())),
    ),
)

RA_18 = Scenario(
    id="RA-18",
    title="A new leader changes the voters before it has committed a record of its own",
    question="Does n2 refuse to remove n3 before it has committed the first record of its epoch?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        intercept(RpcRule("fetch responses of n2", RpcMatch((Api.FETCH,), "response", (2,)), DROP)),
        lead("n2"),
        remove_voter("n3", refused="REQUEST_TIMED_OUT"),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(10)),  # the log grows beyond the end of what n1 truncates
        wait_until(CAUGHT_UP),
        remove_voter("n3"),
        await_membership(),
        *role_shows(3),
    ),
    bad=Side(
        on(
            reference={**BY_KIP_642, "reference.mutant": "voters-changed-before-own-record"},
            reference_deployment=NEW_LEADER,
        ),
        breaks=("unexpected-response",),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=NEW_LEADER),
        never=(*(happens(event, since="the role of n3 shows") for event in campaigns(3)), happens(exits())),
        node_switches=merged(N1_FIRST, patient(1, 3, fetch_timeout_ms=4000), patient(2, fetch_timeout_ms=3000)),
    ),
)

_REMOVE_N3 = ["--bootstrap-controller", "$controllers", "remove-controller", "--controller-id", "3"]

RA_35 = Scenario(
    id="RA-35",
    title="A voter is unregistered while it is still in the quorum",
    question="Are removals with a wrong or missing directory id rejected, and the unregistration of a voter too?",
    source=Source("KAFKA-20865"),
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        run_tool(
            "kafka-metadata-quorum",
            [*_REMOVE_N3, "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ"],
            exit_code=1,
            output=["VoterNotFoundException"],
            name="a removal with a wrong directory id",
        ),
        run_tool(
            "kafka-metadata-quorum",
            _REMOVE_N3,
            exit_code=1,
            output=[r"--controller-directory-id/-d\s+is\s+required"],
            name="a removal without a directory id",
        ),
        run_tool(
            "kafka-cluster",
            ["unregister", "--bootstrap-controller", "$controllers", "--id", "3"],
            exit_code=1,
            name="the unregistration of a voter",
        ),
        wait_until(CAUGHT_UP),
        *role_shows(3),
    ),
    bad=Side(
        on(kafka="4.3.1"),
        node_switches=N1_FIRST_OF_3,
        shows=(happens(enters(State.PROSPECTIVE, node=3), since="the role of n3 shows"),),
        never=(happens(exits()),),
        breaks=("unexpected-output",),
    ),
)

SCENARIOS = (LP_08, RA_04, RA_07, RA_08, RA_11, RA_12, RA_13, RA_14, RA_16, RA_18, RA_35)
