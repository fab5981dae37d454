"""How nodes find each other by DiscoverBrokers: what a node takes over from another's addresses (KIP-642)."""

from __future__ import annotations

import dataclasses
import random
import uuid

import pytest
from kio.schema.errors import ErrorCode

from harness.model.quorum_states import State
from nodes.reference.core.events import Assignment, Discover, Discovered, Election, Stored, Tick
from nodes.reference.core.messages import (
    NO_NODE,
    Advertised,
    BeginQuorumEpochRequest,
    DiscoverRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    ReplicaKey,
    Request,
    VoteRequest,
    VoterNode,
)
from nodes.reference.core.mutants import Mutant
from nodes.reference.core.node import Node
from nodes.reference.core.settings import NodeSettings
from tests.support.nodes.mutant_cases import with_and_without
from tests.support.nodes.quorum_simulation import Simulation


@with_and_without("gossip-of-any-age")
def test_address_of_an_earlier_start_is_not_taken_over(mutant: Mutant | None) -> None:
    quorum = Simulation(seed=1, mutant=mutant, voter_changes="kip-642")

    def known_port(port: int, boot_ms: int) -> int:
        told = DiscoverRequest("test", (Advertised(7, "host", port, boot_ms),), NO_NODE, 0)
        (found,) = quorum.invoke(1, told).response.brokers
        return int(found.port)

    assert known_port(9001, boot_ms=100) == 9001
    assert known_port(9002, boot_ms=200) == 9002
    assert known_port(9001, boot_ms=100) == (9001 if mutant else 9002)


def test_node_whose_clock_was_set_back_keeps_its_old_address_until_it_has_caught_up() -> None:
    """The boot timestamp is the advertising node's own clock, so only a later one announces a new address."""
    quorum = Simulation(seed=1, voter_changes="kip-642")

    def known_port(port: int, boot_ms: int) -> int:
        told = DiscoverRequest("test", (Advertised(7, "host", port, boot_ms),), NO_NODE, 0)
        return int(quorum.invoke(1, told).response.brokers[0].port)

    assert [known_port(9001, 3_600_000), known_port(9002, 5_000), known_port(9002, 3_600_001)] == [9001, 9001, 9002]


@with_and_without("addresses-from-responses-alone")
def test_address_in_a_request_is_taken_over(mutant: Mutant | None) -> None:
    """A node that asks somebody else, or nobody, still learns where those are who ask it."""
    quorum = Simulation(seed=1, mutant=mutant, voter_changes="kip-642")
    told = DiscoverRequest("test", (Advertised(7, "host", 9001, 100),), NO_NODE, 0)
    known = [broker.node_id for broker in quorum.invoke(1, told).response.brokers]
    assert known == ([] if mutant else [7])


@with_and_without("configured-voters-not-written")
def test_quorum_does_without_its_configured_voters_once_its_first_leader_has_written_them(
    mutant: Mutant | None,
) -> None:
    quorum = Simulation(seed=1, mutant=mutant, voter_changes="kip-642")
    quorum.elect()
    quorum.run(2_000)
    for node, member in quorum.members.items():
        quorum.crash(node)
        member.settings = dataclasses.replace(member.settings, configured_voters="ignored")
    for node in quorum.members:
        quorum.restart(node)
    quorum.run(20_000)
    assert (quorum.leader() is None) is (mutant is not None)


def test_voter_looks_for_the_others_at_the_addresses_in_its_log() -> None:
    """All addresses in the configuration are out of date; the log has those that UpdateRaftVoter wrote (KIP-853)."""
    voters = [VoterNode(ReplicaKey(node, uuid.UUID(int=node)), "host", 9000 + node) for node in (1, 2)]
    settings = NodeSettings(
        1,
        (1, 2),
        "test",
        directory_id=uuid.UUID(int=1),
        initial_voters=tuple(voters),
        bootstrap_servers=(("old", 9093),),
        advertised=("host", 9001),
        voter_changes="kip-853",
    )
    node = Node(settings, Stored(Election(), b""), random.Random(1).randrange, 0)
    asked = set()
    for now_ms in range(0, 2_000, 100):
        for effect in node.handle(Tick(), now_ms):
            if isinstance(effect, Discover):
                asked.add(effect.contact)
        node.handle(Discovered(None), now_ms)
    assert asked == {("old", 9093), ("host", 9002)}


