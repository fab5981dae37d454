"""Conditions of brokers with ZooKeeper: the controller, sessions, and partitions as their leader reports them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.conditions import (
    ALL_FOLLOW_LEADER,
    BROKERS_LIVE,
    CAUGHT_UP,
    LEADER_KNOWN,
    Condition,
    all_follow,
    broker_live,
    in_sync,
    is_candidate,
    is_not_leader,
    leads_partition,
    not_in_sync,
    partition_offline,
    partition_online,
    replication_settled,
    session_lost,
    stored_high_watermark,
)
from harness.model.story import wait_until
from harness.planning.story_steps import StoryStep
from nodes.observe.brokers.conditions import BrokerView, holds
from nodes.observe.brokers.metadata import BrokerMetadata, PartitionState
from nodes.observe.brokers.partitions import PartitionsView
from nodes.observe.brokers.sessions import Sessions
from nodes.observe.conditions import QuorumView
from nodes.observe.conditions import holds as holds_in_quorum

OF_PARTITIONS = (
    leads_partition(1, "t-0"),
    in_sync(1, "t-0"),
    not_in_sync(1, "t-0"),
    partition_online("t-0"),
    partition_offline("t-0"),
    replication_settled(1, "t-0"),
    stored_high_watermark(1, "t-0"),
    stored_high_watermark(1, "t-0", 40),
)
ALL = Sessions(frozenset({1, 2, 3}), 3)


def view(sessions: Sessions | None = ALL, controllers: tuple[int | None, ...] = (3, 3, 3)) -> BrokerView:
    metadata = {node: BrokerMetadata(known) for node, known in enumerate(controllers, 1)}
    return BrokerView((1, 2, 3), sessions, PartitionsView(metadata))


def partition(*states: PartitionState | None) -> BrokerView:
    """A view in which brokers 1, 2, … answer with these states of t-0, None for one that does not answer."""
    seen = {node: BrokerMetadata(3, {"t-0": state}) for node, state in enumerate(states, 1) if state is not None}
    return BrokerView((1, 2, 3), ALL, PartitionsView(seen))


CONTROLLERS = {
    # name: the view, and whether a leader is known, all follow it, and another than n1 leads
    "all know the controller": (view(), True, True, True),
    "ZooKeeper does not answer": (view(None), False, False, False),
    "ZooKeeper has no controller": (view(replace(ALL, controller=None)), False, False, False),
    "the controller does not answer": (
        replace(view(), partitions=PartitionsView({1: BrokerMetadata(3)})),
        False,
        False,
        False,
    ),
    "the controller does not know it yet": (view(controllers=(3, 3, None)), False, False, False),
    "another broker knows an earlier one": (view(controllers=(2, 3, 3)), True, False, True),
    "a broker is not registered": (view(Sessions(frozenset({2, 3}), 3)), True, False, True),
}


@pytest.mark.parametrize(("seen", "is_known", "is_followed", "another_leads"), CONTROLLERS.values(), ids=CONTROLLERS)
def test_conditions_about_the_controller(
    seen: BrokerView, is_known: bool, is_followed: bool, another_leads: bool
) -> None:
    assert holds(LEADER_KNOWN, seen) is is_known
    assert holds(ALL_FOLLOW_LEADER, seen) is is_followed
    assert holds(all_follow(3), seen) is is_followed
    assert holds(is_not_leader(1), seen) is another_leads
    assert not holds(all_follow(1), seen)
    assert not holds(is_not_leader(3), seen)


def test_session_is_lost_only_if_zookeeper_answers_without_it() -> None:
    without_2 = view(Sessions(frozenset({1, 3}), 3))
    assert [holds(session_lost(node), without_2) for node in (1, 2, 3)] == [False, True, False]
    assert not holds(session_lost(2), view(None))


LED_BY_1 = PartitionState(1, 3, (1,))
BOTH_IN_SYNC = PartitionState(1, 3, (1, 2))
PARTITIONS = {
    # name: the view, and whether n1 leads, and whether n1 and n2 are in sync
    "the leader alone is in sync": (partition(LED_BY_1, LED_BY_1), True, True, False),
    "the leader's view counts": (partition(BOTH_IN_SYNC, LED_BY_1), True, True, True),
    "another broker does not know it yet": (partition(LED_BY_1, PartitionState(2, 2, (1, 2))), True, True, False),
    "another broker knows a later leader": (partition(BOTH_IN_SYNC, PartitionState(2, 4, (2,))), False, False, True),
    "the leader does not answer": (partition(None, BOTH_IN_SYNC), False, False, False),
    "there is no leader": (partition(PartitionState(None, 4, (1,)), LED_BY_1), False, True, False),
    "no broker answers": (partition(), False, False, False),
}


@pytest.mark.parametrize(("seen", "leads", "first_in_sync", "second_in_sync"), PARTITIONS.values(), ids=PARTITIONS)
def test_conditions_about_a_partition(seen: BrokerView, leads: bool, first_in_sync: bool, second_in_sync: bool) -> None:
    assert holds(leads_partition(1, "t-0"), seen) is leads
    assert holds(in_sync(1, "t-0"), seen) is first_in_sync
    assert holds(in_sync(2, "t-0"), seen) is second_in_sync
    assert not holds(in_sync(1, "t-1"), seen)


AVAILABILITY = {
    # name: the view, and whether the partition is online, offline, and n2 not in sync
    "the leader answers": (partition(LED_BY_1, LED_BY_1), True, False, True),
    "all replicas are in sync": (partition(BOTH_IN_SYNC), True, False, False),
    "the leader does not answer": (partition(None, LED_BY_1), False, False, False),
    "there is no leader": (partition(LED_BY_1, PartitionState(None, 4, (1,))), False, True, True),
    "another broker knows a later leader": (
        partition(PartitionState(None, 4, (1,)), None, PartitionState(3, 5, (3,))),
        True,
        False,
        True,
    ),
    "no broker knows it": (partition(), False, False, False),
}


@pytest.mark.parametrize(("seen", "is_online", "is_offline", "is_not_in_sync"), AVAILABILITY.values(), ids=AVAILABILITY)
def test_partition_is_offline_if_the_last_epoch_has_no_leader(
    seen: BrokerView, is_online: bool, is_offline: bool, is_not_in_sync: bool
) -> None:
    assert holds(partition_online("t-0"), seen) is is_online
    assert holds(partition_offline("t-0"), seen) is is_offline
    assert holds(not_in_sync(2, "t-0"), seen) is is_not_in_sync


@pytest.mark.parametrize("condition", OF_PARTITIONS, ids=str)
def test_conditions_of_partitions_are_the_same_in_a_quorum(condition: Condition) -> None:
    view = partition(BOTH_IN_SYNC)
    assert holds_in_quorum(condition, QuorumView((1, 2, 3), {}, {}, brokers=view.partitions)) is holds(condition, view)


def test_brokers_are_live_if_each_takes_all_for_live() -> None:
    def live(*seen_by: set[int]) -> tuple[bool, bool]:
        metadata = {node: BrokerMetadata(brokers=frozenset(each)) for node, each in enumerate(seen_by, 1)}
        seen = PartitionsView(metadata, nodes=(1, 2))
        in_quorum = QuorumView((1, 2, 3), {}, {}, brokers=seen)
        return holds(BROKERS_LIVE, BrokerView((1, 2), ALL, seen)), holds_in_quorum(BROKERS_LIVE, in_quorum)

    assert live({1, 2}, {1, 2}) == (True, True)
    assert live({1, 2}, {2}) == (False, False)
    assert live({1, 2}) == (False, False)


def test_broker_is_live_if_it_answers_and_every_broker_that_answers_takes_it_for_live() -> None:
    def live(seen_by: dict[int, set[int]]) -> bool:
        seen = PartitionsView({node: BrokerMetadata(brokers=frozenset(each)) for node, each in seen_by.items()})
        in_quorum = holds_in_quorum(broker_live(3), QuorumView((1, 2, 3), {}, {}, brokers=seen))
        assert in_quorum is holds(broker_live(3), BrokerView((1, 2, 3), ALL, seen))
        return in_quorum

    assert live({1: {1, 3}, 3: {1, 3}})
    assert not live({1: {1}, 3: {1, 3}})
    assert not live({1: {1, 3}})


def test_session_in_a_quorum_is_lost_if_every_broker_that_answers_takes_it_for_dead() -> None:
    def lost(*live: set[int]) -> bool:
        seen = {node: BrokerMetadata(brokers=frozenset(each)) for node, each in enumerate(live, 1)}
        return holds_in_quorum(session_lost(3), QuorumView((1, 2, 3), {}, {}, brokers=PartitionsView(seen)))

    assert lost({1, 2}, {1, 2})
    assert not lost({1, 2}, {1, 2, 3})
    assert not lost()


def test_replication_is_settled_by_a_failed_fetcher_too() -> None:
    seen = partition(LED_BY_1, LED_BY_1)
    assert not holds(replication_settled(2, "t-0"), seen)
    assert holds(replication_settled(1, "t-0"), seen)
    failed = replace(seen, partitions=replace(seen.partitions, failed={2: frozenset({"t-0"})}))
    assert holds(replication_settled(2, "t-0"), failed)
    assert not holds(replication_settled(2, "t-1"), failed)


@pytest.mark.parametrize("condition", [*OF_PARTITIONS, session_lost(2)], ids=str)
def test_conditions_of_brokers_are_valid_in_a_plan_and_never_hold_without_brokers(condition: Condition) -> None:
    assert StoryStep.of(wait_until(condition)).value["condition"] == condition.to_json()
    assert Condition.from_json(condition.to_json()) == condition
    assert not holds_in_quorum(condition, QuorumView((1, 2, 3), {}, {}))


@pytest.mark.parametrize("condition", [CAUGHT_UP, is_candidate(1)], ids=str)
def test_conditions_of_a_quorum_never_hold_among_brokers(condition: Condition) -> None:
    assert not holds(condition, view())


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ({"name": "in_sync", "node": 1}, "condition in_sync: expected a partition"),
        ({"name": "session_lost", "node": 1, "partition": "t-0"}, "condition session_lost: expected no partition"),
        ({"name": "in_sync", "node": 1, "partition": "t"}, "expected the name of a partition, e.g. t-0"),
    ],
    ids=["without a partition", "with one too many", "not a partition"],
)
def test_condition_without_its_partition_is_refused(condition: dict, problem: str) -> None:
    with pytest.raises(ValueError, match="condition") as refused:
        StoryStep(f="await", value={"condition": condition, "within_seconds": 5})
    assert problem in str(refused.value)
