"""Scenarios of quorums whose voters change, on Kafka: what KIP-642 and KIP-996 say, as KIP-853 has implemented it.

n4 and higher are observers until they are added. Whether a node believes that it is a voter shows when it is cut off: a
voter becomes Prospective, an observer does not: since Kafka 3.9 it stays Follower and fetches from any known voter.
"""

from __future__ import annotations

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    CAUGHT_UP,
    LEADER_KNOWN,
    all_follow,
    is_not_leader,
)
from harness.model.faults.disks import lose_disk
from harness.model.faults.membership import add_voter, await_membership, remove_voter
from harness.model.measures import enters, exits
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import (
    Step,
    cut,
    cut_links,
    heal,
    kill,
    lead,
    mark,
    pause,
    seconds,
    sleep,
    start,
    stop,
    wait_until,
)
from harness.scenarios.expectations import (
    commit_gap,
    epochs_burned,
    happens,
    later_than,
    leader_changes,
    leader_deposed,
)
from harness.scenarios.kip_595 import KIP_595
from harness.scenarios.kip_642_reference import (
    ALL_REPLACED,
    BY_KIP_642,
    BY_KIP_853,
    DISK_REPLACED,
    GROWN_AND_SHRUNK,
    GROWN_FROM_ONE,
    KIP_642,
    LEADER_REMOVED,
    REMOVED_AND_STOPPED,
    TOLD_OF_REMOVAL,
)
from harness.scenarios.kip_996 import KIP_996
from harness.scenarios.kip_996_elections import first_leader
from harness.scenarios.voter_roles import campaigns, role_shows


def replaced(out: str, into: str) -> tuple[Step, ...]:
    """Remove one voter and add another, each change committed before the next."""
    return remove_voter(out), await_membership(), add_voter(into), await_membership()


READY = (wait_until(ALL_FOLLOW_LEADER), wait_until(BROKERS_LIVE))
"""A node can be added when it serves requests, a little after it follows the leader."""

N1_LEADS = (*READY, lead("n1"), wait_until(all_follow(1)))
"""With first_leader(1), n1 leads anyway. A node that was deposed truncates its log, and may keep old voters (EX-02)."""

PV_18 = Scenario(
    id="PV-18",
    title="An observer starts elections when it loses the quorum",
    question="Do a controller and a broker that are not voters stay out of elections while they are cut off for 20 s?",
    source=KIP_996 / "Observers",
    nodes=5,
    voters=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        cut("n4"),
        cut("n5"),
        sleep(seconds(20)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(
        on(reference={}, kafka="newest 4"),
        never=(
            *(happens(event) for node in (4, 5) for event in campaigns(node)),
            leader_deposed,
            epochs_burned(at_least=1),
        ),
        node_switches={5: {"process.roles": "broker"}},
    ),
)

PV_24 = Scenario(
    id="PV-24",
    title="A removed voter that missed its removal stays Prospective forever",
    question="Does n3, which was removed while it could not reach the leader, learn of it when the link heals?",
    source=KIP_996 / "Rejected alternatives",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        cut_links([(1, 3), (3, 1)]),
        sleep(seconds(1)),
        remove_voter("n3"),
        await_membership(),
        sleep(seconds(6)),
        mark("n3 reaches the leader"),
        heal(),
        wait_until(CAUGHT_UP),
        sleep(seconds(2)),
        *role_shows(3),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        shows=(
            happens(enters(State.PROSPECTIVE, node=3)),
            happens(enters(State.FOLLOWER, node=3), since="n3 reaches the leader"),
        ),
        never=(
            later_than(4000, "n3 reaches the leader", enters(State.FOLLOWER, node=3)),
            *(happens(event, since="the role of n3 shows") for event in campaigns(3)),
            leader_deposed,
        ),
        node_switches=first_leader(1, nodes=3),
    ),
)

# n1 has never led, or it could have truncated its log and keep its old voters (EX-02). n2 waits until none of its
# requests to n1 is open, or n1's late response could end it (EX-03).
PV_30 = Scenario(
    id="PV-30",
    title="A removed voter that does not know of its removal is elected",
    question="Is n1, which missed its removal, kept from leading while the leader is paused, and an observer later?",
    source=KIP_996 / "Why do we need Followers to reject Pre-Vote requests?",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *READY,
        lead("n2"),
        wait_until(all_follow(2)),
        cut("n1"),
        sleep(seconds(1)),
        remove_voter("n1"),
        await_membership(),
        sleep(seconds(3)),
        pause("n2"),
        mark("n1 campaigns"),
        heal(),
        wait_until(LEADER_KNOWN),
        wait_until(CAUGHT_UP),
        sleep(seconds(3)),
        *role_shows(1),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        shows=(
            happens(enters(State.PROSPECTIVE, node=1)),
            happens(enters(State.FOLLOWER, node=1), since="n1 campaigns"),
        ),
        never=(
            happens(enters(State.LEADER, node=1)),
            *(happens(event, since="the role of n1 shows") for event in campaigns(1)),
        ),
        node_switches=first_leader(2, nodes=3),
    ),
)


