"""How the reference system plays KIP-642's rows that Kafka plays too: nodes and story of each, and their parts.

The reference is reassigned as a whole: one request names all voters of the future. Kafka has changes of one voter at a
time (KIP-853), so a row's own story, in voter_changes.py and voter_changes_refused.py, is Kafka's. The rows that only
the reference can play are in kip_642.py. With BY_KIP_853 the reference changes its voters as Kafka does, and plays
Kafka's story.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.conditions import ALL_FOLLOW_LEADER, CAUGHT_UP, LEADER_KNOWN, all_follow, is_follower, is_not_leader
from harness.model.faults.disks import lose_disk
from harness.model.faults.probe import ask
from harness.model.faults.reassignment import Assigned, await_voters, reassign_voters
from harness.model.faults.rpc import DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Deployment, Source
from harness.model.story import (
    Step,
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
    stop,
    wait_until,
)
from harness.scenarios.kip_996 import FETCH_TIMEOUT
from harness.scenarios.kip_996_elections import NodeSwitches, first_leader, merged
from harness.scenarios.voter_roles import role_shows

KIP_642 = Source("KIP-642")

BY_KIP_642 = {"reference.voter_changes": "kip-642"}
BY_KIP_853 = {"reference.voter_changes": "kip-853"}
"""One voter at a time, as in Kafka: the reference plays the row's own story."""
N1_LEADS = (wait_until(ALL_FOLLOW_LEADER), wait_until(all_follow(1)))


AROUND_N1 = both_ways((1, 2), (1, 3))
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

FOLLOWERS_REFUSE = reassigned(
    3,
    *(reassign_voters((1, 2), node, refused="NOT_LEADER_OR_FOLLOWER") for node in ("n2", "n3")),
    await_voters(records=(FIRST,)),
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
    await_voters(pending=(1, 2, 3, 4)),
    sleep(seconds(1)),
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
        heal_links(both_ways((3, 1), (3, 2), (3, 4))),
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

ADDED_AGAIN = reassigned(
    4,
    *N4_APPENDED,
    kill("n4"),
    wait_until(is_not_leader(1)),
    heal_links(AROUND_N1),
    wait_until(CAUGHT_UP),
    lead("n1"),
    describes("the voters of n1", {"current_voters.length": 3}),
    start("n4"),
    await_voters(),
    wait_until(CAUGHT_UP),
    *role_shows(4),
    switches=PATIENT,
)
"""RA-12: n1 appends that n4 votes, truncates that, and leads again while n4 is down and the reassignment pending."""

TOLD_OF_REMOVAL = reassigned(
    3,
    *moved((1, 2), FIRST, *towards((1, 2), (1, 2, 3), (1, 2)), ((1, 2), None)),
    wait_until(CAUGHT_UP),
    *role_shows(3),
)
"""RA-15."""

CATCHES_UP_LATE = reassigned(
    4,
    intercept(RpcRule("fetch responses of n1 to n4", RpcMatch((Api.FETCH,), "response", (1,), (4,)), DROP)),
    sleep(seconds(3)),
    reassign_voters((1, 2, 3, 4)),
    sleep(seconds(5)),
    describes("the voters while n4 lags", {"current_voters.length": 3, "target_voters.length": 4}),
    heal(),
    await_voters(),
    wait_until(CAUGHT_UP),
    sleep(seconds(3)),
)
"""RA-16: the request is accepted at once, and n4 is not a voter before it has caught up."""

NEW_LEADER = reassigned(
    4,
    kill("n4"),
    sleep(seconds(2)),
    reassign_voters((1, 2, 3, 4)),
    intercept(RpcRule("fetch responses of n2", RpcMatch((Api.FETCH,), "response", (2,), (1, 3)), DROP)),
    lead("n2"),
    start("n4"),
    wait_until(is_follower(4)),
    sleep(seconds(2)),
    describes("the voters of the new leader", {"current_voters.length": 3, "target_voters.length": 4}),
    heal(),
    await_voters(),
    *moved((1, 2, 4)),
    wait_until(CAUGHT_UP),
    *role_shows(3),
    switches=merged(first_leader(1, nodes=4), {node: {FETCH_TIMEOUT: "15000"} for node in (1, 2, 3)}),
)
"""RA-18: n4 has caught up, but no voter changes before the new leader, n2, has committed a record of its epoch."""

GROWN_AND_SHRUNK = reassigned(
    3,
    *moved((1, 2, 3)),
    wait_until(CAUGHT_UP),
    kill("n3"),
    sleep(seconds(3)),
    *moved((1, 2)),
    start("n3"),
    wait_until(ALL_FOLLOW_LEADER),
    *moved((1, 2, 3)),
    *moved((1, 3)),
    sleep(seconds(3)),
    voters=1,
)
"""RA-19."""

DISK_REPLACED = reassigned(
    4,
    lose_disk("n3"),
    sleep(seconds(2)),
    *moved((1, 2, 4)),
    wait_until(CAUGHT_UP),
    mark("n2 fails too"),
    kill("n2"),
    sleep(seconds(6)),
    heal(),
    wait_until(LEADER_KNOWN),
    sleep(seconds(3)),
)
"""RA-20."""

GROWN_FROM_ONE = reassigned(
    3,
    *moved((1, 2, 3)),
    wait_until(CAUGHT_UP),
    mark("n1 fails"),
    kill("n1"),
    wait_until(is_not_leader(1)),
    sleep(seconds(3)),
    heal(),
    wait_until(ALL_FOLLOW_LEADER),
    voters=1,
)
"""RA-30."""

REMOVED_AND_STOPPED = reassigned(
    4,
    *moved((1, 2, 4)),
    stop("n3"),
    sleep(seconds(5)),
    mark("n2 fails"),
    kill("n2"),
    sleep(seconds(5)),
    heal(),
    wait_until(LEADER_KNOWN),
    sleep(seconds(3)),
)
"""RA-34."""
