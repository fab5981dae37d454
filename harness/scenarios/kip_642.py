"""Scenarios of KIP-642's quorum reassignment, on the reference system: one request names all voters of the future.

What Kafka has instead, changes of one voter at a time (KIP-853), is in voter_changes.py; where a row plays on both, the
story here is its deployment on the reference system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.conditions import ALL_FOLLOW_LEADER, CAUGHT_UP, LEADER_KNOWN, all_follow, is_not_leader
from harness.model.faults.probe import ask
from harness.model.faults.reassignment import Assigned, await_voters, reassign_voters
from harness.model.faults.rpc import Api
from harness.model.measures import Event, enters, exits
from harness.model.quorum_states import State
from harness.model.scenario import Deployment, Scenario, Side, Source, on
from harness.model.story import Step, cut, cut_links, heal, heal_links, kill, mark, seconds, sleep, start, wait_until
from harness.scenarios.expectations import commit_gap, happens, leader_changes, leader_deposed
from harness.scenarios.kip_996 import FETCH_TIMEOUT
from harness.scenarios.kip_996_elections import NodeSwitches, first_leader, merged

KIP_642 = Source("KIP-642")

BY_KIP_642 = {"reference.voter_changes": "kip-642"}
UNEXPECTED = ("unexpected-response",)
N1_LEADS = (wait_until(ALL_FOLLOW_LEADER), wait_until(all_follow(1)))


def campaigns(node: int) -> tuple[Event, ...]:
    """What a voter does that loses its leader, and an observer never does."""
    return enters(State.PROSPECTIVE, node), enters(State.CANDIDATE, node)


def role_shows(node: int) -> tuple[Step, ...]:
    """Cut the node off for longer than a fetch timeout and an election timeout."""
    return mark(f"the role of n{node} shows"), cut(f"n{node}"), sleep(seconds(7)), heal(), sleep(seconds(3))


AROUND_N1 = tuple(link for node in (2, 3) for link in ((1, node), (node, 1)))
PATIENT = merged(first_leader(1, nodes=4), {node: {FETCH_TIMEOUT: "10000"} for node in (1, 2, 3)})
"""No node gives its leader up while n1 is cut off for a few seconds."""


def reassigned(nodes: int, *story: Step, voters: int = 3, switches: NodeSwitches | None = None) -> Deployment:
    """The reference system's nodes for a row that Kafka plays with brokers; n1 leads."""
    return Deployment("controllers", nodes, voters, (*N1_LEADS, *story), switches or first_leader(1, nodes))


def moved(voters: Sequence[int], *records: Assigned) -> tuple[Step, ...]:
    """Request a reassignment of the leader, and wait until it is done; the log then has these records, if given."""
    return reassign_voters(voters), await_voters(records=records or None)


def towards(target: tuple[int, ...], *voters: tuple[int, ...]) -> tuple[Assigned, ...]:
    """The records of a reassignment, from the request to the last change."""
    return tuple((each, target) for each in voters)


def describes(name: str, fields: Mapping[str, object]) -> Step:
    """Ask the leader to describe the quorum; expect these fields of the partition."""
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    expected = {f"topics.0.partitions.0.{path}": value for path, value in fields.items()}
    return ask("leader", Api.DESCRIBE_QUORUM, 0, {"topics": topics}, expected, name=name)


FIRST: Assigned = ((1, 2, 3), None)
"""What the first leader of the cluster writes."""

TO_456 = towards((4, 5, 6), (1, 2, 3), (1, 2, 3, 4), (1, 2, 4), (1, 2, 4, 5), (1, 4, 5), (1, 4, 5, 6), (4, 5, 6))
"""The document's example."""

N4_PENDING = (
    kill("n5"),
    kill("n6"),
    sleep(seconds(2)),
    reassign_voters((4, 5, 6)),
    await_voters(pending=(1, 2, 4)),
)
"""A reassignment to n4, n5 and n6 in its middle: n4 has replaced n3, and n5 and n6 are down."""

ALL_REPLACED = reassigned(6, *moved((4, 5, 6), FIRST, *TO_456, ((4, 5, 6), None)), wait_until(LEADER_KNOWN))
"""RA-01: the sequence of records is the document's, with its last one, which the new leader writes."""

RETARGETED = reassigned(
    6,
    *N4_PENDING,
    start("n5"),
    *moved(
        (1, 4, 5),
        FIRST,
        *TO_456[:3],
        *towards((1, 4, 5), (1, 2, 4), (1, 2, 4, 5), (1, 4, 5)),
        ((1, 4, 5), None),
    ),
    start("n6"),
    wait_until(CAUGHT_UP),
    *role_shows(4),
)
"""RA-04: another target while the first one is pending."""

