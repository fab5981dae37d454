"""Scenarios of nodes that differ in how they are deployed: their roles, their listeners, and how they were formatted.

KIP-642 describes a bootstrap without configured voters. Kafka has KIP-853 in its place; the scenarios play the same
situations with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    LEADER_KNOWN,
    is_follower,
    is_not_leader,
)
from harness.model.faults.disks import lose_disk
from harness.model.faults.membership import add_voter, await_membership, remove_voter
from harness.model.faults.probe import ask, run_tool
from harness.model.faults.rpc import Api
from harness.model.measures import enters, exits
from harness.model.quorum_states import State
from harness.model.scenario import Deployment, Scenario, Side, on
from harness.model.story import (
    ALL,
    LEADER,
    Step,
    configure,
    cut,
    heal,
    kill,
    mark,
    seconds,
    sleep,
    start,
    stop,
    wait_until,
)
from harness.scenarios.expectations import commit_gap, happens, leader_changes, unavailable
from harness.scenarios.kip_642_reference import BY_KIP_642, BY_KIP_853, KIP_642
from harness.scenarios.kip_996_elections import first_leader, merged
from harness.scenarios.probes import DESCRIBE
from harness.scenarios.voter_changes import N1_LEADS, QUORUM_MOVES, READY

DEDICATED = {node: {"process.roles": "controller"} for node in (1, 2, 3)}

RA_21 = Scenario(
    id="RA-21",
    title="Clients are interrupted while a quorum moves from dedicated controllers to combined nodes",
    question="Do the clients of n4 to n6 keep writing while these nodes replace the voters n1 to n3, which then stop?",
    source=KIP_642 / "Motivation",
    nodes=6,
    voters=3,
    layout="combined",
    workload="log",
    story=(
        *QUORUM_MOVES,
        *(stop(f"n{node}") for node in DEDICATED),
        sleep(seconds(5)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        shows=(leader_changes(at_least=1),),
        never=(happens(exits()), commit_gap(at_least_ms=8000), unavailable(at_least_ms=5000)),
        node_switches=merged(DEDICATED, first_leader(1, nodes=6)),
    ),
)

OTHER_PORT = {"splitbrain.controller.port": "9095"}
PORTS_CHANGED = mark("all ports have changed")
PORTS_RETURN = mark("the ports are as before")


def changes_port(node: int) -> tuple[Step, ...]:
    """A node restarts with another port."""
    return (configure(f"n{node}", OTHER_PORT), wait_until(is_follower(node)), wait_until(BROKERS_LIVE))


def leader_knows_port(node: int) -> Step:
    """Ask the leader until it knows the new port of a voter, which tells it with UpdateRaftVoter (KIP-853)."""
    port = {f"nodes.{node - 1}.listeners.0.port": int(OTHER_PORT["splitbrain.controller.port"])}
    name = f"the port of n{node}"
    return ask(LEADER, Api.DESCRIBE_QUORUM, 2, DESCRIBE, port, within=30, until_expected=True, name=name)


RA_22 = Scenario(
    id="RA-22",
    title="Voters that have all changed their addresses do not find each other",
    question="Is a leader elected if the ports of all controllers change, all at once or one node after another?",
    source=KIP_642 / "Bootstrapping",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *READY,
        kill(ALL),
        *(configure(f"n{node}", OTHER_PORT) for node in (1, 2, 3)),
        PORTS_CHANGED,
        sleep(seconds(15)),
        PORTS_RETURN,
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    bad=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        shows=(happens(enters(State.PROSPECTIVE), at_least=3, since=PORTS_CHANGED.value, until=PORTS_RETURN.value),),
        never=(happens(enters(State.LEADER), since=PORTS_CHANGED.value, until=PORTS_RETURN.value),),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        story=(
            *N1_LEADS,
            *changes_port(2),
            leader_knows_port(2),
            *changes_port(3),
            leader_knows_port(3),
            *changes_port(1),
            PORTS_CHANGED,
            kill("n2"),
            kill("n3"),
            start(),
            wait_until(BROKERS_LIVE),
        ),
        shows=(happens(enters(State.LEADER), since=PORTS_CHANGED.value),),
        node_switches=first_leader(1, nodes=3),
    ),
)

OTHER_CLUSTER = {"splitbrain.format": "standalone", "splitbrain.cluster.id": "bm90LXRoaXMtY2x1c3Rlcg"}

SECOND_CLUSTER = (wait_until(LEADER_KNOWN), cut("n4"), sleep(seconds(8)), heal(), sleep(seconds(4)))
BOTH_ELECT_AT_ONCE = Deployment(
    "controllers", 4, 3, SECOND_CLUSTER, merged(first_leader(1, nodes=3), {4: OTHER_CLUSTER})
)
"""Each of the two quorums elects its leader in epoch 1, since only n1 campaigns among the first three nodes."""

RA_24 = Scenario(
    id="RA-24",
    title="A fresh node that is cut off forms a quorum of its own",
    question="Does n4 wait for the quorum that its configuration names, or does it lead a second cluster?",
    source=KIP_642 / "Bootstrapping",
    nodes=4,
    voters=3,
    story=(wait_until(ALL_FOLLOW_LEADER), cut("n4"), sleep(seconds(8)), heal(), wait_until(ALL_FOLLOW_LEADER)),
    bad=Side(
        on(kafka="newest 4", reference=BY_KIP_853, reference_deployment=BOTH_ELECT_AT_ONCE),
        breaks=("two-leaders-in-one-epoch", "diverged-logs"),
        node_switches={4: OTHER_CLUSTER},
        story=SECOND_CLUSTER,
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        never=(happens(enters(State.LEADER, node=4)), happens(enters(State.CANDIDATE, node=4))),
    ),
)

VOTERS_MOVED = mark("n2 and n3 are the voters")
N1_RETURNS = mark("n1 returns, if it was stopped")
N4_JOINS = happens(enters(State.FOLLOWER, node=4), since=VOTERS_MOVED.value, until=N1_RETURNS.value)


def voters_move(*then: Step, waits: float = 10) -> tuple[Step, ...]:
    """The quorum moves from n1 to n2 and n3 while n4 is down; then n4 starts with an empty disk."""
    return (
        *READY,
        lose_disk("n4", newcomer=True),
        add_voter("n2"),
        await_membership(),
        add_voter("n3"),
        await_membership(),
        remove_voter("n1"),
        await_membership(),
        wait_until(is_not_leader(1)),
        *then,
        VOTERS_MOVED,
        start("n4"),
        sleep(seconds(waits)),
        N1_RETURNS,
        heal(),
        wait_until(ALL_FOLLOW_LEADER),
    )


# n4 asks n1, an observer, which names the leader. The voters of the reference know n4's address, since it ran before,
# and tell it theirs within 20 s, so n4 joins without n1, too; with the mutant it only hears what it asks for.
FOUND_BY_N1 = {4: {"splitbrain.bootstrap.nodes": "1"}}
N1_STOPS = Deployment("combined", 4, 1, voters_move(stop("n1"), waits=25), FOUND_BY_N1)

RA_23 = Scenario(
    id="RA-23",
    title="A new node whose configuration names old voters does not join",
    question="Does n4, whose configuration names only n1, find the quorum after n1 has left the voters?",
    source=KIP_642 / "Bootstrapping",
    nodes=4,
    voters=1,
    layout="combined",
    story=voters_move(stop("n1")),
    bad=Side(
        on(
            kafka="newest 4",
            reference={**BY_KIP_853, "reference.mutant": "addresses-from-responses-alone"},
            reference_deployment=N1_STOPS,
        ),
        never=(N4_JOINS,),
        node_switches=FOUND_BY_N1,
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853, reference_deployment=N1_STOPS),
        story=voters_move(),
        shows=(N4_JOINS,),
        node_switches=FOUND_BY_N1,
    ),
)

WITHOUT_VOTERS = {"splitbrain.bootstrap.nodes": "1,2,3"}
UPGRADE = run_tool(
    "kafka-features",
    ["--bootstrap-controller", "$controllers", "upgrade", "--feature", "kraft.version=1"],
    output=["was upgraded to 1"],
    until_expected=True,
    name="a quorum whose voters can change",
)
CONFIGURED_ALONE = mark("no configuration names voters")
CONFIGURED_AS_BEFORE = mark("the configuration is as before")
ELECTED_ALONE = happens(enters(State.LEADER), since=CONFIGURED_ALONE.value, until=CONFIGURED_AS_BEFORE.value)


def voters_leave_the_configuration(*first: Step, configured: Mapping[str, str]) -> tuple[Step, ...]:
    """All nodes are restarted without configured voters, with the addresses of n1, n2 and n3 only."""
    return (
        wait_until(ALL_FOLLOW_LEADER),
        *first,
        kill(ALL),
        CONFIGURED_ALONE,
        *(configure(f"n{node}", configured) for node in (1, 2, 3)),
        sleep(seconds(12)),
        CONFIGURED_AS_BEFORE,
        heal(),
        wait_until(LEADER_KNOWN),
    )


IGNORED = {"reference.configured_voters": "ignored", "reference.voter_addresses": "discovered"}
VOTERS_IGNORED = Deployment("controllers", 3, None, voters_leave_the_configuration(configured=IGNORED))
"""The reference's nodes use neither the voters nor the addresses that their configuration names."""

# Kafka stores the voters in the log only after the upgrade to kraft.version 1, which a static quorum has since 4.1. A
# leader refuses it until every voter has told it that it supports the version, so the tool is run again until then.
RA_27 = Scenario(
    id="RA-27",
    title="A quorum needs its initial configuration forever",
    question="Is a leader elected after all nodes have restarted without controller.quorum.voters?",
    source=KIP_642 / "Bootstrapping",
    nodes=3,
    story=voters_leave_the_configuration(configured=WITHOUT_VOTERS),
    bad=Side(
        on(
            kafka="newest 4",
            reference={**BY_KIP_642, "reference.mutant": "configured-voters-not-written"},
            reference_deployment=VOTERS_IGNORED,
        ),
        never=(ELECTED_ALONE,),
        may_break=("server-cannot-start",),  # a leader that was killed is not in the empty set of voters
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_642, reference_deployment=VOTERS_IGNORED),
        story=voters_leave_the_configuration(UPGRADE, configured=WITHOUT_VOTERS),
        shows=(ELECTED_ALONE,),
    ),
)

SCENARIOS = (RA_21, RA_22, RA_23, RA_24, RA_27)
