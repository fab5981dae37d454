"""The arguments of Kafka's storage tool: release, features and initial voters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.model.hosts import HostView
from harness.model.layouts import Roles
from harness.model.systems import CLUSTER_ID
from nodes.kafka.artifacts import Release
from nodes.kafka.configuration import FORMAT, SYNC_FORMAT
from nodes.kafka.system import KafkaSystem
from nodes.kafka.versions import KafkaVersion

VIEW = HostView(1, "10.77.0.1", "n1", Path("/runs/n1"))


class FakeHost:
    """A host that records the commands instead of running them."""

    def __init__(self) -> None:
        self.view = VIEW
        self.commands: list[Sequence[str]] = []

    async def write(self, path: Path, text: str) -> None:
        """Do nothing."""

    async def run(self, argv: Sequence[str], timeout_seconds: float = 60.0) -> str:
        """Record the command."""
        assert timeout_seconds > 0
        self.commands.append(argv)
        return ""

    async def put(self, source: Path, target: Path) -> None:
        """Do nothing."""

    async def get(self, source: Path, target: Path) -> None:
        """Do nothing."""


def format_flags(tmp_path: Path, newcomer: bool = False, **options: Any) -> list[str]:
    """The storage tool's arguments for n1 of 4.3.1: the cluster id, the configuration file, and others."""
    release = Release(KafkaVersion(4, 3, 1), tmp_path, "installed")
    host = FakeHost()
    system = KafkaSystem(release, Roles.CONTROLLER, {1: 9093}, "9QAAAAAAAAAAAAAAAAAAAA", **options)
    asyncio.run(system.prepare(host, {1: VIEW}, newcomer))
    argv, synced = host.commands
    assert synced == ["find", "/runs/n1/data", "-type", "f", "-exec", "sync", "{}", "+"]
    return list(argv[argv.index("format") + 1 :])


@pytest.mark.parametrize(
    ("metadata_release", "flags"),
    [(None, []), (KafkaVersion(3, 9, 1), ["--release-version", "3.9"])],
    ids=["single release", "with 3.9.1"],
)
def test_storage_is_formatted_for_the_oldest_release_of_the_quorum(
    metadata_release: KafkaVersion | None, flags: list[str], tmp_path: Path
) -> None:
    assert format_flags(tmp_path, metadata_release=metadata_release)[4:] == flags


def test_storage_is_formatted_with_feature_levels(tmp_path: Path) -> None:
    assert format_flags(tmp_path, features={"transaction.version": "1"})[4:] == ["--feature", "transaction.version=1"]


def test_initial_voter_is_formatted_as_one_and_its_replacement_is_not(tmp_path: Path) -> None:
    voters = {1: "AAAAAAAAAAAAAAAAAAAAAA"}
    flags = ["--initial-controllers", "1@10.77.0.1:9093:AAAAAAAAAAAAAAAAAAAAAA"]
    assert format_flags(tmp_path, initial_voters=voters)[4:] == flags
    assert format_flags(tmp_path, initial_voters=voters, newcomer=True)[4:] == ["--no-initial-controllers"]


def test_format_stays_unsynced_if_the_node_says_so(tmp_path: Path) -> None:
    release = Release(KafkaVersion(4, 3, 1), tmp_path, "installed")
    host = FakeHost()
    overrides = {SYNC_FORMAT: "false"}
    system = KafkaSystem(release, Roles.CONTROLLER, {1: 9093}, "9QAAAAAAAAAAAAAAAAAAAA", overrides=overrides)
    asyncio.run(system.prepare(host, {1: VIEW}))
    (argv,) = host.commands
    assert "format" in argv


def test_node_is_formatted_for_a_cluster_of_its_own_if_its_properties_say_so(tmp_path: Path) -> None:
    own = {FORMAT: "standalone", CLUSTER_ID: "AgAAAAAAAAAAAAAAAAAAAA"}
    flags = format_flags(tmp_path, initial_voters={2: "AAAAAAAAAAAAAAAAAAAAAA"}, overrides=own)
    assert flags == ["-t", "AgAAAAAAAAAAAAAAAAAAAA", "-c", "/runs/n1/server.properties", "--standalone"]
