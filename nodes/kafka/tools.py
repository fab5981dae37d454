"""Kafka's command-line tools: the main class of each in a release's jars, and the command that runs it.

    tool_command(release, "kafka-metadata-quorum", ["--bootstrap-controller", "10.0.0.1:9093", "describe", "--status"])

A tool's class keeps its name, and moved between packages from release to release (KAFKA-14525), so it is looked up in
the jars. Source: the scripts in Kafka's bin folder.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from harness.model import BadInput
from harness.model.suggestions import did_you_mean
from nodes.kafka.artifacts import Library, Release
from nodes.kafka.system import SMALL_JVM

TOOLS: Final[Mapping[str, str]] = {
    "kafka-acls": "AclCommand",
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-client-metrics": "ClientMetricsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-configs": "ConfigCommand",
    "kafka-console-consumer": "ConsoleConsumer",
    "kafka-console-producer": "ConsoleProducer",
    "kafka-consumer-groups": "ConsumerGroupCommand",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-dump-log": "DumpLogSegments",
    "kafka-features": "FeatureCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-groups": "GroupsCommand",
    "kafka-jmx": "JmxTool",
    "kafka-leader-election": "LeaderElectionCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-metadata-quorum": "MetadataQuorumCommand",
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-reassign-partitions": "ReassignPartitionsCommand",
    "kafka-replica-verification": "ReplicaVerificationTool",
    "kafka-share-groups": "ShareGroupCommand",
    "kafka-storage": "StorageTool",
    "kafka-topics": "TopicCommand",
    "kafka-transactions": "TransactionsCommand",
}
"""The main class of each tool, without its package."""

HEAP_MIB = 128
_JARS = ("kafka-tools-[0-9]*.jar", "kafka_2.*.jar")
_CLASS = re.compile(r"(org/apache/kafka/tools|kafka/admin|kafka/tools)/(?:[a-z]+/)*([A-Za-z]+)\.class")


def tool_command(release: Release, tool: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs a tool of a release. Raises BadInput for a tool that the release does not have."""
    heap = f"-Xmx{HEAP_MIB}m"
    return ["java", *SMALL_JVM, heap, "-cp", f"{release.jars}/*", main_class(release, tool), *arguments]


def main_class(release: Release, tool: str) -> str:
    """The full name of a tool's main class. Raises BadInput for a tool that the release does not have."""
    if tool not in TOOLS:
        raise BadInput(f"tool {tool}: expected one of {', '.join(TOOLS)}{did_you_mean(tool, TOOLS)}")
    found = _main_classes(release.jars).get(TOOLS[tool])
    if found is None:
        raise BadInput(f"tool {tool}: not in Kafka {release.version}, whose jars have no class {TOOLS[tool]}")
    return found


def tools_release(version: str = "") -> Release:
    """The installed release of a version; without a version the newest installed. Raises BadInput if there is none."""
    installed = Library.default().installed()
    found = [release for release in installed if version in ("", str(release.version))]
    if not found:
        needed = version or "newest 4"
        raise BadInput(f"Kafka's tools are not on this machine; run splitbrain kafka install '{needed}'")
    return found[-1]


@cache
def _main_classes(jars: Path) -> Mapping[str, str]:
    """The classes of the tools' packages by simple name; one in org.apache.kafka.tools hides older ones."""
    found: dict[str, str] = {}
    for jar in (path for pattern in _JARS for path in sorted(jars.glob(pattern))):
        with zipfile.ZipFile(jar) as archive:
            matches = (_CLASS.fullmatch(name) for name in archive.namelist())
            for match in sorted((each for each in matches if each), key=lambda each: each[1], reverse=True):
                found.setdefault(match[2], match[0].removesuffix(".class").replace("/", "."))
    return found
