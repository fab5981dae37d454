"""A growing log file: each complete line is reported once, however it was written."""

from __future__ import annotations

import asyncio

import pytest

from nodes.observe import log_tail
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


def test_file_that_appears_later_is_read_from_its_beginning(tail, log, epochs):
    tail.read_new()
    assert epochs == []
    append(log, LINE.format(1) + LINE.format(2))
    tail.read_new()
    assert epochs == [1, 2]


def test_line_written_in_pieces_is_reported_once_when_complete(tail, log, epochs):
    line = LINE.format(7)
    for piece in (line[:30], line[30:95], line[95:]):
        assert epochs == []
        append(log, piece)
        tail.read_new()
    tail.read_new()
    assert epochs == [7]


def test_last_line_without_a_newline_is_not_reported(tail, log, epochs):
    append(log, LINE.format(1) + LINE.format(2).rstrip("\n"))
    tail.read_new()
    tail.read_new()
    assert epochs == [1]


def test_invalid_utf_8_is_skipped(tail, log, epochs):
    log.write_bytes(b"\xff\xfe\x00 not text\n" + LINE.format(3).encode())
    tail.read_new()
    assert epochs == [3]


async def follow_two_writes(tail, log, epochs):
    following = asyncio.create_task(tail.follow())
    for epoch in (1, 2):
        await asyncio.sleep(0.05)  # the tail waits
        append(log, LINE.format(epoch))
        while epoch not in epochs:
            await asyncio.sleep(0.001)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


def test_a_line_is_read_when_it_is_written_and_not_at_the_next_poll(tail, log, epochs, monkeypatch):
    monkeypatch.setattr(log_tail, "POLL_SECONDS", 3600)
    asyncio.run(asyncio.wait_for(follow_two_writes(tail, log, epochs), 10))
    assert epochs == [1, 2]


def test_a_directory_that_does_not_exist_yet_is_polled(epochs, monkeypatch, tmp_path):
    monkeypatch.setattr(log_tail, "POLL_SECONDS", 0.01)
    later = tmp_path / "later"

    async def main():
        following = asyncio.create_task(
            LogTail(later / "server.log", lambda event: epochs.append(event.epoch)).follow()
        )
        await asyncio.sleep(0.02)
        later.mkdir()
        append(later / "server.log", LINE.format(4))
        while not epochs:
            await asyncio.sleep(0.001)
        following.cancel()

    asyncio.run(asyncio.wait_for(main(), 10))
    assert epochs == [4]
