"""What each policy of the election core changes, and what each mutant breaks; one test per switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.model import BadInput
from harness.model.quorum_states import KIP_996, State
from nodes.reference.core.events import Answered, Election, Send, Stored, Tick
from nodes.reference.core.messages import (
    NO_NODE,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.core.node import Node
from nodes.reference.core.settings import READINGS, CandidateBackoff, NodeSettings
from nodes.reference.properties import parse
from tests.support.nodes.quorum_simulation import Simulation

SEEDS = range(5)


def vote(quorum: Simulation, voter: int, candidate: int, epoch: int, pre_vote: bool = False) -> bool:
    """Whether the voter grants this vote to a candidate with a log as long as its own."""
    log = quorum.node(voter).log
    last_epoch = min(log.last_epoch, epoch if pre_vote else epoch - 1)
    request = VoteRequest("test", voter, candidate, epoch, last_epoch, log.end_offset, pre_vote)
    return bool(quorum.invoke(voter, request).response.granted)


def followers_of(quorum: Simulation, leader: int) -> list[int]:
    """The other nodes."""
    return [node for node in quorum.members if node != leader]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("switches", "is_elected"),
    [
        ({}, True),
        ({"mutant": "followers-always-deny-pre-vote"}, False),
        ({"mutant": "followers-always-deny-pre-vote", "prospective_follows": "begin-quorum"}, True),
    ],
    ids=["KIP-996", "followers always deny", "followers always deny, rejected first solution"],
)
def test_followers_that_never_fetched_must_grant_pre_votes(
    switches: dict[str, Any], is_elected: bool, seed: int
) -> None:
    """PV-23, PV-37: n3 loses leader n1 first, then n2; n2 and n3 are a majority."""
    quorum = Simulation(seed=seed, per_node={1: {"election_timeout_ms": 500}}, **switches)
    assert quorum.elect() == 1
    quorum.run(1_000)
    quorum.cut((1, 3))
    quorum.run(3_000)  # so that n2 and n3 do not time out together
    quorum.cut((1, 2))
    quorum.run(30_000)
    assert (quorum.leader() in (2, 3)) is is_elected
    assert quorum.violations == []


@pytest.mark.parametrize("mutant", [None, "resigned-keeps-its-epoch"])
def test_resigned_leader_raises_its_epoch_or_follows_itself(mutant: str | None) -> None:
    """PV-16."""
    quorum = Simulation(seed=3, mutant=mutant)
    leader = quorum.elect()
    epoch = quorum.epochs()[leader]
    quorum.isolate(leader)
    quorum.run(15_000)
    steps = [
        (source, target, before, after)
        for node, source, target, before, after in quorum.transitions
        if node == leader and before >= epoch and source is not None
    ]
    is_by_the_table = all(KIP_996.allows(*step) for step in steps)
    follows = any(target is State.FOLLOWER for _, target, _, _ in steps)
    assert (is_by_the_table, follows, quorum.epochs()[leader]) == (
        (False, True, epoch) if mutant else (True, False, epoch + 1)
    )
    quorum.heal()
    quorum.run_until(lambda: quorum.leader() is not None and len(set(quorum.epochs().values())) == 1)


@pytest.mark.parametrize("mutant", [None, "vote-forgotten-by-follower"])
@pytest.mark.parametrize("state", [State.UNATTACHED, State.PROSPECTIVE], ids=lambda state: state.value)
def test_vote_is_kept_by_a_follower_of_the_same_epoch_and_on_its_disk(state: State, mutant: str | None) -> None:
    """PV-15."""
    quorum = Simulation(seed=2, started=[1], mutant=mutant)
    assert vote(quorum, 1, candidate=2, epoch=5)
    if state is State.PROSPECTIVE:
        quorum.run_until(lambda: quorum.node(1).state.kind is State.PROSPECTIVE)
    quorum.invoke(1, BeginQuorumEpochRequest("test", 3, 5))
    assert quorum.node(1).state.kind is State.FOLLOWER
    assert quorum.members[1].election == Election(5, 3, None if mutant else 2)


@pytest.mark.parametrize("mutant", [None, "prospective-never-fetches"])
def test_prospective_without_news_finds_its_leader_by_fetching_or_never(mutant: str | None) -> None:
    """PV-24 with static voters: no message but a fetch returns n3 to its leader."""
    quorum = Simulation(
        seed=1, per_node={1: {"election_timeout_ms": 500}}, mutant=mutant, prospective_follows="begin-quorum"
    )
    assert quorum.elect() == 1
    quorum.run(1_000)
    quorum.message_rule = lambda *message: None if isinstance(message[2], BeginQuorumEpochRequest) else 0
    quorum.cut((1, 3))
    quorum.run_until(lambda: quorum.node(3).state.kind is State.PROSPECTIVE)
    quorum.heal()
    quorum.run(10_000)
    assert quorum.node(3).state.kind is (State.PROSPECTIVE if mutant else State.FOLLOWER)
    assert (quorum.node(3).log.end_offset == quorum.node(1).log.end_offset) is (mutant is None)
    assert quorum.violations == []


def candidacies_ms(backoff: CandidateBackoff, rounds: int) -> list[int]:
    """How long each candidacy of node 1 lasts; its pre-votes are granted, its votes rejected. Draws are the largest."""
    settings = NodeSettings(1, (1, 2, 3), "test", candidate_backoff=backoff, election_timeout_ms=2000)
    node, now_ms, lasted_ms = Node(settings, Stored(Election()), lambda _, high: high - 1, 0), 0, []
    while len(lasted_ms) < rounds:
        now_ms = max(now_ms, node.deadline_ms)
        sent = [each for each in node.handle(Tick(), now_ms) if isinstance(each, Send)]
        started_ms = now_ms
        while votes := [each for each in sent if isinstance(each.request, VoteRequest)]:
            sent = []
            for each in votes:
                response = VoteResponse(ErrorCode.none, NO_NODE, each.request.replica_epoch, each.request.pre_vote)
                effects = node.handle(Answered(each.peer, each.request_id, response), now_ms)
                sent += [effect for effect in effects if isinstance(effect, Send)]
        if node.state.kind is State.CANDIDATE:
            lasted_ms.append(node.state.deadline_ms - started_ms)
    return lasted_ms


def test_rejected_candidate_waits_for_the_rest_of_its_timeout() -> None:
    """KAFKA-18345, PV-13."""
    assert candidacies_ms("remaining", 4) == [3999] * 4


def test_rejected_candidate_backs_off_exponentially_by_kip_996() -> None:
    """PV-13: 100 ms times a number below 2, 4, 8, 16, and at most election.backoff.max.ms."""
    assert candidacies_ms("exponential", 5) == [100, 300, 700, 1000, 1000]


@pytest.mark.parametrize("asks_first", [True, False])
def test_voter_that_crashed_as_candidate_asks_for_pre_votes_first(asks_first: bool) -> None:
    """PV-41: the leader of the earlier epoch is deposed only without the switch."""
    quorum = Simulation(seed=1, starts_as_prospective=asks_first)
    leader = quorum.elect()
    quorum.run(1_000)
    candidate, epoch = followers_of(quorum, leader)[0], quorum.epochs()[leader]
    quorum.crash(candidate)
    quorum.members[candidate].election = Election(epoch + 1, None, candidate)
    quorum.isolate(candidate)
    quorum.restart(candidate)
    assert quorum.node(candidate).state.kind is (State.PROSPECTIVE if asks_first else State.CANDIDATE)
    assert quorum.node(candidate).state.voted_id == candidate
    quorum.run(10_000)
    assert quorum.epochs()[candidate] == epoch + 1
    assert quorum.violations == []


@pytest.mark.parametrize("denies", [True, False])
def test_votes_denied_within_the_fetch_timeout_protect_the_leader_but_not_the_epoch_of_the_denied(denies: bool) -> None:
    """PV-31: n3 cannot reach its leader n1, but n2, which still fetches."""
    per_node = {1: {"election_timeout_ms": 500}}
    quorum = Simulation(seed=1, pre_vote=False, deny_votes_within_fetch_timeout=denies, per_node=per_node)
    assert quorum.elect() == 1
    quorum.run(1_000)
    epoch = quorum.epochs()[1]
    quorum.cut((1, 3))
    quorum.run(12_000)
    assert (quorum.epochs()[3] >= quorum.epochs()[2] + 3) is denies
    kept = (quorum.leader(), quorum.epochs()[1], quorum.epochs()[2]) == (1, epoch, epoch)
    assert kept is denies
    assert quorum.violations == []


def test_denied_votes_do_not_keep_a_raised_epoch_from_the_leader_once_it_is_reachable() -> None:
    """PV-31: the leader sends BeginQuorumEpoch to a voter that does not fetch, and the error has the raised epoch."""
    per_node = {1: {"election_timeout_ms": 500}}
    quorum = Simulation(seed=1, pre_vote=False, deny_votes_within_fetch_timeout=True, per_node=per_node)
    assert quorum.elect() == 1
    quorum.run(1_000)
    quorum.isolate(3)
    quorum.run(12_000)
    raised, kept = quorum.epochs()[3], quorum.epochs()[1]
    assert raised >= kept + 3
    quorum.heal()
    quorum.run(5_000)
    assert min(quorum.epochs().values()) >= raised
    assert quorum.violations == []


@pytest.mark.parametrize("denies", [True, False])
def test_vote_is_denied_only_until_the_fetch_timeout_expires(denies: bool) -> None:
    """PV-31."""
    quorum = Simulation(seed=1, pre_vote=False, deny_votes_within_fetch_timeout=denies)
    leader = quorum.elect()
    quorum.run(1_000)
    follower, epoch = followers_of(quorum, leader)[0], quorum.epochs()[leader]
    assert vote(quorum, leader, 9, epoch + 1) is not denies
    assert vote(quorum, follower, 9, epoch + 1) is not denies
    quorum.isolate(follower)
    quorum.run_until(lambda: quorum.node(follower).state.kind is not State.FOLLOWER)
    assert vote(quorum, follower, 9, epoch + 10)


@pytest.mark.parametrize("grants", [True, False])
def test_follower_that_received_end_quorum_epoch_grants_pre_votes(grants: bool) -> None:
    """PV-39, KAFKA-20895."""
    quorum = Simulation(seed=1, end_quorum_grants=grants)
    leader = quorum.elect()
    quorum.run(1_000)
    follower, successor = followers_of(quorum, leader)
    epoch = quorum.epochs()[leader]
    assert not vote(quorum, follower, successor, epoch, pre_vote=True)
    quorum.isolate(follower)
    quorum.invoke(follower, EndQuorumEpochRequest("test", leader, epoch, (successor, follower)))
    assert vote(quorum, follower, successor, epoch, pre_vote=True) is grants


@pytest.mark.parametrize("seed", SEEDS)
def test_first_successor_wins_if_end_quorum_epoch_frees_the_other_followers(seed: int) -> None:
    """PV-39: with five voters, the first successor needs a pre-vote of two followers that have fetched."""
    quorum = Simulation(seed=seed, size=5, end_quorum_grants=True, max_idle_interval_ms=0)
    leader = quorum.elect()
    quorum.run(1_000)
    stopped_ms = quorum.now_ms
    quorum.stop(leader)
    quorum.run_until(lambda: quorum.leader() not in (None, leader))
    assert quorum.leader() == min(followers_of(quorum, leader))  # equal logs, so the lowest id comes first
    assert quorum.now_ms - stopped_ms < 100
    assert quorum.violations == []


def lost_quorum(**switches: Any) -> tuple[State, int, int]:
    """What an isolated leader becomes, after how long, and how far its epoch has risen 20 s later."""
    quorum = Simulation(seed=3, pre_vote=False, **switches)
    leader = quorum.elect()
    quorum.run(1_000)
    epoch, cut_ms = quorum.epochs()[leader], quorum.now_ms
    quorum.isolate(leader)
    quorum.run_until(lambda: quorum.node(leader).state.kind is not State.LEADER)
    became, waited_ms = quorum.node(leader).state.kind, quorum.now_ms - cut_ms
    quorum.run(20_000)
    assert quorum.violations == []
    return became, waited_ms, quorum.epochs()[leader] - epoch


@pytest.mark.parametrize(
    ("policy", "became", "waits_ms"),
    [("resigns", State.RESIGNED, range(2_400, 3_001)), ("new-election", State.CANDIDATE, range(1_400, 2_001))],
    ids=["Kafka", "KIP-595"],
)
def test_leader_without_a_majority_resigns_or_starts_an_election(policy: str, became: State, waits_ms: range) -> None:
    """LP-02, and LP-03: before KIP-996, its epoch rises in both cases."""
    state, waited_ms, epochs = lost_quorum(leader_without_majority=policy)
    assert state is became
    assert waited_ms in waits_ms
    assert epochs >= 5


@pytest.mark.parametrize("names", [True, False])
def test_follower_names_the_leader_in_its_error_to_describe_quorum(names: bool) -> None:
    """DQ-01."""
    quorum = Simulation(seed=1, not_leader_names_leader=names)
    leader = quorum.elect()
    quorum.run(1_000)
    response = quorum.invoke(followers_of(quorum, leader)[0], DescribeQuorumRequest()).response
    named = (leader, quorum.epochs()[leader]) if names else (NO_NODE, 0)
    assert (response.error, response.leader_id, response.epoch) == (ErrorCode.not_leader_or_follower, *named)


def test_node_that_knows_no_leader_names_none() -> None:
    quorum = Simulation(started=[1], not_leader_names_leader=True)
    response = quorum.invoke(1, DescribeQuorumRequest()).response
    assert (response.leader_id, response.epoch) == (NO_NODE, 0)


PROPERTIES = """\
node.id=1
controller.quorum.voters=1@localhost:1,2@localhost:2,3@localhost:3
listeners=CONTROLLER://localhost:1
log.dirs=data
"""


def settings_of(*properties: str) -> NodeSettings:
    """The settings of node 1 with these properties."""
    return parse(Path("n1.properties"), PROPERTIES + "\n".join(properties)).settings


def values_of(settings: NodeSettings) -> dict[str, Any]:
    """The values of the switches that a reading sets."""
    return {name: getattr(settings, name) for name in READINGS["kip"]}


@pytest.mark.parametrize("reading", READINGS)
def test_reading_sets_every_switch_on_which_the_kips_and_kafka_differ(reading: str) -> None:
    assert values_of(settings_of(f"reference.reading={reading}")) == READINGS[reading]
    assert READINGS["kip"].keys() == READINGS["kafka"].keys()


def test_switch_that_is_given_wins_over_the_reading() -> None:
    settings = settings_of("reference.candidate_backoff=remaining", "reference.reading=kip")
    assert values_of(settings) == {**READINGS["kip"], "candidate_backoff": "remaining"}


@pytest.mark.parametrize(("old", "current"), [("true", "any-response"), ("false", "unknown-leader")])
def test_switch_of_an_earlier_release_is_still_read(old: str, current: str) -> None:
    settings = settings_of(f"reference.prospective_follows_known_leader={old}")
    assert settings.prospective_follows == current


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("reference.reading=kip-996", "reference.reading: expected one of kip, kafka, got 'kip-996'"),
        ("reference.leader_without_majority=new-election", "expected reference.pre_vote=false with new-election"),
        ("reference.voter_addresses=discovered", "expected reference.voter_changes=kip-642 with discovered"),
        ("reference.configured_voters=ignored", "expected reference.voter_changes=kip-642 with ignored"),
        ("reference.prospective_follows_known_leader=yes", "expected one of true, false, got 'yes'"),
    ],
)
def test_impossible_switch_is_refused_in_one_line(given: str, expected: str) -> None:
    with pytest.raises(BadInput, match=expected) as raised:
        settings_of(given)
    assert "\n" not in str(raised.value)
