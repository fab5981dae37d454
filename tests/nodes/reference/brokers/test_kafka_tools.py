"""Kafka's own command-line tools against brokers of the reference system."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.kafka.artifacts import Library
from nodes.kafka.tools import tool_command
from tests.nodes.reference.brokers.conftest import Brokers

LINES = b"one\ntwo\nthree\n"


Tool = Callable[..., str]
"""Runs a tool with these arguments, and with bytes for its standard input; returns its output."""


@pytest.fixture
def tool(brokers: Brokers) -> Tool:
    """The tools of the newest Kafka, against live brokers."""
    release = asyncio.run(Library.default().resolve("newest 4"))
    brokers.all_live()

    def run(name: str, *arguments: str, given: bytes = b"") -> str:
        command = tool_command(release, name, ["--bootstrap-server", brokers.bootstrap, *arguments])
        ended = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
        output = (ended.stdout + ended.stderr).decode()
        assert ended.returncode == 0, f"{name}: {output}"
        return output

    return run


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_kafkas_tools_administer_produce_and_consume(brokers: Brokers, tool: Tool, tmp_path: Path) -> None:
    created = ["--create", "--topic", "t", "--replica-assignment", "1:2:3", "--config", "min.insync.replicas=2"]
    assert "Created topic t." in tool("kafka-topics", *created)
    tool("kafka-console-producer", "--topic", "t", given=LINES)
    consumed = ["--topic", "t", "--partition", "0", "--offset", "earliest", "--max-messages", "3"]
    assert tool("kafka-console-consumer", *consumed).startswith(LINES.decode())
    assert tool("kafka-get-offsets", "--topic", "t") == "t:0:3\n"
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]}))
    assert "partition: t-0\tlow_watermark: 1\n" in tool("kafka-delete-records", "--offset-json-file", str(offsets))
    assert tool("kafka-get-offsets", "--topic", "t", "--time", "earliest") == "t:0:1\n"

    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}))
    reassign = "kafka-reassign-partitions", "--reassignment-json-file", str(plan)
    assert "Successfully started partition reassignment for t-0" in tool(*reassign, "--execute")
    brokers.seen(lambda seen: sorted(seen.topics["t"].partitions[0].replicas) == [2, 3])
    assert "Reassignment of partition t-0 is completed." in tool(*reassign, "--verify")

    tool("kafka-topics", "--alter", "--topic", "t", "--partitions", "2")
    described = tool("kafka-topics", "--describe", "--topic", "t")
    assert "PartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=2" in described
    assert re.search(r"Partition: 0\tLeader: [23]\tReplicas: 3,2\tIsr: [23],[23]\tElr: \tLastKnownElr: ", described)
    directories = json.loads(tool("kafka-log-dirs", "--describe", "--topic-list", "t").splitlines()[-1])
    sizes = {
        each["broker"]: [row["size"] for row in each["logDirs"][0]["partitions"] if row["partition"] == "t-0"]
        for each in directories["brokers"]
    }
    assert sizes[1] == []
    assert sizes[2] == sizes[3]
    assert sizes[2][0] > len(LINES)


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "brokers", [{"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}], indirect=True
)
def test_kafkas_tools_read_and_change_groups(tool: Tool) -> None:
    tool("kafka-topics", "--create", "--topic", "t", "--partitions", "1")
    tool("kafka-console-producer", "--topic", "t", given=LINES)
    read = ["--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "2"]
    assert tool("kafka-console-consumer", *read).startswith("one\ntwo\n")
    of_group = "kafka-consumer-groups", "--group", "g"
    assert tool("kafka-consumer-groups", "--list") == "g\n"
    assert re.search(r"g\s+t\s+0\s+2\s+3\s+1\s", tool(*of_group, "--describe"))
    reset = tool(*of_group, "--reset-offsets", "--to-earliest", "--topic", "t", "--execute")
    assert re.search(r"g\s+t\s+0\s+0\s", reset)

    whole = ["--topic", "__consumer_offsets", "--partition", "0", "--offset", "earliest", "--timeout-ms", "5000"]
    commits = formatted(tool("kafka-console-consumer", *whole, *formatter("Offsets")))
    assert {json.dumps(key) for key, _ in commits} == {'{"group": "g", "topic": "t", "partition": 0}'}
    assert [value["offset"] for _, value in commits] == [2, 0]
    states = formatted(tool("kafka-console-consumer", *whole, *formatter("GroupMetadata")))
    assert [(value["generation"], len(value["members"])) for _, value in states] == [(1, 1), (2, 0)]
    assert "Deletion of requested consumer groups ('g') was successful." in tool(*of_group, "--delete")


def formatter(name: str) -> list[str]:
    """The options with which Kafka's consumer shows records of the offsets' topic."""
    return ["--formatter", f"org.apache.kafka.tools.consumer.{name}MessageFormatter"]


def formatted(output: str) -> list[tuple[Any, Any]]:
    """Keys and values in what a formatter has written: JSON objects, one after the other."""
    decoder, found, start = json.JSONDecoder(), [], output.find("{")
    while start >= 0:
        each, end = decoder.raw_decode(output, start)
        found.append((each["key"]["data"], each["value"]["data"]))
        start = output.find("{", end)
    return found
