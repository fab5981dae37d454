"""Static members of a consumer group (KIP-345): they restart in place; requests with their former ids are fenced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.core.groups import messages
from nodes.reference.core.groups.messages import GroupState, Heartbeat, LeaveGroup, Leaver, SyncGroup
from tests.nodes.reference.groups.clients import GROUP, REBALANCE_MS, SESSION_MS, Clients, joining, member

NAMES = ("a", "b")


def joined(clients: Clients, name: str, **facts: Any) -> int:
    """The request of a static member that starts."""
    return clients.send(joining("", instance=name, **facts))


def settled(clients: Clients, session_ms: int = SESSION_MS) -> tuple[dict[str, str], int]:
    """A stable group of two static members: their ids by name, the leader's first, and the generation."""
    requests = {}
    for name in NAMES:
        requests[name] = joined(clients, name, session_timeout_ms=session_ms)
    again = clients.send(joining(clients.replies[requests["a"]].member_id, instance="a", session_timeout_ms=session_ms))
    first: Any = clients.replies[again]
    ids = {"a": first.member_id, "b": clients.replies[requests["b"]].member_id}  # type: ignore[union-attr]
    clients.ask(SyncGroup(own(first.generation, ids["a"], "a"), {each: each.encode() for each in ids.values()}))
    assert clients.describe().state is GroupState.STABLE
    return ids, first.generation


def own(generation: int, member_id: str, name: str) -> messages.Membership:
    return replace(member(generation, member_id), instance=name)


def test_a_static_member_joins_at_once_and_the_leader_learns_the_names() -> None:
    clients = Clients()
    first: Any = clients.replies[joined(clients, "a")]
    assert (first.error, first.generation) == (ErrorCode.none, 1), "without being told its id first"
    assert first.instances == {first.member_id: "a"}


def test_a_follower_that_restarts_keeps_its_place_without_a_rebalance() -> None:
    clients = Clients()
    ids, generation = settled(clients)
    again: Any = clients.replies[joined(clients, "b")]
    assert (again.error, again.generation, again.leader, again.members) == (ErrorCode.none, generation, ids["a"], {})
    assert again.member_id != ids["b"]
    assert clients.describe().state is GroupState.STABLE
    synced = clients.ask(SyncGroup(own(generation, again.member_id, "b"), {}))
    assert (synced.error, synced.assignment) == (ErrorCode.none, ids["b"].encode())


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_leader_that_restarts_does_not_assign_anew(may_skip: bool) -> None:
    clients = Clients()
    ids, generation = settled(clients)
    request = replace(joining("", instance="a"), may_skip_assignment=may_skip)
    again: Any = clients.replies[clients.send(request)]
    assert (again.error, again.generation, again.skips_assignment) == (ErrorCode.none, generation, may_skip)
    leader = again.member_id if may_skip else ids["a"]
    assert (again.leader, bool(again.members)) == (leader, may_skip)
    assert clients.ask(SyncGroup(own(generation, again.member_id, "a"), {})).assignment == ids["a"].encode()


def test_a_member_that_restarts_with_another_subscription_rebalances() -> None:
    clients = Clients()
    ids, generation = settled(clients)
    request = joined(clients, "b", protocols=(("range", b"other"),))
    assert clients.describe().state is GroupState.PREPARING_REBALANCE
    leader: Any = clients.replies[clients.send(joining(ids["a"], instance="a"))]
    assert (leader.generation, set(leader.members.values())) == (generation + 1, {b"s", b"other"})
    assert request in clients.replies


def test_the_former_id_is_fenced() -> None:
    clients = Clients()
    ids, generation = settled(clients)
    clients.ask(Heartbeat(own(generation, ids["b"], "b")))
    assert joined(clients, "b") in clients.replies
    fenced = ErrorCode.fenced_instance_id
    former = own(generation, ids["b"], "b")
    offsets = messages.CommitOffsets(former, {})
    assert clients.ask(Heartbeat(former)).error is fenced
    assert clients.ask(SyncGroup(former, {})).error is fenced
    assert clients.ask(joining(ids["b"], instance="b")).error is fenced
    assert clients.ask(LeaveGroup(GROUP, (Leaver(ids["b"], "b"),))).results[0][1] is fenced
    assert clients.ask(replace(offsets, membership=former)).errors == {}
    assert clients.ask(Heartbeat(own(generation, "x", "nobody"))).error is ErrorCode.unknown_member_id


def test_a_request_that_waits_is_fenced_when_its_member_restarts() -> None:
    clients = Clients()
    ids, _ = settled(clients)
    waiting = clients.send(joining(ids["b"], instance="b", protocols=(("range", b"other"),)))
    assert waiting not in clients.replies
    joined(clients, "b")
    assert clients.replies[waiting].error is ErrorCode.fenced_instance_id  # type: ignore[union-attr]


def test_a_static_member_that_is_away_stays_through_a_rebalance_until_its_session_ends() -> None:
    clients = Clients()
    ids, generation = settled(clients, session_ms=2 * REBALANCE_MS)
    request = clients.send(joining(ids["a"], instance="a", protocols=(("range", b"x"),), session_timeout_ms=SESSION_MS))
    clients.after(REBALANCE_MS)
    leader: Any = clients.replies[request]
    assert (leader.generation, set(leader.members)) == (generation + 1, set(ids.values()))
    clients.ask(SyncGroup(own(leader.generation, ids["a"], "a"), {}))
    for _ in range(20):
        clients.after(SESSION_MS // 2)
        error = clients.ask(Heartbeat(own(leader.generation, ids["a"], "a"))).error
        if error is ErrorCode.rebalance_in_progress:
            break
    assert error is ErrorCode.rebalance_in_progress, "the session of b has ended"
    last: Any = clients.replies[clients.send(joining(ids["a"], instance="a"))]
    assert list(last.members) == [ids["a"]]


def test_static_members_that_are_all_away_stay_until_their_sessions_end() -> None:
    clients = Clients()
    settled(clients, session_ms=3 * REBALANCE_MS)
    clients.ask(LeaveGroup(GROUP, (Leaver("", "b"),)))
    clients.after(REBALANCE_MS)
    assert [each.facts.instance for each in clients.describe().members] == ["a"]
    clients.after(3 * REBALANCE_MS)
    assert clients.describe().state is GroupState.EMPTY


def test_a_static_member_is_removed_by_its_name_alone() -> None:
    clients = Clients()
    ids, _ = settled(clients)
    left = clients.ask(LeaveGroup(GROUP, (Leaver("", "b"), Leaver("", "nobody"))))
    assert [error for _, error in left.results] == [ErrorCode.none, ErrorCode.unknown_member_id]
    assert [each.member_id for each in clients.describe().members] == [ids["a"]]


def test_another_coordinator_knows_the_names() -> None:
    clients = Clients()
    ids, generation = settled(clients)
    clients.resign()
    clients.elect()
    assert {each.facts.instance for each in clients.describe().members} == set(NAMES)
    again: Any = clients.replies[joined(clients, "b")]
    assert (again.generation, again.member_id != ids["b"]) == (generation, True)


def test_a_restarted_member_is_answered_once_its_id_is_stored() -> None:
    clients = Clients()
    settled(clients)
    clients.commits_at_once = False
    request = joined(clients, "b")
    assert request not in clients.replies
    clients.commit_append(ErrorCode.not_enough_replicas)
    assert clients.replies[request].error is ErrorCode.coordinator_not_available  # type: ignore[union-attr]
