"""Scenarios of voters whose disk is replaced, on Kafka: a node with a new directory id is another voter (KIP-853)."""

from __future__ import annotations

from harness.model.conditions import CAUGHT_UP, LEADER_KNOWN, all_follow
from harness.model.faults.disks import lose_disk
from harness.model.faults.membership import add_voter, await_membership, remove_voter
from harness.model.measures import enters, exits
from harness.model.quorum_states import State
from harness.model.scenario import Scenario, Side, on
from harness.model.story import both_ways, cut, cut_links, heal, heal_links, mark, seconds, sleep, start, wait_until
from harness.scenarios.expectations import epochs_burned, happens, leader_deposed
from harness.scenarios.kip_642_reference import BY_KIP_853, KIP_642
from harness.scenarios.kip_996 import KIP_996
from harness.scenarios.kip_996_elections import N2_FIRST
from harness.scenarios.voter_changes import N1_LEADS
from harness.scenarios.voter_changes_refused import N1_FIRST_OF_3
from harness.scenarios.voter_roles import campaigns, role_shows

RA_36 = Scenario(
    id="RA-36",
    title="A node with a new disk uses the vote of its old one",
    question="Is n3 with a new directory id an observer, which cannot be added before its old id is removed?",
    source=KIP_642 / "Disk replacement",
    nodes=3,
    voters=3,
    layout="combined",
    story=(
        *N1_LEADS,
        lose_disk("n3", newcomer=True),
        start("n3"),
        wait_until(CAUGHT_UP),
        *role_shows(3),
        wait_until(CAUGHT_UP),
        add_voter("n3", refused="DUPLICATE_VOTER"),
        remove_voter("n3"),
        await_membership(),
        mark("n3 is added"),
        add_voter("n3"),
        await_membership(),
        sleep(seconds(1)),  # the leader still lists the old disk, which never catches up
        cut("n3"),
        sleep(seconds(7)),
        heal(),
        wait_until(LEADER_KNOWN),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        node_switches=N1_FIRST_OF_3,
        shows=(happens(enters(State.PROSPECTIVE, node=3), since="n3 is added"),),
        never=(
            *(happens(event, since="the role of n3 shows", until="n3 is added") for event in campaigns(3)),
            happens(exits()),
            leader_deposed,
            epochs_burned(at_least=1),
        ),
    ),
)

# n2 and n3 commit records that n1 does not have. n3 returns with an empty disk while n2 is partitioned.
PV_32K = Scenario(
    id="PV-32K",
    title="A voter with a new directory id elects a lagging voter, and committed records are lost",
    question="Is n1, which lacks committed records, not elected by n3, whose new disk has a new directory id?",
    source=KIP_996 / "Covering disk loss scenario in scope",
    nodes=3,
    voters=3,
    story=(
        wait_until(all_follow(2)),
        cut("n1"),
        sleep(seconds(4)),
        lose_disk("n3", newcomer=True),
        heal_links(both_ways((1, 3))),
        cut_links(both_ways((2, 3))),
        mark("n1 and n3 are alone"),
        start("n3"),
        sleep(seconds(15)),
        mark("n2 is back"),
        heal(),
        wait_until(LEADER_KNOWN),
        sleep(seconds(4)),
    ),
    good=Side(
        on(kafka="newest 4", reference=BY_KIP_853),
        shows=(
            happens(enters(State.PROSPECTIVE, node=1), since="n1 and n3 are alone"),
            happens(enters(State.LEADER, node=2), since="n2 is back"),
        ),
        never=(
            *(happens(enters(State.LEADER, node=node), since="n1 and n3 are alone") for node in (1, 3)),
            happens(exits()),
        ),
        node_switches=N2_FIRST,
    ),
)

SCENARIOS = (PV_32K, RA_36)
