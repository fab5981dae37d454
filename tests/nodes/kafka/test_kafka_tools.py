"""A tool's main class is found in the release's jars, whatever package the release has it in."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from harness.model import BadInput
from nodes.kafka.artifacts import Release
from nodes.kafka.tools import main_class, tool_command
from nodes.kafka.versions import KafkaVersion

NEW, OLD, OLDER = "org/apache/kafka/tools/consumer/group/", "kafka/admin/", "kafka/tools/"


def release(folder: Path, **jars: list[str]) -> Release:
    """A release whose jars have these classes; the names of jars are given with underscores."""
    for name, classes in jars.items():
        with zipfile.ZipFile(folder / f"{name.replace('_', '-')}-4.3.1.jar", "w") as archive:
            for each in classes:
                archive.writestr(f"{each}.class", "")
    return Release(KafkaVersion(4, 3, 1), folder, "test")


def test_class_is_found_in_every_package_and_the_newest_wins(tmp_path: Path) -> None:
    found = release(
        tmp_path,
        kafka_tools=[
            f"{NEW}ConsumerGroupCommand",
            f"{NEW}ConsumerGroupCommand$Option",
            "org/apache/kafka/x/TopicCommand",
        ],
        kafka_2=[],
    )
    with zipfile.ZipFile(tmp_path / "kafka_2.13-4.3.1.jar", "w") as archive:
        for each in (f"{OLD}ConsumerGroupCommand", f"{OLDER}StorageTool"):
            archive.writestr(f"{each}.class", "")
    assert main_class(found, "kafka-consumer-groups") == "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    assert main_class(found, "kafka-storage") == "kafka.tools.StorageTool"
    with pytest.raises(
        BadInput, match=r"tool kafka-topics: not in Kafka 4\.3\.1, whose jars have no class TopicCommand"
    ):
        main_class(found, "kafka-topics")


def test_command_runs_the_class_with_the_release_and_the_arguments(tmp_path: Path) -> None:
    found = release(tmp_path, kafka_tools=["org/apache/kafka/tools/ClusterTool"])
    java, *options = tool_command(found, "kafka-cluster", ["cluster-id", "--x"])
    assert java == "java"
    assert options[-5:] == ["-cp", f"{tmp_path}/*", "org.apache.kafka.tools.ClusterTool", "cluster-id", "--x"]


def test_unknown_tool_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"tool kafka-topic: expected one of kafka-acls, .*; did you mean kafka-topics\?"
    ):
        main_class(release(tmp_path), "kafka-topic")