def removed_while_cut_off(*meanwhile: Step) -> tuple[Step, ...]:
    """n1 leads, is cut off, and is removed by the leader that follows it, after these steps."""
    return (
        *N1_LEADS,
        mark("n1 is cut off"),
        cut("n1"),
        wait_until(is_not_leader(1)),
        *meanwhile,
        remove_voter("n1"),
        await_membership(),
        sleep(seconds(6)),
        mark("n1 is reachable"),
        heal(),
        wait_until(CAUGHT_UP),
        sleep(seconds(3)),
        *role_shows(1),
    )


RESIGNS_AND_FOLLOWS = (
    happens(enters(State.RESIGNED, node=1)),
    happens(enters(State.FOLLOWER, node=1), since="n1 is reachable"),
)

# n1 appends records until it resigns, and truncates them when it returns. If the record that removes it is at an offset
# below the end that its log had, n1 does not take it into account (EX-02): it still believes that it is a voter.
LP_07 = Scenario(
    id="LP-07",
    title="A leader that was removed while it was cut off starts elections forever",
    question="Does n1 resign after 3 s, and learn of its removal when it returns?",
    source=KIP_595 / "Leader Progress Timeout",
    nodes=3,
    voters=3,
    layout="combined",
    story=removed_while_cut_off(),
    bad=Side(
        on(kafka="4.3.1", reference={**BY_KIP_853, "reference.mutant": "voters-below-former-end-ignored"}),
        shows=(*RESIGNS_AND_FOLLOWS, happens(enters(State.PROSPECTIVE, node=1), since="the role of n1 shows")),
        node_switches=first_leader(1, nodes=3),
    ),
    good=Side(
        on(kafka="4.3.1", reference=BY_KIP_853),
        shows=RESIGNS_AND_FOLLOWS,
        never=(
            later_than(4500, "n1 is cut off", enters(State.RESIGNED, node=1)),
            *(happens(event, since="the role of n1 shows") for event in campaigns(1)),
        ),
        story=removed_while_cut_off(sleep(seconds(12))),
        node_switches=first_leader(1, nodes=3),
    ),
)

QUORUM_MOVES = (
    *N1_LEADS,
    *replaced("n2", "n4"),
    *replaced("n3", "n5"),
    add_voter("n6"),
    await_membership(),
    remove_voter("n1"),
    await_membership(),
    wait_until(is_not_leader(1)),
)
"""The voters n1 to n3 are replaced by n4 to n6, one after another; n1, the leader, is the last to leave."""

RA_01 = Scenario(
    id="RA-01",
    title="All voters of a quorum are replaced",
    question="Does the quorum of n1 to n3 move to n4 to n6, one voter at a time, without a pause in commits?",
    source=KIP_642 / "Quorum Change Protocol",
    nodes=6,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_MOVES,
        sleep(seconds(5)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=ALL_REPLACED),
        shows=(leader_changes(at_least=1),),
        never=(happens(exits()), commit_gap(at_least_ms=8000)),
        node_switches=first_leader(1, nodes=6),
    ),
)

RA_10 = Scenario(
    id="RA-10",
    title="A leader that is removed steps down too early, or exits",
    question="Does n1 lead until its removal is committed, and is another leader elected then?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=3,
    voters=3,
    layout="combined",
    workload="register",
    story=(
        *N1_LEADS,
        sleep(seconds(2)),
        mark("n1 is removed"),
        remove_voter("n1"),
        await_membership(),
        wait_until(is_not_leader(1)),
        sleep(seconds(4)),
        *role_shows(1),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=LEADER_REMOVED),
        shows=(happens(enters(State.LEADER), since="n1 is removed"),),
        never=(
            happens(exits()),
            commit_gap(at_least_ms=8000),
            *(happens(event, since="the role of n1 shows") for event in campaigns(1)),
        ),
        node_switches=first_leader(1, nodes=3),
    ),
)

RA_15 = Scenario(
    id="RA-15",
    title="A removed voter starts elections forever",
    question="Does n3 become an observer as soon as it has fetched the record that removes it?",
    source=KIP_642 / "Reassignment Algorithm",
    nodes=3,
    voters=3,
    layout="combined",
    story=(*N1_LEADS, remove_voter("n3"), await_membership(), wait_until(CAUGHT_UP), sleep(seconds(1)), *role_shows(3)),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=TOLD_OF_REMOVAL),
        never=(*(happens(event) for event in campaigns(3)), leader_deposed, epochs_burned(at_least=1)),
        node_switches=first_leader(1, nodes=3),
    ),
)

