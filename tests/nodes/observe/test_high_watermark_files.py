"""What a broker keeps on file of its high watermarks, and how a watch tells it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model import Observation
from harness.model.systems import NodeFiles
from nodes.observe.high_watermarks import epoch_below, read_high_watermarks
from nodes.observe.watch import QuorumWatch

HIGH_WATERMARKS = "0\n4\nlog 0 42\nlog 1 0\n__consumer_offsets 3 17\nother-topic 11 7\n"
EPOCHS = "0\n2\n0 0\n4 40\n"
"""Epoch 0 from the start on, epoch 4 from offset 40 on."""


def write(data: Path, marks: str, epochs: str = EPOCHS, folder: str = "log-0") -> None:
    """The two files as a broker leaves them, each replaced whole."""
    (data / folder).mkdir(parents=True, exist_ok=True)
    for path, text in (
        (data / folder / "leader-epoch-checkpoint", epochs),
        (data / "replication-offset-checkpoint", marks),
    ):
        new = path.with_suffix(".tmp")
        new.write_text(text)
        new.replace(path)


def test_what_is_committed_of_users_partitions_is_read(tmp_path: Path) -> None:
    write(tmp_path, HIGH_WATERMARKS)
    assert read_high_watermarks(tmp_path) == {("log", 0): 42, ("other-topic", 11): 7}


@pytest.mark.parametrize(
    "content",
    [None, "", "0\n", "0\n2\nlog 0 42\n", "1\n1\nlog 0 42\n", "0\n1\nlog 0\n", "0\n1\nlog 0 many\n", "\x00" * 40],
    ids=["no file", "empty", "cut short", "a line lacks", "another version", "no offset", "no number", "zeros"],
)
def test_a_file_that_is_not_whole_says_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "replication-offset-checkpoint").write_text(content)
    assert read_high_watermarks(tmp_path) == {}


@pytest.mark.parametrize(("high_watermark", "epoch"), [(1, 0), (40, 0), (41, 4), (99, 4)])
def test_the_epoch_is_that_of_the_last_offset_below(tmp_path: Path, high_watermark: int, epoch: int) -> None:
    write(tmp_path, HIGH_WATERMARKS)
    assert epoch_below(tmp_path, ("log", 0), high_watermark) == epoch


def test_an_epoch_that_no_file_tells_is_not_known(tmp_path: Path) -> None:
    write(tmp_path, HIGH_WATERMARKS, epochs="0\n1\n3 10\n")
    assert epoch_below(tmp_path, ("log", 0), 10) is None
    assert epoch_below(tmp_path, ("other-topic", 11), 7) is None


def watched(data: Path, *changes: Callable[[], None]) -> list[Observation]:
    """What a watch tells of a node, each change made once all before it has been told."""
    seen: list[Observation] = []
    told = asyncio.Event()

    def observe(observation: Observation) -> None:
        seen.append(observation)
        told.set()

    async def watch() -> None:
        quorum = QuorumWatch(lambda: 7, 0, observe)
        quorum.start({2: NodeFiles(data / "server.log", data, data / "__cluster_metadata-0" / "quorum-state")}, {})
        for change in changes:
            told.clear()
            change()
            await asyncio.wait_for(told.wait(), 5)
        await quorum.stop()

    asyncio.run(watch())
    return seen


def test_a_watch_tells_a_high_watermark_whenever_it_has_changed_even_back(tmp_path: Path) -> None:
    seen = watched(
        tmp_path,
        lambda: write(tmp_path, HIGH_WATERMARKS),
        lambda: write(tmp_path, "0\n1\nlog 0 44\n"),
        lambda: write(tmp_path, "0\n1\nlog 0 39\n"),
    )
    told = [(one.node, one.source, one.kind, one.high_watermark, json.loads(one.detail or "")) for one in seen]
    place = {"topic": "log", "partition": 0}
    expected = [(42, {**place, "epoch": 4}), (44, {**place, "epoch": 4}), (39, {**place, "epoch": 0})]
    assert told == [(2, "replication-offset-checkpoint", "committed", mark, detail) for mark, detail in expected]
