"""The quorum-state file in both versions, and the conditions that scenarios wait for."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.model import PeerFailure
from harness.model.conditions import (
    A_NODE_IS_BEHIND,
    ALL_FOLLOW_LEADER,
    ANY_LOST_ELECTION,
    LEADER_KNOWN,
    all_follow,
    has_leaders_log,
    has_longest_log,
    is_candidate,
    is_not_leader,
    lost_election,
)
from harness.model.story import wait_until
from harness.planning.story_steps import StoryStep
from nodes.observe.conditions import QuorumView, holds
from nodes.observe.describe_quorum import QuorumDescription
from nodes.observe.log_lines import LogEvent
from nodes.observe.quorum_state import QuorumState, read_quorum_state

VERSION_0 = (
    '{"clusterId":"","leaderId":3,"leaderEpoch":10,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
)
VERSION_1 = '{"leaderId":-1,"leaderEpoch":4,"votedId":2,"votedDirectoryId":"LF5WtW3YqBctg9Jow_mqnw","data_version":1}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [(VERSION_0, QuorumState(10, leader=3, voted=None)), (VERSION_1, QuorumState(4, leader=None, voted=2))],
    ids=["version 0", "version 1"],
)
def test_both_versions_of_quorum_state_are_read(tmp_path, text, expected):
    path = tmp_path / "quorum-state"
    path.write_text(text)
    assert read_quorum_state(path) == expected


def test_quorum_state_on_a_disk_that_fails_is_a_failure_of_the_node(tmp_path, monkeypatch):
    def fails(*_arguments, **_options):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_text", fails)
    with pytest.raises(PeerFailure, match="quorum-state: Input/output error"):
        read_quorum_state(tmp_path / "quorum-state")


def test_missing_quorum_state_is_none(tmp_path):
    assert read_quorum_state(tmp_path / "quorum-state") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"leaderId":3}', b'{"leaderEpoch":"x","leaderId":1,"votedId":1}', b"\xff\xfe\x00"],
    ids=["empty", "truncated", "a list", "null", "missing fields", "not a number", "binary"],
)
def test_invalid_quorum_state_is_a_peer_failure_in_one_line(tmp_path, content):
    path = tmp_path / "quorum-state"
    path.write_bytes(content)
    with pytest.raises(PeerFailure, match="expected Kafka's quorum-state") as raised:
        read_quorum_state(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def claim(leader, epoch, high_watermark=5):
    return QuorumDescription(None, leader, epoch, high_watermark)


def following(leader, epoch, state="Follower"):
    return LogEvent(0, "transition", state, None, epoch, leader)


ALL_FOLLOW_3 = {1: following(3, 2), 2: following(3, 2), 3: following(3, 2, "Leader")}
VIEWS = {
    # name: claims, transitions, then whether a leader is known and whether all follow one
    "no claim": ({}, ALL_FOLLOW_3, False, False),
    "a leader without a high watermark": ({3: claim(3, 2, -1)}, ALL_FOLLOW_3, False, False),
    "all follow": ({3: claim(3, 2)}, ALL_FOLLOW_3, True, True),
    "one follows in an earlier epoch": ({3: claim(3, 2)}, {**ALL_FOLLOW_3, 2: following(3, 1)}, True, False),
    "one follows another": ({3: claim(3, 2)}, {**ALL_FOLLOW_3, 2: following(1, 2)}, True, False),
    "one is prospective": ({3: claim(3, 2)}, {**ALL_FOLLOW_3, 2: following(3, 2, "Prospective")}, True, False),
    "two logged no transition": ({3: claim(3, 2)}, {1: following(3, 2)}, True, False),
    "a deposed leader claims too": ({1: claim(1, 1), 3: claim(3, 2)}, ALL_FOLLOW_3, True, True),
}


@pytest.mark.parametrize(("claims", "transitions", "is_known", "is_followed"), VIEWS.values(), ids=VIEWS)
def test_conditions_about_the_leader_hold_in_matching_views_only(claims, transitions, is_known, is_followed):
    view = QuorumView((1, 2, 3), claims, transitions)
    assert holds(LEADER_KNOWN, view) is is_known
    assert holds(ALL_FOLLOW_LEADER, view) is is_followed
    assert holds(all_follow(3), view) is is_followed
    assert not holds(all_follow(1), view)


def test_node_is_not_leader_while_another_leads():
    view = QuorumView((1, 2, 3), {3: claim(3, 2)}, ALL_FOLLOW_3)
    assert [holds(is_not_leader(node), view) for node in (1, 2, 3)] == [True, True, False]
    assert not holds(is_not_leader(1), QuorumView((1, 2, 3), {}, ALL_FOLLOW_3))


def test_a_node_is_behind_while_it_is_of_an_epoch_before_the_leaders():
    deposed = {1: following(1, 2, "Leader"), 2: following(3, 3), 3: following(3, 3, "Leader")}
    assert holds(A_NODE_IS_BEHIND, QuorumView((1, 2, 3), {1: claim(1, 2), 3: claim(3, 3)}, deposed))
    assert not holds(A_NODE_IS_BEHIND, QuorumView((1, 2, 3), {1: claim(1, 2)}, deposed)), "no answer of n3 yet"
    assert not holds(A_NODE_IS_BEHIND, QuorumView((1, 2, 3), {3: claim(3, 3)}, {**deposed, 1: following(3, 3)}))


def test_node_is_a_candidate_by_its_last_transition():
    view = QuorumView((1, 2, 3), {}, {1: following(None, 3, "Candidate"), 2: following(3, 2, "Prospective")})
    assert [holds(is_candidate(node), view) for node in (1, 2, 3)] == [True, False, False]


@pytest.mark.parametrize(
    "condition",
    [
        A_NODE_IS_BEHIND,
        LEADER_KNOWN,
        ALL_FOLLOW_LEADER,
        all_follow(9),
        is_not_leader(1),
        has_longest_log(2),
        has_leaders_log(2),
        is_candidate(3),
    ],
)
def test_every_condition_is_valid_in_a_plan(condition):
    assert StoryStep.of(wait_until(condition)).value["condition"] == condition.to_json()
    assert not holds(condition, QuorumView((1, 2, 3), {}, {}))


@pytest.mark.parametrize(
    ("ends", "longest"),
    [
        ({1: 7, 2: 5, 3: 9}, [1]),
        ({1: 7, 2: 7, 3: 9}, []),
        ({1: -1, 2: 5, 3: 9}, [2]),
        ({1: 7, 2: -1, 3: 7}, [1]),
    ],
    ids=["one is ahead", "two are level", "one never fetched", "one is level with the leader"],
)
def test_longest_log_is_judged_by_what_the_leader_knows_of_its_followers(ends, longest):
    leader = QuorumDescription(None, 3, 2, 5, voters=tuple(ends.items()))
    view = QuorumView((1, 2, 3), {3: leader}, ALL_FOLLOW_3)
    assert [node for node in (1, 2) if holds(has_longest_log(node), view)] == longest


def test_leaders_log_is_compared_with_what_the_leader_knows_of_voters_and_observers():
    leader = QuorumDescription(None, 3, 2, None, 7, voters=((1, 7), (2, -1), (3, 7)), observers=((4, 7), (5, 6)))
    view = QuorumView((1, 2, 3, 4, 5, 6), {3: leader}, {})
    assert [node for node in view.nodes if holds(has_leaders_log(node), view)] == [1, 3, 4]


def test_leader_is_the_claim_with_the_highest_epoch():
    assert QuorumView((1, 2), {1: claim(1, 4), 2: claim(2, 3)}, {}).leader() == 1
    assert QuorumView((1, 2), {}, {}).leader() is None


@pytest.mark.parametrize(
    ("stood", "last", "expected"),
    [
        ({1: 2}, following(3, 2), True),
        ({1: 1}, following(3, 2), False),
        ({}, following(3, 2), False),
        ({1: 2}, following(None, 2, "Candidate"), False),
        ({1: 2}, following(1, 2, "Leader"), False),
    ],
    ids=["lost", "stood in an earlier epoch", "never stood", "still stands", "won"],
)
def test_node_lost_an_election_if_it_follows_in_the_epoch_in_which_it_stood(stood, last, expected):
    view = QuorumView((1, 2, 3), {3: claim(3, 2)}, {**ALL_FOLLOW_3, 1: last}, stood=stood)
    assert holds(lost_election(1), view) is expected
    assert holds(ANY_LOST_ELECTION, view) is expected
    assert not holds(lost_election(2), view)
