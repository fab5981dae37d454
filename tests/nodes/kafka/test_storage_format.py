"""How a node's storage is formatted: as its own release, or as an older one that it stands beside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.model.hosts import HostView
from nodes.kafka.artifacts import Release
from nodes.kafka.configuration import Layout
from nodes.kafka.system import KafkaSystem
from nodes.kafka.versions import KafkaVersion

VIEW = HostView(1, "10.77.0.1", "n1", Path("/runs/n1"))


class RecordedHost:
    """A host that only notes what it is asked to run."""

    def __init__(self) -> None:
        self.view = VIEW
        self.ran: list[Sequence[str]] = []

    async def write(self, path: Path, text: str) -> None:
        """Nothing is written."""

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Note it."""
        assert timeout_seconds > 0
        self.ran.append(argv)
        return ""

    async def put(self, source: Path, target: Path) -> None:
        """Nothing is copied."""

    async def get(self, source: Path, target: Path) -> None:
        """Nothing is copied."""


def format_flags(tmp_path: Path, newcomer: bool = False, **given: Any) -> list[str]:
    """What the storage tool is told of n1 of 4.3.1, beside its configuration."""
    release = Release(KafkaVersion(4, 3, 1), tmp_path, "here")
    host = RecordedHost()
    system = KafkaSystem(release, Layout.CONTROLLERS, "9QAAAAAAAAAAAAAAAAAAAA", **given)
    asyncio.run(system.prepare(host, {1: VIEW}, newcomer))
    (argv,) = host.ran
    return list(argv[argv.index("-c") + 2 :])


@pytest.mark.parametrize(
    ("beside", "asked"),
    [(None, []), (KafkaVersion(3, 9, 1), ["--release-version", "3.9"])],
    ids=["alone", "beside 3.9.1"],
)
def test_storage_is_formatted_for_the_oldest_node_of_the_quorum(
    beside: KafkaVersion | None, asked: list[str], tmp_path: Path
) -> None:
    assert format_flags(tmp_path, metadata_release=beside) == asked


def test_storage_is_formatted_with_the_levels_of_features_that_are_given(tmp_path: Path) -> None:
    assert format_flags(tmp_path, features={"transaction.version": "1"}) == ["--feature", "transaction.version=1"]


def test_a_first_voter_is_formatted_as_one_and_a_newcomer_in_its_place_is_not(tmp_path: Path) -> None:
    voters = {1: "AAAAAAAAAAAAAAAAAAAAAA"}
    named = ["--initial-controllers", "1@10.77.0.1:9093:AAAAAAAAAAAAAAAAAAAAAA"]
    assert format_flags(tmp_path, initial_voters=voters) == named
    assert format_flags(tmp_path, initial_voters=voters, newcomer=True) == ["--no-initial-controllers"]
