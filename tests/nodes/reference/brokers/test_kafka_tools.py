"""Kafka's own command-line tools against brokers of the reference system."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

from nodes.kafka.artifacts import Library
from nodes.kafka.tools import tool_command
from tests.nodes.reference.brokers.conftest import Brokers

LINES = b"one\ntwo\nthree\n"


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_kafkas_tools_administer_produce_and_consume(brokers: Brokers, tmp_path: Path) -> None:
    release = asyncio.run(Library.default().resolve("newest 4"))

    def tool(name: str, *arguments: str, given: bytes = b"") -> str:
        command = tool_command(release, name, ["--bootstrap-server", brokers.bootstrap, *arguments])
        ended = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
        output = (ended.stdout + ended.stderr).decode()
        assert ended.returncode == 0, f"{name}: {output}"
        return output

    brokers.all_live()
    created = ["--create", "--topic", "t", "--replica-assignment", "1:2:3", "--config", "min.insync.replicas=2"]
    assert "Created topic t." in tool("kafka-topics", *created)
    tool("kafka-console-producer", "--topic", "t", given=LINES)
    consumed = ["--topic", "t", "--partition", "0", "--offset", "earliest", "--max-messages", "3"]
    assert tool("kafka-console-consumer", *consumed).startswith(LINES.decode())
    assert tool("kafka-get-offsets", "--topic", "t") == "t:0:3\n"

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
