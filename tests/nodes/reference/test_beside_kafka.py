"""A reference node as the third voter of a static quorum of real Kafka."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from nodes.hosts.sandbox import Privilege, enclose
from nodes.kafka.artifacts import Library
from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import ReplicaKey, SnapshotId, VoterNode
from nodes.reference.core.records import entities
from nodes.reference.core.records.image import Image
from nodes.reference.core.records.metadata import encode
from nodes.reference.core.records.snapshots import name_of, snapshot_data
from nodes.wire.batches import encode_batch
from tests.support import SUPPORT


@pytest.mark.kafka
@pytest.mark.netns
@pytest.mark.timeout(600)
def test_reference_voter_follows_replicates_and_votes_in_a_quorum_of_real_kafka(tmp_path: Path) -> None:
    release = asyncio.run(Library.default().resolve("newest 4"))
    script = SUPPORT / "nodes" / "third_voter.py"
    argv = enclose([sys.executable, str(script), str(tmp_path), str(release.version)], Privilege.detect())
    run = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    observed = json.loads(run.stdout)
    assert observed == dict.fromkeys(("followed", "replicated", "rejoined", "elected", "committed"), True)


ID, NODE = uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF), 7
RECORDS: tuple[entities.MetadataRecord, ...] = (
    entities.RegisterBrokerRecord(
        broker_id=NODE,
        incarnation_id=ID,
        broker_epoch=5,
        end_points=(entities.BrokerEndpoint(name="PLAINTEXT", host="h", port=40000),),
        features=(entities.BrokerFeature(name="f", min_supported_version=1, max_supported_version=2),),
        rack="r",
        fenced=False,
        in_controlled_shutdown=True,
        log_dirs=(ID,),
    ),
    entities.BrokerRegistrationChangeRecord(
        broker_id=NODE, broker_epoch=5, fenced=-1, in_controlled_shutdown=1, log_dirs=(ID,)
    ),
    entities.TopicRecord(name="t", topic_id=ID),
    entities.PartitionRecord(
        partition_id=3,
        topic_id=ID,
        replicas=(7, 8),
        isr=(7,),
        removing_replicas=(7,),
        adding_replicas=(8,),
        leader=7,
        leader_recovery_state=1,
        leader_epoch=4,
        partition_epoch=6,
        directories=(ID, ID),
        eligible_leader_replicas=(8,),
        last_known_elr=(9,),
    ),
    entities.PartitionChangeRecord(
        partition_id=3,
        topic_id=ID,
        isr=(),
        leader=-1,
        replicas=(8,),
        removing_replicas=(),
        adding_replicas=(),
        leader_recovery_state=0,
        eligible_leader_replicas=(7,),
        last_known_elr=(),
        directories=(ID,),
    ),
    entities.ConfigRecord(resource_type=2, resource_name="t", name="a", value=None),
    entities.ProducerIdsRecord(broker_id=NODE, broker_epoch=5, next_producer_id=1000),
    entities.RemoveTopicRecord(topic_id=ID),
    entities.UnregisterBrokerRecord(broker_id=NODE, broker_epoch=5),
)


def is_plain(value: object) -> bool:
    """Whether JSON has the value as it is: a number, a text, nothing, or a list of numbers."""
    return value is None or isinstance(value, int | str) or (isinstance(value, tuple) and all(map(is_plain, value)))


def as_json(value: object) -> object:
    """The value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def dumped(file: Path) -> list[str]:
    """What Kafka's kafka-dump-log prints of a log or a snapshot of the metadata."""
    release = asyncio.run(Library.default().resolve("newest 4"))
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file)]
    argv = ["java", "-Xmx256m", "-cp", f"{release.jars}/*", *tool]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_kafkas_tool_reads_a_snapshot(tmp_path: Path) -> None:
    image, snapshot_id = Image(), SnapshotId(40, 3)
    for record in RECORDS[:7]:
        image.apply(record)
    voters = Assignment((7,), None, (VoterNode(ReplicaKey(7, ID), "h", 9093),))
    file = tmp_path / f"{name_of(snapshot_id)}.checkpoint"
    file.write_bytes(snapshot_data(image, voters, snapshot_id, "c", 1000))
    lines = [line for line in dumped(file) if line.startswith("| offset")]
    assert ["SnapshotHeader" in lines[0], "KRaftVersion" in lines[1], "KRaftVoters" in lines[2]] == [True] * 3
    assert "SnapshotFooter" in lines[-1]
    types = [json.loads(line.split("payload: ")[1])["type"] for line in lines if "payload: " in line]
    assert types == ["REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "PRODUCER_IDS_RECORD"]
    (described,) = [line for line in lines if "PARTITION_RECORD" in line]
    assert json.loads(described.split("payload: ")[1])["data"]["eligibleLeaderReplicas"] == [7]


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_kafkas_tool_reads_the_metadata_records(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(encode_batch([encode(record) for record in RECORDS], 0, 1, 0))
    rows = [json.loads(line.split("payload: ")[1]) for line in dumped(segment) if "payload: " in line]
    assert [row["type"].replace("_", "").lower() for row in rows] == [
        type(record).__name__.lower() for record in RECORDS
    ]
    for record, row in zip(RECORDS, rows, strict=True):
        expected = {name.replace("_", ""): getattr(record, name) for name in type(record).__slots__}
        assert {name.lower() for name in row["data"]} == expected.keys()
        plain = {name: as_json(value) for name, value in expected.items() if is_plain(value)}
        assert {name: row["data"][camel] for camel in row["data"] if (name := camel.lower()) in plain} == plain
