"""A broker's high-watermark checkpoint, and the observations of it."""

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
"""Epoch 0 from offset 0 on, epoch 4 from offset 40 on."""


def write(data: Path, high_watermarks: str, epochs: str = EPOCHS, folder: str = "log-0") -> None:
    """Replace both files atomically, as a broker does."""
    (data / folder).mkdir(parents=True, exist_ok=True)
    for path, text in (
        (data / folder / "leader-epoch-checkpoint", epochs),
        (data / "replication-offset-checkpoint", high_watermarks),
    ):
        new = path.with_suffix(".tmp")
        new.write_text(text)
        new.replace(path)


def test_high_watermarks_above_0_of_users_partitions_are_read(tmp_path: Path) -> None:
    write(tmp_path, HIGH_WATERMARKS)
    assert read_high_watermarks(tmp_path) == {("log", 0): 42, ("other-topic", 11): 7}


@pytest.mark.parametrize(
    "content",
    [None, "", "0\n", "0\n2\nlog 0 42\n", "1\n1\nlog 0 42\n", "0\n1\nlog 0\n", "0\n1\nlog 0 many\n", "\x00" * 40],
    ids=["no file", "empty", "truncated", "missing line", "other version", "no offset", "not a number", "zeros"],
)
def test_invalid_checkpoint_has_no_high_watermarks(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "replication-offset-checkpoint").write_text(content)
    assert read_high_watermarks(tmp_path) == {}


@pytest.mark.parametrize(("high_watermark", "below"), [(1, (0, 0)), (40, (0, 0)), (41, (4, 40)), (99, (4, 40))])
def test_epoch_below_is_that_of_the_last_offset_below(
    tmp_path: Path, high_watermark: int, below: tuple[int, int]
) -> None:
    write(tmp_path, HIGH_WATERMARKS)
    assert epoch_below(tmp_path, ("log", 0), high_watermark) == below


def test_epoch_below_is_unknown_if_no_checkpoint_has_it(tmp_path: Path) -> None:
    write(tmp_path, HIGH_WATERMARKS, epochs="0\n1\n3 10\n")
    assert epoch_below(tmp_path, ("log", 0), 10) is None
    assert epoch_below(tmp_path, ("other-topic", 11), 7) is None


def observations_of(data: Path, *changes: Callable[[], None]) -> list[Observation]:
    """The observations of a node; each change is made after the previous one has been observed."""
    observations: list[Observation] = []
    observed = asyncio.Event()

    def observe(observation: Observation) -> None:
        observations.append(observation)
        observed.set()

    async def watch() -> None:
        files = {2: NodeFiles(data / "server.log", data, data / "__cluster_metadata-0" / "quorum-state")}
        quorum = QuorumWatch(lambda: 7, 0, observe, files, {})
        quorum.start()
        for change in changes:
            observed.clear()
            change()
            await asyncio.wait_for(observed.wait(), 5)
        await quorum.stop()

    asyncio.run(watch())
    return observations


def test_every_change_of_a_high_watermark_is_observed_including_a_decrease(tmp_path: Path) -> None:
    observations = observations_of(
        tmp_path,
        lambda: write(tmp_path, HIGH_WATERMARKS),
        lambda: write(tmp_path, "0\n1\nlog 0 44\n"),
        lambda: write(tmp_path, "0\n1\nlog 0 39\n"),
    )
    observed = [(one.node, one.source, one.kind, one.high_watermark, one.detail) for one in observations]
    assert observed == [
        (2, "replication-offset-checkpoint", "committed", high_watermark, json.dumps(detail))
        for high_watermark, detail in (
            (42, {"topic": "log", "partition": 0, "epoch": 4, "start": 40}),
            (44, {"topic": "log", "partition": 0, "epoch": 4, "start": 40}),
            (39, {"topic": "log", "partition": 0, "epoch": 0, "start": 0}),
        )
    ]
