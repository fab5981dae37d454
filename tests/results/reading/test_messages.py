"""The messages that a report shows, their text, and the drawing of those that were not delivered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from harness.model import Verdict
from harness.model.records.tables import RPCS
from results.data import MessageCount, SideData
from results.drawing.messages import sequence
from results.drawing.svg import markup
from results.reading.messages import SHOWN_MAX, counted_messages, relevant_rows, shown_messages, text_of

FETCH, VOTE, BEGIN = 1, 52, 53


def rpc(time_ns: int, api_key: int, direction: str = "request", action: str = "pass", **more: Any) -> dict[str, Any]:
    """A row from n1 to n2, or back for a response."""
    ends = (1, 2) if direction == "request" else (2, 1)
    row = {"time_ns": time_ns, "source": ends[0], "target": ends[1], "api_key": api_key, "api_version": 2}
    row |= {"correlation_id": 7, "direction": direction, "size_bytes": 10, "pre_vote": None, "epoch": None}
    return row | {"granted": None, "action": action} | more


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=RPCS)


def test_messages_of_elections_and_those_with_an_action_are_shown():
    rows = table(rpc(1, FETCH), rpc(4, FETCH, action="hold"), rpc(3, BEGIN, epoch=2), rpc(2, VOTE, epoch=2))
    assert [message.text for message in shown_messages(relevant_rows(rows, 0))] == [
        "Vote, epoch 2",
        "BeginQuorumEpoch, epoch 2",
        "Fetch (hold)",
    ]


def test_messages_before_the_story_are_not_shown():
    assert len(relevant_rows(table(rpc(1, VOTE), rpc(5, VOTE)), 5)) == 1


def test_number_of_shown_messages_is_limited():
    relevant = relevant_rows(table(*(rpc(time, VOTE) for time in range(SHOWN_MAX + 9))), 0)
    assert (len(shown_messages(relevant)), len(relevant)) == (SHOWN_MAX, SHOWN_MAX + 9)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (rpc(1, VOTE, pre_vote=True, epoch=3), "pre-vote, epoch 3"),
        (rpc(1, VOTE, "response", pre_vote=True, granted=True, epoch=3), "pre-vote: granted, epoch 3"),
        (rpc(1, VOTE, "response", pre_vote=False, granted=False), "Vote: rejected"),
        (rpc(1, FETCH, "response", "drop"), "Fetch response (drop)"),
        (rpc(1, 77), "API 77"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_of_a_message(row, text):
    assert text_of(row) == text


def test_requests_are_counted_by_api_and_action():
    rows = table(rpc(1, FETCH), rpc(2, FETCH), rpc(2, FETCH, "response"), rpc(3, FETCH, action="drop"), rpc(4, VOTE))
    assert counted_messages(rows) == (
        MessageCount("Fetch", "pass", 2, 20),
        MessageCount("Fetch", "drop", 1, 10),
        MessageCount("Vote", "pass", 1, 10),
    )


def test_dropped_message_is_drawn_as_lost():
    messages = shown_messages(relevant_rows(table(rpc(1, VOTE), rpc(2, VOTE, action="drop")), 0))
    picture = markup(sequence(SideData("bad", "reference", Verdict.VALID, "", 9, (1, 2), messages=messages)))
    assert picture.count('class="message lost"') == 1
    assert picture.count('class="message"') == 1
    assert "n1 to n2 at 0.0000 s" in picture


def test_run_without_a_proxy_has_no_messages():
    assert counted_messages(table()) == ()
    assert shown_messages(relevant_rows(table(), 0)) == ()