FOLLOWERS_REFUSE = Deployment(
    "controllers",
    3,
    3,
    (
        *N1_LEADS,
        *(reassign_voters((1, 2), node, refused="NOT_LEADER_OR_FOLLOWER") for node in ("n2", "n3")),
        await_voters(records=(FIRST,)),
    ),
    first_leader(1, 3),
)
"""RA-05."""

ACKNOWLEDGED_AND_LOST = reassigned(
    4,
    cut("n1"),
    reassign_voters((1, 2, 3, 4), "n1", is_answered=False),
    wait_until(is_not_leader(1)),
    heal(),
    wait_until(CAUGHT_UP),
    await_voters(records=(FIRST,)),
    *role_shows(4),
    mark("n4 is added again"),
    *moved((1, 2, 3, 4)),
    wait_until(CAUGHT_UP),
    cut("n4"),
    sleep(seconds(7)),
    heal(),
    wait_until(LEADER_KNOWN),
)
"""RA-07: no success without a commit, and nothing is left of the request once its leader is deposed."""

GAVE_UP = reassigned(
    4,
    cut_links(AROUND_N1),
    reassign_voters((1, 2, 3, 4), "n1", is_answered=False),
    heal_links(AROUND_N1),
    *moved((1, 2, 3, 4), FIRST, *towards((1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 4)), ((1, 2, 3, 4), None)),
    wait_until(CAUGHT_UP),
    *role_shows(4),
    switches=PATIENT,
)
"""RA-08: the request is committed although its client gave up; repeated, it writes nothing more."""

N4_APPENDED = (
    kill("n4"),
    sleep(seconds(2)),
    reassign_voters((1, 2, 3, 4)),
    cut_links(AROUND_N1),
    start("n4"),
    sleep(seconds(3)),
)
"""The record that adds n4 is in the logs of n1 and n4 alone, and cannot be committed."""

ADDED_AND_CUT_OFF = reassigned(
    4,
    *N4_APPENDED,
    mark("n4 is cut off"),
    cut("n4"),
    sleep(seconds(5)),
    mark("n4 reaches the others"),
    heal(),
    wait_until(CAUGHT_UP),
    switches=PATIENT,
)
"""RA-11."""

CRASHED = reassigned(
    4,
    *N4_APPENDED,
    kill("n1"),
    mark("n1 starts"),
    start("n1"),
    sleep(seconds(8)),
    heal(),
    wait_until(CAUGHT_UP),
    await_voters(),
)
"""RA-13."""


def without_n1(*meanwhile: Step) -> Deployment:
    """RA-14: n3 missed that n4 has replaced n2, and n1 fails. n3 and n4 are a majority, if n3 votes for n4."""
    return reassigned(
        4,
        cut("n3"),
        reassign_voters((1, 3, 4)),
        await_voters(),
        mark("n1 is lost, and n3 reachable"),
        kill("n1"),
        heal_links([link for node in (1, 2, 4) for link in ((3, node), (node, 3))]),
        *meanwhile,
        mark("n1 returns"),
        heal(),
        wait_until(CAUGHT_UP),
    )


LEADER_REMOVED = reassigned(
    3,
    mark("n1 is removed"),
    *moved((2, 3), FIRST, *towards((2, 3), (1, 2, 3), (2, 3)), ((2, 3), None)),
    sleep(seconds(4)),
    *role_shows(1),
)
"""RA-10."""


RA_02 = Scenario(
    id="RA-02",
    title="A reassignment waits for a slow replica although another has caught up",
    question="Are n5 and n6 voters soon although n4, the first of the new voters, is down?",
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
    question="Do the voters stay as they are after a cancellation, and return to n1 to n3 if these are the target?",
    source=KIP_642 / "AlterPartitionReassignments",
    nodes=6,
    voters=3,
    story=(
        *N1_LEADS,
        *N4_PENDING,
        reassign_voters(None),
        await_voters(records=(FIRST, *TO_456[:3], ((1, 2, 4), None))),
        reassign_voters((4, 5, 6)),
        sleep(seconds(1)),
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
    question="Does a repeated request write nothing, whether the first one is committed or not?",
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
    question="Does a step add a voter while at least as many are to be added as to be removed, or else remove one?",
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

ZOMBIE = {**BY_KIP_642, "reference.leader_without_majority": "asks"}

RA_32 = Scenario(
    id="RA-32",
    title="A leader that was removed while it was cut off stays leader (KIP-642)",
    question="Does n1 follow the new leader once it reaches another node, without having resigned before?",
    source=KIP_642 / "Discussion: Replication Progress Timeout for Zombie Leader",
    nodes=3,
    story=(
        *N1_LEADS,
        mark("n1 is cut off"),
        cut("n1"),
        wait_until(is_not_leader(1)),
        sleep(seconds(2)),
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
    question="Does DescribeQuorum name the target while the reassignment is pending, and none before and after?",
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

SCENARIOS = (RA_02, RA_03, RA_06, RA_09, RA_32, RA_33)
