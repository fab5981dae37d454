"""Each invariant reports a planted violation, and nothing where the facts allow what happened."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.kafka

PLANTED = {
    "election-safety": [["leads", 1, 4], ["leads", 2, 4]],
    "monotonic-epoch": [["epoch", 1, 4], ["epoch", 1, 3]],
    "monotonic-vote": [["vote", 1, 4, 2], ["vote", 1, 4, 3]],
    "monotonic-high-watermark": [["high_watermark", 1, 10], ["high_watermark", 1, 9]],
    "majority-reached-high-watermark": [["reached", 1, 10, 1, 3]],
    "log-matching": [["appended", 1, 5, 2, 111], ["appended", 2, 5, 2, 222]],
    "state-machine-safety": [["committed", 1, 3, 5, 111], ["committed", 2, 4, 5, 222]],
    "leader-completeness": [["committed", 1, 3, 5, 111], ["has_committed", 2, 4, 5, 222]],
    "snapshot-of-committed": [["applied", 1, 4, 7], ["loaded", 2, 5, 8]],
    "voter-set-matches-log": [["voters", 1, "[1, 2, 3]", "[1, 2, 4]"]],
    "no-exception": [["throws", 1, "IllegalArgumentException"]],
    "no-spin": [["spins", 1, "Unattached"]],
}

ALLOWED = {
    "a leader again in another epoch": [["leads", 1, 4], ["leads", 1, 4], ["leads", 2, 5]],
    "the same epoch of two nodes": [["epoch", 1, 4], ["epoch", 2, 3], ["epoch", 1, 4], ["epoch", 1, 5]],
    "a vote in a later epoch": [["vote", 1, 4, 2], ["vote", 1, 4, -1], ["vote", 1, 4, 2], ["vote", 1, 5, 3]],
    "a high watermark after a restart": [["high_watermark", 1, 10], ["starts", 1], ["high_watermark", 1, 0]],
    "a new disk": [["epoch", 1, 4], ["vote", 1, 4, 2], ["loses_disk", 1], ["epoch", 1, 0], ["vote", 1, 4, 3]],
    "a majority's logs": [["reached", 1, 10, 2, 3]],
    "a majority that lost a disk": [["loses_disk", 2], ["reached", 1, 10, 1, 3]],
    "logs of other epochs": [["appended", 1, 5, 2, 111], ["appended", 2, 5, 3, 222], ["appended", 2, 6, 2, 333]],
    "equal commits": [["committed", 1, 3, 5, 111], ["committed", 2, 4, 5, 111]],
    "a leader of an earlier epoch": [["committed", 1, 4, 5, 111], ["has_committed", 2, 3, 5, 0]],
    "a complete leader": [["committed", 1, 3, 5, 111], ["has_committed", 2, 4, 5, 111]],
    "equal values": [["applied", 1, 7, 3], ["applied", 2, 7, 3]],
    "a snapshot where something was committed": [["committed", 1, 3, 4, 111], ["snapshot_end", 2, 5]],
    "a snapshot of what was applied": [
        ["applied", 1, 3, -1],
        ["applied", 1, 4, 7],
        ["applied", 1, 5, 8],
        ["loaded", 2, 5, 7],
    ],
    "equal voter sets": [["voters", 1, "[1, 2, 3]", "[1, 2, 3]"]],
}


@pytest.mark.parametrize("invariant", PLANTED)
def test_a_planted_violation_is_reported_once_and_only_under_its_name(drivers, invariant):
    facts = PLANTED[invariant]
    found = drivers("4.3.1").check([*facts, *facts[-1:]])
    assert [name for _, name, _ in found] == [invariant]


def test_values_that_state_machines_apply_differently_are_reported(drivers):
    found = drivers("4.3.1").check([["applied", 1, 7, 3], ["applied", 2, 7, 4]])
    assert found == [(2, "state-machine-safety", "it applies value 4 at offset 7, where another node applied 3")]


def test_a_snapshot_that_ends_where_nothing_was_committed_is_reported(drivers):
    found = drivers("4.3.1").check([["committed", 1, 3, 4, 111], ["snapshot_end", 2, 4]])
    assert found == [
        (2, "snapshot-of-committed", "it has a snapshot that ends at offset 4, where nothing was committed")
    ]


@pytest.mark.parametrize("facts", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_the_protocol_allows_is_not_reported(drivers, facts):
    assert drivers("4.3.1").check(facts) == []
