"""Elections of a leader that lacks committed records, on real reference brokers: by `splitbrain elect-leaders`, and by
the controller with a strategy of KIP-966."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from harness.model.errors import EXIT_INVALID, EXIT_VALID
from tests.nodes.reference.brokers.conftest import Brokers
from tests.nodes.reference.brokers.test_brokers import isrs, leaders, produce, with_topic
from tests.support.command import CommandResult, json_lines, splitbrain


def elect(brokers: Brokers, file: Path, leader: int) -> CommandResult:
    """Designate a leader of t-0."""
    file.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "designatedLeader": leader}]}))
    servers = ",".join(f"127.0.0.1:{brokers.client_ports[node]}" for node in brokers.running)
    arguments = ("--election-type", "DESIGNATED", "--path-to-json-file", file, "--json")
    return splitbrain("elect-leaders", "--bootstrap-server", servers, *arguments)


@pytest.mark.parametrize("brokers", [{"nodes": 4, "reference.eligible_leader_replicas": "false"}], indirect=True)
def test_a_designated_leader_is_elected_once_and_only_among_live_replicas(brokers: Brokers, tmp_path: Path) -> None:
    """UR-16, UR-17 and UR-18."""
    with_topic(brokers, [[4, 2]])
    brokers.kill(2)
    brokers.seen(lambda seen: isrs(seen) == [[4]])
    brokers.kill(4)
    brokers.seen(lambda seen: leaders(seen) == [-1])
    brokers.start(2)
    brokers.all_live()
    file = tmp_path / "leaders.json"
    refused = {leader: elect(brokers, file, leader) for leader in (1, 4)}
    reasons = {leader: json_lines(result)[0]["reason"] for leader, result in refused.items()}
    assert reasons[1].startswith("INVALID_REQUEST")
    assert reasons[4].startswith("ELIGIBLE_LEADERS_NOT_AVAILABLE")
    assert {result.code for result in refused.values()} == {EXIT_INVALID}
    outcomes = [
        (json_lines(result)[0]["outcome"], result.code) for result in (elect(brokers, file, 2) for _ in range(2))
    ]
    assert outcomes == [("elected", EXIT_VALID), ("already online", EXIT_VALID)]
    assert leaders(brokers.seen(lambda seen: leaders(seen) == [2])) == [2]


NO_ELR_SOON_RECOVERED = {
    "nodes": 5,
    "reference.eligible_leader_replicas": "false",
    "unclean.leader.election.interval.ms": 500,
}


@pytest.mark.parametrize("brokers", [NO_ELR_SOON_RECOVERED], indirect=True)
def test_the_controller_elects_the_longest_live_log(brokers: Brokers) -> None:
    """UR-30: 2 is the first live replica, and has 3 records; 4 has 7, and 5, which is down, has 8."""
    with_topic(brokers, [[5, 2, 4]])
    for dies, left, records in ((2, [[5, 4]], 3), (4, [[5]], 4), (5, [[5]], 1)):
        produce(brokers, records)
        brokers.kill(dies)
        brokers.seen(lambda seen, left=left: isrs(seen) == left)  # type: ignore[misc]
    brokers.seen(lambda seen: leaders(seen) == [-1])
    brokers.start(2, 4)
    brokers.all_live()
    strategy = ConfigEntry("unclean.recovery.strategy", "Aggressive", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[strategy])
    brokers.admin.incremental_alter_configs([topic])[topic].result()
    brokers.seen(lambda seen: leaders(seen) == [4] and sorted(isrs(seen)[0]) == [2, 4])
    assert produce(brokers, 1) == [7]
