"""KIP-996: a Prospective follows again when a message of its epoch names the leader. Kafka 4.3.1 stays Prospective.

The switch prospective_follows selects the one or the other; its third value is in test_policies.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from harness.model.quorum_states import State
from nodes.reference.core import events
from nodes.reference.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchResponse,
    Response,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.core.node import Node
from nodes.reference.core.settings import NodeSettings
from tests.support.nodes.quorum_simulation import Simulation

EPOCH, LEADER, VOTER = 5, 2, 3
FOLLOWS = {True: "any-response", False: "unknown-leader"}
BY_KIP = pytest.mark.parametrize("by_kip", [True, False], ids=["KIP-996", "Kafka 4.3.1"])


def prospective(stored: events.Election, by_kip: bool) -> tuple[Node, dict[int, events.Send]]:
    """Node 1 of five, Prospective in EPOCH, and its pre-vote requests by peer."""
    settings = NodeSettings(1, (1, 2, 3, 4, 5), "test", prospective_follows=FOLLOWS[by_kip])
    node = Node(settings, events.Stored(stored), lambda low, _: low, 0)
    node.handle(events.Tick(), 0)
    effects = node.handle(events.Tick(), node.state.deadline_ms)
    assert (node.state.kind, node.state.epoch, node.state.leader_id) == (State.PROSPECTIVE, EPOCH, stored.leader_id)
    return node, {effect.peer: effect for effect in effects if isinstance(effect, events.Send)}


def answer(node: Node, sent: events.Send, response: Response) -> State:
    """The node's state after this response to its pre-vote request."""
    node.handle(events.Answered(sent.peer, sent.request_id, response), node.state.deadline_ms - 1)
    return node.state.kind


@BY_KIP
def test_prospective_that_knows_no_leader_follows_the_one_that_a_response_names(by_kip: bool) -> None:
    node, sent = prospective(events.Election(EPOCH), by_kip)
    assert answer(node, sent[VOTER], VoteResponse(ErrorCode.none, LEADER, EPOCH, False)) is State.FOLLOWER
    assert node.state.leader_id == LEADER


@BY_KIP
@pytest.mark.parametrize(
    "response",
    [
        VoteResponse(ErrorCode.none, LEADER, EPOCH, False),
        VoteResponse(ErrorCode.invalid_voter_key, LEADER, EPOCH, False),
        EpochResponse(ErrorCode.none, LEADER, EPOCH),
        FetchResponse(ErrorCode.not_leader_or_follower, LEADER, EPOCH),
    ],
    ids=["rejected vote", "vote error", "epoch response", "fetch response"],
)
def test_prospective_that_knows_its_leader_follows_on_a_response_by_kip_only(response: Response, by_kip: bool) -> None:
    node, sent = prospective(events.Election(EPOCH, LEADER), by_kip)
    assert answer(node, sent[VOTER], response) is (State.FOLLOWER if by_kip else State.PROSPECTIVE)
    assert (node.state.leader_id, node.state.epoch) == (LEADER, EPOCH)


@BY_KIP
@pytest.mark.parametrize(
    "request_",
    [BeginQuorumEpochRequest("test", LEADER, EPOCH), EndQuorumEpochRequest("test", LEADER, EPOCH, (3, 4, 5, 1))],
    ids=["BeginQuorumEpoch", "EndQuorumEpoch"],
)
def test_prospective_that_knows_its_leader_follows_on_its_request_by_kip_only(
    request_: BeginQuorumEpochRequest | EndQuorumEpochRequest, by_kip: bool
) -> None:
    node, _ = prospective(events.Election(EPOCH, LEADER), by_kip)
    node.handle(events.Arrived(1, 1, request_), 2_100)
    assert node.state.kind is (State.FOLLOWER if by_kip else State.PROSPECTIVE)


@BY_KIP
def test_granted_pre_vote_is_counted_though_it_names_the_known_leader(by_kip: bool) -> None:
    """A voter that has not fetched grants and names the leader; without its vote nobody replaces a failed leader."""
    node, sent = prospective(events.Election(EPOCH, LEADER), by_kip)
    granted = VoteResponse(ErrorCode.none, LEADER, EPOCH, True)
    assert answer(node, sent[3], granted) is State.PROSPECTIVE
    assert answer(node, sent[4], granted) is State.CANDIDATE


@BY_KIP
@pytest.mark.parametrize("leader_id", [None, LEADER], ids=["no leader known", "leader known"])
def test_prospective_follows_the_leader_of_a_higher_epoch(leader_id: int | None, by_kip: bool) -> None:
    node, sent = prospective(events.Election(EPOCH, leader_id), by_kip)
    assert answer(node, sent[VOTER], VoteResponse(ErrorCode.none, 4, EPOCH + 1, False)) is State.FOLLOWER
    assert (node.state.leader_id, node.state.epoch) == (4, EPOCH + 1)


@BY_KIP
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_quorum_replaces_a_crashed_leader(seed: int, size: int, by_kip: bool) -> None:
    quorum = Simulation(seed=seed, size=size, prospective_follows=FOLLOWS[by_kip])
    leader = quorum.elect()
    quorum.run(1_000)
    quorum.crash(leader)
    quorum.run_until(lambda: quorum.leader() not in (None, leader), 10_000)
    assert quorum.violations == []


@pytest.mark.parametrize("seed", range(5))
@BY_KIP
def test_first_rejection_ends_the_pre_votes_by_kip_only(by_kip: bool, seed: int) -> None:
    """The link to the leader is cut, and all rejections but one are delayed: Kafka's Prospective waits for them."""
    quorum = Simulation(seed=seed, size=5, prospective_follows=FOLLOWS[by_kip])
    leader = quorum.elect()
    quorum.run(1_000)
    follower, fast, *_ = [node for node in quorum.members if node != leader]
    quorum.cut((leader, follower))

    def delay_rejections(sender: int, _receiver: int, request: object, is_response: bool) -> int:
        return 300 if is_response and isinstance(request, VoteRequest) and sender != fast else 0

    quorum.message_rule = delay_rejections
    quorum.run_until(lambda: quorum.node(follower).state.kind is State.PROSPECTIVE)
    start_ms, epoch = quorum.now_ms, quorum.epochs()[leader]
    quorum.run_until(lambda: quorum.node(follower).state.kind is State.FOLLOWER)
    assert quorum.now_ms - start_ms <= 10 if by_kip else quorum.now_ms - start_ms >= 300
    assert (quorum.leader(), quorum.epochs()[follower]) == (leader, epoch)
    assert quorum.violations == []
