"""A growing log file: whole lines once each, whatever the pieces they were written in."""

from __future__ import annotations

import pytest

from nodes.observe.log_tail import LogTail

LINE = (
    "[2026-11-21 05:38:29,157] INFO [RaftManager id=1] Completed transition to Unattached(epoch={}) from null (x.Y)\n"
)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "server.log"


@pytest.fixture
def epochs():
    return []


@pytest.fixture
def tail(log, epochs):
    return LogTail(log, lambda event: epochs.append(event.epoch))


def append(log, text):
    with log.open("a") as file:
        file.write(text)


def test_a_file_that_appears_late_is_read_from_its_beginning(tail, log, epochs):
    tail.read_rest()
    assert epochs == []
    append(log, LINE.format(1) + LINE.format(2))
    tail.read_rest()
    assert epochs == [1, 2]


def test_a_torn_line_is_told_once_when_its_end_has_come(tail, log, epochs):
    whole = LINE.format(7)
    for piece in (whole[:30], whole[30:95], whole[95:]):
        assert epochs == []
        append(log, piece)
        tail.read_rest()
    tail.read_rest()
    assert epochs == [7]


def test_a_last_line_without_its_end_is_never_told(tail, log, epochs):
    append(log, LINE.format(1) + LINE.format(2).rstrip("\n"))
    tail.read_rest()
    tail.read_rest()
    assert epochs == [1]


def test_bytes_that_are_no_text_do_not_stop_the_reading(tail, log, epochs):
    log.write_bytes(b"\xff\xfe\x00 not text\n" + LINE.format(3).encode())
    tail.read_rest()
    assert epochs == [3]