@with_and_without("election-before-discovery")
def test_voter_begins_no_election_before_it_has_found_a_majority_of_the_voters(mutant: Mutant | None) -> None:
    quorum = Simulation(seed=1, mutant=mutant, voter_changes="kip-642", voter_addresses="discovered")
    quorum.run(20_000)
    assert (quorum.leader() is not None) is (mutant is not None)
    if mutant is None:
        quorum.invoke(1, DiscoverRequest("test", (Advertised(2, "host", 9001, 100),), NO_NODE, 0))
        quorum.run_until(lambda: quorum.leader() == 1)


def led_by_456(finds_others: int) -> tuple[Simulation, int]:
    """A quorum whose voters are 4, 5 and 6 now, and its leader; 1 and 2 are gone, and 3 and 7 have not been started."""
    found_by = {finds_others: {"bootstrap_servers": (("n1", 9093), ("n5", 9093))}}
    quorum = Simulation(seed=1, observers=4, started=(1, 2, 4, 5, 6), voter_changes="kip-642", per_node=found_by)
    quorum.reassign(quorum.elect(), 4, 5, 6)
    quorum.run_until(lambda: quorum.node(5).voters.last.assignment == Assignment((4, 5, 6)))
    leader = quorum.elect()
    quorum.crash(1)
    quorum.crash(2)
    return quorum, leader


def test_voter_of_old_finds_the_leader_of_its_own_epoch_although_all_voters_that_it_knows_are_gone() -> None:
    """Voter 3 knows the leader's epoch from a vote request alone: it missed the reassignment, and restarted."""
    quorum, leader = led_by_456(finds_others=3)
    quorum.members[3].election = Election(epoch=quorum.epochs()[leader])
    quorum.restart(3)
    quorum.run_until(lambda: quorum.node(3).voters.last.assignment == Assignment((4, 5, 6)))
    assert (quorum.node(3).leader_id, len(set(quorum.epochs().values()))) == (leader, 1)


def test_restarted_observer_fetches_from_the_leader_that_it_knows_although_its_log_does_not_say_that_it_votes() -> None:
    quorum, leader = led_by_456(finds_others=7)
    quorum.members[7].election = Election(epoch=quorum.epochs()[leader], leader_id=leader)
    quorum.restart(7)
    assert quorum.node(7).state.kind is State.FOLLOWER
    quorum.run_until(lambda: quorum.node(7).voters.last.assignment == Assignment((4, 5, 6)))


def test_node_of_another_cluster_learns_nothing() -> None:
    quorum = Simulation(seed=1, voter_changes="kip-642")
    told = DiscoverRequest("other", (Advertised(7, "host", 9001, 100),), NO_NODE, 0)
    response = quorum.invoke(1, told).response
    assert (response.error, response.brokers) == (ErrorCode.inconsistent_cluster_id, ())


@pytest.mark.parametrize(
    "request_of_another_cluster",
    [
        VoteRequest("other", 1, 2, 5, 0, 0),
        BeginQuorumEpochRequest("other", 2, 5),
        EndQuorumEpochRequest("other", 2, 5, (1,)),
        FetchRequest("other", 2, 0, 0, 0, 0, 1_000),
    ],
    ids=lambda request: type(request).__name__,
)
def test_request_of_another_cluster_is_refused_and_changes_no_epoch(request_of_another_cluster: Request) -> None:
    quorum = Simulation(seed=1, voter_changes="kip-642", started=[1])
    response = quorum.invoke(1, request_of_another_cluster).response
    assert (response.error, quorum.epochs()[1]) == (ErrorCode.inconsistent_cluster_id, 0)