RA_19 = Scenario(
    id="RA-19",
    title="A quorum that grows and shrinks loses availability",
    question="Does a quorum that grows from one voter to three, loses one, and shrinks to two keep every write?",
    source=KIP_642 / "Motivation",
    nodes=3,
    voters=1,
    layout="combined",
    workload="register",
    story=(
        *READY,
        add_voter("n2"),
        await_membership(),
        add_voter("n3"),
        await_membership(),
        wait_until(CAUGHT_UP),
        kill("n3"),
        sleep(seconds(3)),
        remove_voter("n3"),
        await_membership(),
        start("n3"),
        wait_until(ALL_FOLLOW_LEADER),
        add_voter("n3"),
        await_membership(),
        remove_voter("n2"),
        await_membership(),
        sleep(seconds(3)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=GROWN_AND_SHRUNK),
        never=(happens(exits()), commit_gap(at_least_ms=8000), leader_deposed),
    ),
)

RA_20 = Scenario(
    id="RA-20",
    title="A voter whose disk is lost cannot be replaced",
    question="Can n4 replace n3, whose disk is lost, while n1 and n2 keep committing?",
    source=KIP_642 / "Motivation",
    nodes=4,
    voters=3,
    layout="combined",
    workload="register",
    story=(
        *N1_LEADS,
        lose_disk("n3"),
        sleep(seconds(2)),
        *replaced("n3", "n4"),
        wait_until(CAUGHT_UP),
        mark("n2 fails too"),
        kill("n2"),
        sleep(seconds(6)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=DISK_REPLACED),
        never=(happens(exits()), commit_gap(at_least_ms=5000), leader_deposed),
        node_switches=first_leader(1, nodes=4),
    ),
)

RA_30 = Scenario(
    id="RA-30",
    title="A quorum of one node cannot grow without a restart",
    question="Does a quorum that starts with n1 alone grow to three voters, and survive the loss of n1?",
    source=KIP_642 / "Bootstrapping Example",
    nodes=3,
    voters=1,
    layout="combined",
    story=(
        *READY,
        add_voter("n2"),
        await_membership(),
        add_voter("n3"),
        await_membership(),
        wait_until(CAUGHT_UP),
        mark("n1 fails"),
        kill("n1"),
        wait_until(is_not_leader(1)),
        sleep(seconds(3)),
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=GROWN_FROM_ONE),
        shows=(happens(enters(State.LEADER), since="n1 fails"),),
        never=(happens(enters(State.LEADER, node=1), since="n1 fails"), commit_gap(at_least_ms=10_000)),
    ),
)

RA_34 = Scenario(
    id="RA-34",
    title="A voter that shuts down shrinks the quorum",
    question="Does the quorum lose nothing if n3 is first removed, and then stopped as an observer?",
    source=KIP_642 / "Shutdown",
    nodes=4,
    voters=3,
    layout="combined",
    workload="register",
    story=(
        *N1_LEADS,
        *replaced("n3", "n4"),
        stop("n3"),
        sleep(seconds(5)),
        mark("n2 fails"),
        kill("n2"),
        sleep(seconds(5)),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(3)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=REMOVED_AND_STOPPED),
        never=(happens(exits()), commit_gap(at_least_ms=5000), leader_deposed),
        node_switches=first_leader(1, nodes=4),
    ),
)

AUTO_JOIN = {"controller.quorum.auto.join.enable": "true"}

RA_37 = Scenario(
    id="RA-37",
    title="A node repeatedly joins the voters by itself",
    question="Does n4 become a voter by itself, and again after an operator has removed it while it runs?",
    source=Source("KIP-853") / "Automatic joining",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        sleep(seconds(10)),
        *role_shows(4),
        remove_voter("n4"),
        await_membership(),
        sleep(seconds(15)),
        mark("n4 was removed"),
        cut("n4"),
        sleep(seconds(7)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(
        on(kafka="newest 4", kafka_switches=AUTO_JOIN),
        shows=(
            happens(enters(State.PROSPECTIVE, node=4), since="the role of n4 shows"),
            happens(enters(State.PROSPECTIVE, node=4), since="n4 was removed"),
        ),
        node_switches=first_leader(1, nodes=4),
    ),
)

SCENARIOS = (PV_18, PV_24, PV_30, LP_07, RA_01, RA_10, RA_15, RA_19, RA_20, RA_30, RA_34, RA_37)
