"""Scenarios of KIP-642's quorum reassignment that only the reference system plays: one request names all voters.

Rows that Kafka plays too, by changes of one voter at a time (KIP-853), are in voter_changes.py, with their stories on
the reference system in kip_642_reference.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, CAUGHT_UP, LEADER_KNOWN, all_follow, is_not_leader
from harness.model.faults.probe import ask
from harness.model.faults.reassignment import await_voters, reassign_voters
from harness.model.faults.rpc import Api
from harness.model.layouts import CONTROLLER_PORT
from harness.model.measures import enters, exits, sends
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, on
from harness.model.story import (
    ALL,
    Step,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    mark,
    seconds,
    sleep,
    start,
    wait_until,
)
from harness.scenarios.expectations import commit_gap, happens, leader_changes, leader_deposed
from harness.scenarios.kip_642_reference import (
    AROUND_N1,
    BY_KIP_642,
    CATCHES_UP_LATE,
    FIRST,
    KIP_642,
    N1_LEADS,
    N4_PENDING,
    PATIENT,
    TO_456,
    describes,
    moved,
    towards,
)
from harness.scenarios.kip_996_elections import first_leader
from harness.scenarios.voter_roles import campaigns

UNEXPECTED = ("unexpected-response",)

RA_02 = Scenario(
    id="RA-02",
    title="A reassignment waits for a slow replica although another has caught up",
    question="Do n5 and n6 become voters soon although n4, the first of the new voters, is down?",
    source=KIP_642 / "Quorum Change Protocol",
    nodes=6,
    voters=3,
    story=(
        *N1_LEADS,
        kill("n4"),
        sleep(seconds(2)),
        reassign_voters((4, 5, 6)),
        sleep(seconds(5)),
        describes(
            "the voters while n4 is down",
            {f"current_voters.{at}.replica_id": node for at, node in enumerate((1, 5, 6))},
        ),
        start("n4"),
        await_voters(),
    ),
    bad=Side(
        on(reference={**BY_KIP_642, "reference.promotion": "in-order"}),
        breaks=UNEXPECTED,
        node_switches=first_leader(1, nodes=6),
    ),
    good=Side(
        on(reference=BY_KIP_642),
        shows=(leader_changes(at_least=1),),
        never=(commit_gap(at_least_ms=8000),),
        node_switches=first_leader(1, nodes=6),
    ),
)

BACK_TO_123 = towards((1, 2, 3), (1, 2, 4), (1, 2, 3, 4), (1, 2, 3))

RA_03 = Scenario(
    id="RA-03",
    title="A cancelled reassignment leaves the voters half changed",
    question="Do the voters stay as they are after a cancellation, and return to n1 to n3 if that is the target?",
    source=KIP_642 / "AlterPartitionReassignments",
    nodes=6,
    voters=3,
    story=(
        *N1_LEADS,
        *N4_PENDING,
        reassign_voters(None),
        await_voters(records=(FIRST, *TO_456[:3], ((1, 2, 4), None))),
        reassign_voters((4, 5, 6)),
        await_voters(pending=(1, 2, 4)),
        *moved(
            (1, 2, 3),
            FIRST,
            *TO_456[:3],
            ((1, 2, 4), None),
            ((1, 2, 4), (4, 5, 6)),
            *BACK_TO_123,
            ((1, 2, 3), None),
        ),
    ),
    good=Side(on(reference=BY_KIP_642), never=(leader_deposed,), node_switches=first_leader(1, nodes=6)),
)

RA_06 = Scenario(
    id="RA-06",
    title="A repeated request appends a second record",
    question="Does a repeated request append nothing, whether or not the first one is committed?",
    source=KIP_642 / "AlterPartitionReassignments",
    nodes=4,
    voters=3,
    story=(
        *N1_LEADS,
        kill("n4"),
        sleep(seconds(2)),
        cut_links(AROUND_N1),
        reassign_voters((1, 2, 3, 4), "n1", is_answered=False),
        reassign_voters((1, 2, 3, 4), "n1", is_answered=False),
        heal_links(AROUND_N1),
        reassign_voters((1, 2, 3, 4)),
        reassign_voters((1, 2, 3, 4)),
        await_voters(pending=(1, 2, 3), records=(FIRST, ((1, 2, 3), (1, 2, 3, 4)))),
        start("n4"),
        await_voters(),
    ),
    good=Side(on(reference=BY_KIP_642), never=(leader_deposed,), node_switches=PATIENT),
)

GROWN = towards((1, 2, 3, 4, 5), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5))
SHRUNK = towards((1,), (1, 2, 3), (1, 2), (1,))
SWAPPED = towards(
    (1, 2, 6, 7), (1, 2, 3, 4, 5), (1, 2, 3, 4), (1, 2, 3, 4, 6), (1, 2, 3, 6), (1, 2, 3, 6, 7), (1, 2, 6, 7)
)

RA_09 = Scenario(
    id="RA-09",
    title="A reassignment removes voters before it has added enough",
    question="Does each step add a voter while at least as many additions as removals remain, or else remove one?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=7,
    voters=3,
    story=(
        *N1_LEADS,
        *moved((1,), FIRST, *SHRUNK, ((1,), None)),
        *moved((1, 2, 3, 4, 5), FIRST, *SHRUNK, ((1,), None), *GROWN, ((1, 2, 3, 4, 5), None)),
        *moved(
            (1, 2, 6, 7),
            FIRST,
            *SHRUNK,
            ((1,), None),
            *GROWN,
            ((1, 2, 3, 4, 5), None),
            *SWAPPED,
            ((1, 2, 6, 7), None),
        ),
    ),
    good=Side(on(reference=BY_KIP_642), never=(leader_deposed,), node_switches=first_leader(1, nodes=7)),
)

RA_17 = Scenario(
    id="RA-17",
    title="An observer decides for itself when it has caught up",
    question="Does n4, which nominates itself, become a voter soon after it has caught up, and not before?",
    source=KIP_642 / "Observer Promotion",
    nodes=4,
    voters=3,
    workload="register",
    story=(*CATCHES_UP_LATE.story, describes("the voters at the end", {"current_voters.length": 4})),
    good=Side(
        on(reference={**BY_KIP_642, "reference.promotion": "observer-based"}),
        shows=(happens(sends(Api.NOMINATE_VOTER, source=4)),),
        never=(commit_gap(at_least_ms=8000), leader_deposed),
        node_switches=first_leader(1, nodes=4),
    ),
)

ALONE, SECOND, THIRD = mark("n1 starts alone"), mark("n2 starts"), mark("n3 starts")
DISCOVERED = {**BY_KIP_642, "reference.voter_addresses": "discovered"}

RA_25 = Scenario(
    id="RA-25",
    title="A voter starts an election before it has found the other voters",
    question="After all nodes have failed, does n1 wait until it has found n2, and is a leader then elected?",
    source=KIP_642 / "Bootstrapping Procedure",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        kill(ALL),
        ALONE,
        start("n1"),
        sleep(seconds(6)),
        SECOND,
        start("n2"),
        wait_until(LEADER_KNOWN),
        THIRD,
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    bad=Side(
        on(reference={**DISCOVERED, "reference.mutant": "election-before-discovery"}),
        shows=(happens(enters(State.PROSPECTIVE, node=1), since=ALONE.value, until=SECOND.value),),
    ),
    good=Side(
        on(reference=DISCOVERED),
        shows=(happens(enters(State.LEADER), since=SECOND.value, until=THIRD.value),),
        never=tuple(happens(event, since=ALONE.value, until=SECOND.value) for event in campaigns(1)),
    ),
)


def told_address(port: int, boot_ms: int, expected_port: int) -> Step:
    """Tell n1 by gossip where n3 listens, since when, and compare the port that n1 knows afterwards."""
    n3 = {"node_id": 3, "host": "127.0.0.1", "port": port, "boot_timestamp": boot_ms}
    values = {"cluster_id": None, "leader_id": -1, "leader_epoch": 0, "brokers": [n3]}
    expected = {"error_code": "none", "brokers.2.node_id": 3, "brokers.2.port": expected_port}
    return ask(
        "n1",
        Api.DISCOVER_BROKERS,
        0,
        values,
        expected,
        name=f"gossip that n3 has been on port {port} since {boot_ms} ms",
    )


RA_26 = Scenario(
    id="RA-26",
    title="Outdated gossip overwrites a node's address",
    question="Does n1 keep the address of its leader n3 when it receives one from before n3 started?",
    source=KIP_642 / "Quorum Bootstrapping",
    nodes=3,
    story=(
        wait_until(all_follow(3)),
        told_address(CONTROLLER_PORT, -1, CONTROLLER_PORT),
        mark("n1 hears old gossip"),
        told_address(9999, 1, CONTROLLER_PORT),
        sleep(seconds(8)),
        told_address(9998, 2, CONTROLLER_PORT),
        wait_until(CAUGHT_UP),
    ),
    bad=Side(
        on(reference={**BY_KIP_642, "reference.mutant": "gossip-of-any-age"}),
        breaks=UNEXPECTED,
        node_switches=first_leader(3, nodes=3),
    ),
    good=Side(
        on(reference=BY_KIP_642),
        never=(*(happens(event, since="n1 hears old gossip") for event in campaigns(1)), leader_deposed),
        node_switches=first_leader(3, nodes=3),
    ),
)

ZOMBIE = {**BY_KIP_642, "reference.leader_without_majority": "asks"}

RA_32 = Scenario(
    id="RA-32",
    title="A leader that was removed while it was cut off remains leader (KIP-642)",
    question="Does n1 follow the new leader once it reaches another node, without having resigned before?",
    source=KIP_642 / "Discussion: Replication Progress Timeout for Zombie Leader",
    nodes=3,
    story=(
        *N1_LEADS,
        mark("n1 is cut off"),
        cut("n1"),
        wait_until(is_not_leader(1)),
        wait_until(LEADER_KNOWN),
        reassign_voters((2, 3)),
        await_voters(),
        mark("n1 is reachable"),
        heal(),
        wait_until(CAUGHT_UP),
        sleep(seconds(2)),
    ),
    good=Side(
        on(reference=ZOMBIE),
        shows=(happens(enters(State.FOLLOWER, node=1), since="n1 is reachable"),),
        never=(happens(enters(State.RESIGNED, node=1)), happens(exits())),
        node_switches=first_leader(1, nodes=3),
    ),
)

RA_33 = Scenario(
    id="RA-33",
    title="A description of the quorum lacks the target of a reassignment",
    question="Does DescribeQuorum return the target while the reassignment is pending, and none before and after?",
    source=KIP_642 / "DescribeQuorum",
    nodes=4,
    voters=3,
    story=(
        *N1_LEADS,
        describes("before the reassignment", {"target_voters.length": 0, "current_voters.length": 3}),
        kill("n4"),
        sleep(seconds(2)),
        reassign_voters((1, 2, 3, 4)),
        describes(
            "during the reassignment",
            {"target_voters.length": 4, "target_voters.3.replica_id": 4, "current_voters.length": 3},
        ),
        start("n4"),
        await_voters(),
        describes("after the reassignment", {"target_voters.length": 0, "current_voters.length": 4}),
    ),
    good=Side(on(reference=BY_KIP_642), never=(leader_deposed,), node_switches=first_leader(1, nodes=4)),
)

SCENARIOS = (RA_02, RA_03, RA_06, RA_09, RA_17, RA_25, RA_26, RA_32, RA_33)
