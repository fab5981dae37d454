"""The group coordinator, event by event."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.core.groups import messages
from nodes.reference.core.groups.coordinator import partition_of
from nodes.reference.core.groups.events import Elected
from nodes.reference.core.groups.messages import NO_GENERATION, GroupState
from nodes.reference.core.groups.settings import GroupSettings
from tests.nodes.reference.groups.clients import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    T_0,
    Clients,
    commit,
    joining,
    member,
    stable,
)

DELAY_MS = 3000


@pytest.mark.parametrize(
    ("group", "java_hash"), [("hello", 99162322), ("Aa", 2112), ("BB", 2112), ("polygenelubricants", 0)]
)
def test_a_groups_partition_is_by_javas_hash(group: str, java_hash: int) -> None:
    # The last one's hash is the smallest integer, which has no absolute value: Kafka takes 0.
    assert partition_of(group, 1 << 31) == java_hash
    assert partition_of(group, 50) == java_hash % 50


def test_members_share_a_generation_and_get_what_the_leader_assigned() -> None:
    clients = Clients()
    first, second = clients.new_id(), clients.new_id()
    one, two = clients.send(joining(first)), clients.send(joining(second, protocols=(("range", b"other"),)))
    leader: Any = clients.replies[one]
    follower: Any = clients.replies[two]
    assert (leader.generation, leader.leader, leader.members) == (1, first, {first: b"s", second: b"other"})
    assert (follower.generation, follower.leader, follower.members) == (1, first, {})

    waiting = clients.send(messages.SyncGroup(member(1, second), {}))
    assert waiting not in clients.replies
    own = clients.ask(messages.SyncGroup(member(1, first), {first: b"a", second: b"b"}))
    assert own.assignment == b"a"
    assert clients.replies[waiting] == messages.SyncResponse(ErrorCode.none, "consumer", "range", b"b")
    assert clients.ask(messages.Heartbeat(member(1, second))).error is ErrorCode.none
    described = clients.describe()
    assert (described.state, described.protocol) == (GroupState.STABLE, "range")
    assert [(each.member_id, each.assignment) for each in described.members] == [(first, b"a"), (second, b"b")]


def test_the_first_rebalance_waits_for_more_members() -> None:
    clients = Clients(GroupSettings(initial_rebalance_delay_ms=DELAY_MS, partitions=1))
    first = clients.send(joining(clients.new_id()))
    clients.after(DELAY_MS - 1)
    second = clients.send(joining(clients.new_id()))
    clients.after(DELAY_MS)
    assert first not in clients.replies, "another one came, so it waits once more"
    clients.after(DELAY_MS)
    assert {clients.replies[each].generation for each in (first, second)} == {1}  # type: ignore[union-attr]


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    clients = Clients(GroupSettings(initial_rebalance_delay_ms=DELAY_MS, partitions=1))
    first = clients.send(joining(clients.new_id(), rebalance_timeout_ms=2 * DELAY_MS))
    for _ in range(2):
        clients.after(DELAY_MS - 1)
        clients.send(joining(clients.new_id(), rebalance_timeout_ms=2 * DELAY_MS))
    clients.after(3)
    assert first in clients.replies


def test_a_newcomer_makes_all_members_join_again() -> None:
    clients = Clients()
    [old], generation = stable(clients, 1)
    new = clients.send(joining(clients.new_id()))
    assert clients.ask(messages.Heartbeat(member(generation, old))).error is ErrorCode.rebalance_in_progress
    again = clients.send(joining(old))
    assert [clients.replies[each].generation for each in (again, new)] == [generation + 1] * 2  # type: ignore[union-attr]
    assert clients.ask(messages.Heartbeat(member(generation, old))).error is ErrorCode.illegal_generation
    assert clients.ask(messages.SyncGroup(member(generation, old), {})).error is ErrorCode.illegal_generation


def test_who_does_not_join_again_in_time_is_no_member_any_more() -> None:
    clients = Clients()
    (leader, silent), generation = stable(clients, 2)
    clients.send(joining(leader))
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        clients.after(SESSION_MS // 2)
        clients.send(messages.Heartbeat(member(generation, silent)))
    assert [each.member_id for each in clients.describe().members] == [leader]
    assert clients.ask(messages.Heartbeat(member(generation, silent))).error is ErrorCode.unknown_member_id


def test_who_does_not_sync_in_time_is_no_member_any_more() -> None:
    clients = Clients()
    first, second = clients.new_id(), clients.new_id()
    for each in (first, second):
        clients.send(joining(each))
    waiting = clients.send(messages.SyncGroup(member(1, second), {}))
    for _ in range(REBALANCE_MS // SESSION_MS * 2):
        clients.after(SESSION_MS // 2)
        clients.send(messages.Heartbeat(member(1, first)))
    assert clients.replies[waiting] == messages.SyncResponse(ErrorCode.rebalance_in_progress)
    assert [each.member_id for each in clients.describe().members] == [second]


def test_a_session_ends_after_its_timeout() -> None:
    clients = Clients()
    (leader, silent), generation = stable(clients, 2)
    clients.after(SESSION_MS - 1)
    assert clients.ask(messages.Heartbeat(member(generation, leader))).error is ErrorCode.none
    clients.after(1)
    assert clients.ask(messages.Heartbeat(member(generation, leader))).error is ErrorCode.rebalance_in_progress
    assert clients.ask(messages.Heartbeat(member(generation, silent))).error is ErrorCode.unknown_member_id
    clients.after(SESSION_MS)
    assert clients.describe().state is GroupState.EMPTY
    assert clients.coordinator.deadline_ms > clients.now_ms + REBALANCE_MS, "nothing is left to wait for"


def test_an_id_that_was_given_is_forgotten_after_the_session_timeout() -> None:
    clients = Clients()
    invited = clients.new_id()
    waiting = clients.send(joining(clients.new_id()))
    assert waiting not in clients.replies, "the rebalance waits for who was given an id"
    clients.after(SESSION_MS)
    assert waiting in clients.replies
    assert clients.ask(joining(invited)).error is ErrorCode.unknown_member_id


def test_assignments_that_are_not_stored_reach_nobody() -> None:
    clients = Clients(commits_at_once=False)
    first, second = clients.new_id(), clients.new_id()
    for each in (first, second):
        clients.send(joining(each))
    syncs = [clients.send(messages.SyncGroup(member(1, each), {first: b"a", second: b"b"})) for each in (second, first)]
    assert not clients.replies.keys() & set(syncs)
    clients.commit_append(ErrorCode.not_enough_replicas)
    assert [clients.replies[each] for each in syncs] == [messages.SyncResponse(ErrorCode.coordinator_not_available)] * 2
    assert clients.describe().state is GroupState.PREPARING_REBALANCE


def test_assignments_that_are_stored_too_late_reach_nobody() -> None:
    clients = Clients(commits_at_once=False)
    only = clients.new_id()
    clients.send(joining(only))
    waiting = clients.send(messages.SyncGroup(member(1, only), {only: b"a"}))
    newcomer = clients.send(joining(clients.new_id()))
    assert clients.replies[waiting] == messages.SyncResponse(ErrorCode.rebalance_in_progress)
    clients.commit_append()
    assert clients.describe().state is GroupState.PREPARING_REBALANCE
    again = clients.send(joining(only))
    assert {clients.replies[each].generation for each in (again, newcomer)} == {2}  # type: ignore[union-attr]


def test_assignments_may_take_longer_to_store_than_members_to_sync() -> None:
    clients = Clients(commits_at_once=False)
    only = clients.new_id()
    clients.send(joining(only))
    waiting = clients.send(messages.SyncGroup(member(1, only), {only: b"a"}))
    clients.after(2 * REBALANCE_MS)
    assert clients.coordinator.deadline_ms > clients.now_ms
    clients.commit_append()
    assert clients.replies[waiting] == messages.SyncResponse(ErrorCode.none, "consumer", "range", b"a")


def test_a_protocol_that_all_have_is_chosen_by_votes() -> None:
    clients = Clients()
    preferences = [("a", "b"), ("b", "c", "a"), ("b", "a")]
    named = [tuple((name, name.encode()) for name in names) for names in preferences]
    ids = [clients.new_id(protocols=protocols) for protocols in named]
    joins = [clients.send(joining(each, protocols=protocols)) for each, protocols in zip(ids, named, strict=True)]
    assert {clients.replies[each].protocol for each in joins} == {"b"}  # type: ignore[union-attr]
    stranger = clients.ask(joining("", protocols=(("c", b""),)))
    assert stranger.error is ErrorCode.inconsistent_group_protocol


def test_a_leader_that_joins_again_rebalances_and_a_follower_does_not() -> None:
    clients = Clients()
    (leader, follower), generation = stable(clients, 2)
    assert clients.ask(joining(follower)).generation == generation
    assert clients.describe().state is GroupState.STABLE
    assert clients.send(joining(leader)) not in clients.replies
    assert clients.describe().state is GroupState.PREPARING_REBALANCE


def test_leaving_ends_a_membership_at_once() -> None:
    clients = Clients()
    (leader, follower), generation = stable(clients, 2)
    left = clients.ask(messages.LeaveGroup(GROUP, (messages.Leaver(follower), messages.Leaver("nobody"))))
    assert [(each.member_id, error) for each, error in left.results] == [
        (follower, ErrorCode.none),
        ("nobody", ErrorCode.unknown_member_id),
    ]
    again = clients.ask(joining(leader))
    assert (again.generation, list(again.members)) == (generation + 1, [leader])


@pytest.mark.parametrize(
    ("generation", "member_id", "error"),
    [
        (1, "nobody", ErrorCode.unknown_member_id),
        (7, None, ErrorCode.illegal_generation),
        (NO_GENERATION, "", ErrorCode.unknown_member_id),
        (1, None, ErrorCode.none),
    ],
)
def test_only_members_of_the_generation_commit(generation: int, member_id: str | None, error: ErrorCode) -> None:
    clients = Clients()
    [only], _ = stable(clients, 1)
    result = clients.ask(commit(generation, only if member_id is None else member_id, 5))
    assert result.errors == {T_0: error}
    assert clients.committed() == ({T_0: 5} if error is ErrorCode.none else {})


def test_a_member_commits_until_the_next_generation_has_begun() -> None:
    clients = Clients()
    [only], generation = stable(clients, 1)
    newcomer = clients.new_id()
    clients.send(joining(newcomer))
    assert clients.ask(commit(generation, only, 5)).errors == {T_0: ErrorCode.none}
    clients.send(joining(only))
    assert clients.ask(commit(generation, only, 6)).errors == {T_0: ErrorCode.illegal_generation}
    assert clients.ask(commit(generation + 1, only, 6)).errors == {T_0: ErrorCode.rebalance_in_progress}
    assert clients.committed() == {T_0: 5}


def test_an_offset_is_committed_when_its_record_is() -> None:
    clients = Clients(commits_at_once=False)
    first = clients.send(commit(NO_GENERATION, "", 5))
    second = clients.send(commit(NO_GENERATION, "", 6))
    assert clients.committed() == {}
    clients.commit_append()
    assert clients.replies[first] == messages.CommitResponse({T_0: ErrorCode.none})
    assert clients.committed() == {T_0: 5}
    clients.commit_append(ErrorCode.request_timed_out)
    assert clients.replies[second] == messages.CommitResponse({T_0: ErrorCode.coordinator_not_available})
    assert clients.committed() == {T_0: 5}


def test_metadata_that_is_too_long_is_refused() -> None:
    clients = Clients(GroupSettings(metadata_bytes_max=3, partitions=1))
    offsets = {T_0: messages.CommittedOffset(5, metadata="four")}
    refused = clients.ask(messages.CommitOffsets(member(NO_GENERATION, ""), offsets))
    assert refused.errors == {T_0: ErrorCode.offset_metadata_too_large}
    assert clients.log == []


def test_the_next_coordinator_knows_the_members_and_the_offsets() -> None:
    clients = Clients()
    (leader, follower), generation = stable(clients, 2)
    clients.ask(commit(generation, leader, 5))
    before = clients.describe()
    newcomer = clients.send(joining(clients.new_id()))
    clients.resign()
    assert clients.replies[newcomer].error is ErrorCode.not_coordinator  # type: ignore[union-attr]
    assert clients.ask(messages.Heartbeat(member(generation, leader))).error is ErrorCode.not_coordinator

    clients.elect()
    assert clients.describe() == before
    assert clients.committed() == {T_0: 5}
    for each in (leader, follower):
        assert clients.ask(messages.Heartbeat(member(generation, each))).error is ErrorCode.none
    clients.after(SESSION_MS)
    assert clients.describe().state is GroupState.EMPTY


def test_the_topic_of_the_offsets_may_have_another_number_of_partitions_than_is_configured() -> None:
    clients = Clients(GroupSettings(partitions=50))
    clients.handle(Elected(partition_of(GROUP, 3), 3, []))
    assert clients.ask(commit(NO_GENERATION, "", 5)).errors == {T_0: ErrorCode.none}


def test_only_an_empty_group_is_deleted_with_its_offsets() -> None:
    clients = Clients()
    [only], generation = stable(clients, 1)
    clients.ask(commit(generation, only, 5))
    assert clients.ask(messages.DeleteGroup(GROUP)).error is ErrorCode.non_empty_group
    clients.ask(messages.LeaveGroup(GROUP, (messages.Leaver(only),)))
    assert clients.ask(messages.DeleteGroup(GROUP)).error is ErrorCode.none
    assert clients.ask(messages.DeleteGroup(GROUP)).error is ErrorCode.group_id_not_found
    clients.elect()
    assert clients.committed() == {}
    assert clients.describe().state is GroupState.DEAD


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (joining("", session_timeout_ms=5999), ErrorCode.invalid_session_timeout),
        (joining("", protocols=()), ErrorCode.inconsistent_group_protocol),
        (joining("nobody"), ErrorCode.unknown_member_id),
        (messages.SyncGroup(member(1, "nobody"), {}), ErrorCode.unknown_member_id),
        (messages.Heartbeat(member(1, "nobody")), ErrorCode.unknown_member_id),
    ],
)
def test_what_no_group_can_serve_is_refused(request_: messages.Request, error: ErrorCode) -> None:
    assert Clients().ask(request_).error is error
