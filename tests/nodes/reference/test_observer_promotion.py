"""Observers that nominate themselves once they have caught up (KIP-642, "Observer Promotion")."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import FetchRequest, NominateRequest
from tests.support.nodes.reassignments import completed, crash_for_long, led, led_by_1, run_until_voters


def test_observers_that_nominate_themselves_become_voters() -> None:
    quorum = led_by_1(promotion="observer-based")
    quorum.reassign(1, 4, 5, 6)
    run_until_voters(quorum, 4, 5, 6)
    assert quorum.violations == []


def test_observer_that_does_not_catch_up_within_an_election_timeout_does_not_nominate_itself() -> None:
    slow = {node: {"election_timeout_ms": 3_000} for node in (2, 3)}
    quorum, _ = led(observers=1, promotion="observer-based", per_node=slow)
    quorum.message_rule = lambda _sender, receiver, request, is_response: (
        1_500 if receiver == 4 and is_response and isinstance(request, FetchRequest) else 0
    )
    quorum.run(5_000)
    completed(quorum, quorum.reassign(1, 1, 2, 3, 4))
    quorum.run(10_000)
    assert quorum.node(4).voters.last.assignment == Assignment((1, 2, 3), (1, 2, 3, 4)), "it knows that it is wanted"
    quorum.message_rule = lambda _sender, _receiver, _request, _is_response: 0
    run_until_voters(quorum, 1, 2, 3, 4)


@pytest.mark.parametrize("seed", [1, 4, 11])
def test_observer_that_was_cut_off_does_not_nominate_itself_before_it_has_caught_up_again(seed: int) -> None:
    slow = {node: {"election_timeout_ms": 3_000} for node in (2, 3)}
    quorum, leader = led(seed=seed, observers=1, promotion="observer-based", per_node=slow)
    lags: list[int] = []

    def no_nomination_arrives(sender: int, _receiver: int, request: object, is_response: bool) -> int | None:
        if not isinstance(request, NominateRequest) or is_response:
            return 0
        lags.append(quorum.node(leader).log.end_offset - quorum.node(sender).log.end_offset)
        return None

    quorum.message_rule = no_nomination_arrives
    completed(quorum, quorum.reassign(leader, 1, 2, 3, 4))
    quorum.run_until(lambda: bool(lags))
    quorum.isolate(4)
    for value in range(100):
        quorum.write(leader, "r", str(value))
        quorum.run(50)
    lags.clear()
    quorum.heal()
    quorum.run_until(lambda: bool(lags))
    assert max(lags) < 10


def test_nomination_is_forgotten_after_an_election_timeout() -> None:
    quorum = led_by_1(observers=1, promotion="observer-based")
    assert quorum.invoke(1, NominateRequest("test", 4, quorum.epochs()[1])).response.error is ErrorCode.none
    crash_for_long(quorum, 4)
    completed(quorum, quorum.reassign(1, 1, 2, 3, 4))
    quorum.run(2_000)
    assert quorum.node(1).voters.ids == (1, 2, 3)


@pytest.mark.parametrize(
    ("node", "cluster", "epochs_ago", "error"),
    [
        (1, "other", 0, ErrorCode.inconsistent_cluster_id),
        (1, "test", 1, ErrorCode.not_leader_or_follower),
        (2, "test", 0, ErrorCode.not_leader_or_follower),
    ],
)
def test_nomination_is_refused(node: int, cluster: str, epochs_ago: int, error: ErrorCode) -> None:
    quorum = led_by_1(observers=1, promotion="observer-based")
    epoch = quorum.epochs()[1]
    response = quorum.invoke(node, NominateRequest(cluster, 4, epoch - epochs_ago)).response
    assert (response.error, response.leader_id, response.epoch) == (error, 1, epoch)