def test_node_tells_its_own_address_first() -> None:
    """The bootstrapping procedure, 4a: a node has itself in its responses from the beginning."""
    quorum = Simulation(seed=1, voter_changes="kip-642", per_node={1: {"advertised": ("host-of-1", 9093)}})
    told = DiscoverRequest("test", (Advertised(0, "host", 9001, 100),), NO_NODE, 0)
    brokers = quorum.invoke(1, told).response.brokers
    assert [(each.node_id, each.host) for each in brokers] == [(1, "host-of-1"), (0, "host")]


CONFIGURED_VOTERS = ["at-once", "fallback", "ignored"]


def with_emptied_disks(configured_voters: str) -> Simulation:
    """The voters are 4, 5 and 6. The voters of old, 1 and 2, are down; their disks were replaced by empty ones."""
    servers = tuple((f"n{node}", 9093) for node in (1, 2, 5))
    found_by = {"configured_voters": configured_voters, "bootstrap_servers": servers}
    quorum = Simulation(seed=1, observers=3, voter_changes="kip-642", per_node={1: found_by, 2: found_by})
    quorum.reassign(quorum.elect(), 4, 5, 6)
    quorum.run_until(lambda: quorum.node(5).voters.last.assignment == Assignment((4, 5, 6)))
    quorum.elect()
    for node in (1, 2, 3):
        quorum.crash(node)
    for node in (1, 2):
        quorum.lose_disk(node)
    return quorum


def founders(quorum: Simulation) -> set[int]:
    """Start 1 and 2, and let time pass: those of them that lead a cluster of their own meanwhile."""
    before = len(quorum.transitions)
    quorum.restart(1)
    quorum.restart(2)
    quorum.run(20_000)
    later = quorum.transitions[before:]
    return {node for node, _, target, _, _ in later if node in (1, 2) and target is State.LEADER}


@pytest.mark.parametrize("configured_voters", CONFIGURED_VOTERS)
def test_empty_nodes_found_a_second_cluster_only_if_they_do_not_look_for_the_first(configured_voters: str) -> None:
    """Step 5: the configuration counts only if discovery fails. A response here takes longer than an election."""
    quorum = with_emptied_disks(configured_voters)
    quorum.message_rule = lambda _sender, _receiver, request, is_response: (
        1_900 if isinstance(request, DiscoverRequest) and is_response else 0
    )
    assert bool(founders(quorum)) is (configured_voters == "at-once")
    if configured_voters != "at-once":
        assert quorum.node(1).voters.last.assignment == Assignment((4, 5, 6))
        assert quorum.violations == []


@pytest.mark.parametrize("configured_voters", CONFIGURED_VOTERS)
def test_empty_nodes_that_cannot_reach_the_quorum_wait_for_it_without_the_flag(configured_voters: str) -> None:
    """KIP-642 suggests --bootstrap for this: discovery fails, and so the configuration counts."""
    quorum = with_emptied_disks(configured_voters)
    quorum.cut(*((outside, node) for outside in (1, 2) for node in (4, 5, 6)))
    assert bool(founders(quorum)) is (configured_voters != "ignored")
    if configured_voters == "ignored":
        quorum.heal()
        quorum.run_until(lambda: quorum.node(1).voters.last.assignment == Assignment((4, 5, 6)))
        assert quorum.violations == []


@pytest.mark.parametrize("with_flag", [(), (1,), (1, 2, 3)])
def test_cluster_is_founded_if_one_voter_has_the_flag(with_flag: tuple[int, ...]) -> None:
    servers = tuple((f"n{node}", 9093) for node in (1, 2, 3))
    per_node = {
        node: {"configured_voters": "fallback" if node in with_flag else "ignored", "bootstrap_servers": servers}
        for node in (1, 2, 3)
    }
    quorum = Simulation(seed=1, voter_changes="kip-642", per_node=per_node)
    quorum.run(20_000)
    assert (quorum.leader() in with_flag) is bool(with_flag)
    if with_flag:
        last = [member.node.voters.last for member in quorum.members.values() if member.node]
        assert {(each.offset, each.assignment) for each in last} == {(0, Assignment((1, 2, 3)))}
    assert quorum.violations == []
