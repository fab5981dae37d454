"""Defects of released Kafka that no issue reports, about snapshots of the metadata log (docs/findings).

Contains EX-09 and EX-10. The other defects are in kafka_defects.py.
"""

from __future__ import annotations

from harness.model.conditions import ALL_FOLLOW_LEADER, BROKERS_LIVE, all_follow, is_leader
from harness.model.faults.probe import ask
from harness.model.faults.requests import create_topic
from harness.model.faults.rpc import CLOSE, DROP, Api, RpcMatch, RpcRule, intercept
from harness.model.scenario import Scenario, Side, Source, on
from harness.model.story import (
    DOWN,
    LEADER,
    Step,
    both_ways,
    cut,
    cut_links,
    heal,
    heal_links,
    kill,
    lead,
    mark,
    seconds,
    sleep,
    start,
    wait_until,
)
from harness.scenarios.kip_996_elections import first_leader, merged
from harness.scenarios.probes import PARTITION

KIP_630 = Source("KIP-630")
SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.idle.interval.ms": "0",
    "broker.session.timeout.ms": "180000",
}
"""A topic's records make a snapshot. A new leader's first record makes none, and no other record follows it."""
SMALL_FETCHES = {**SMALL_SNAPSHOTS, "controller.quorum.fetch.max.bytes": "1000"}
"""A follower gets one batch at a time, and the default is 8 MB."""
N5_DELETES = merged(first_leader(1, nodes=5), {5: {"metadata.max.retention.bytes": "1"}})
"""n1 keeps what n5 missed."""
NO_COMMIT = RpcRule("fetches from n3", RpcMatch((Api.FETCH,), "request", (2, 4), (3,)), DROP)
NEITHER_N2_NOR_N4 = RpcRule("votes of n2 and n4", RpcMatch((Api.VOTE,), "request", (2, 4), (2, 4)), CLOSE)
"""They do not vote for each other, so neither is elected."""
CLEANING_SECONDS = 65
"""A node looks every 60 s for snapshots, and records before them, that it can delete."""

# KafkaRaftLog.truncateToLatestSnapshot does nothing if the snapshot's epoch is lower than that of the log's last
# record. n3's last record is of a later epoch than the second topic: it was never committed, and the topic was, by a
# still later leader. n5 makes its snapshot between the topic and that leader's first record. Simulation found it.
EX_09 = Scenario(
    id="EX-09",
    title="A follower exits when it fetches a snapshot of an earlier epoch than its own last record",
    question="Can n3, whose last record was never committed, follow n5, which has only a snapshot of what n3 lacks?",
    source=KIP_630 / "When to delete snapshots and log segments",
    nodes=5,
    layout="combined",
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        lead("n1"),
        wait_until(all_follow(1)),
        wait_until(BROKERS_LIVE),
        create_topic("n1", "first", partitions=100),
        sleep(seconds(2)),
        mark("n1 and n5 are cut off, and n1 appends records that are not committed yet"),
        intercept(NO_COMMIT, NEITHER_N2_NOR_N4),
        cut("n5"),
        cut("n1"),
        create_topic("n1", "second", partitions=100, is_answered=False),
        mark("n3 is elected, and appends a record that is never committed"),
        wait_until(is_leader(3)),
        sleep(seconds(0.5)),
        mark("n3 is cut off, and n1 leads again"),
        cut_links(both_ways((3, 2), (3, 4))),
        heal_links(both_ways((1, 2), (1, 4))),
        wait_until(is_leader(1)),
        sleep(seconds(3)),
        mark("n5 catches up, and leads after n1"),
        heal_links(both_ways((5, 1), (5, 2), (5, 4))),
        sleep(seconds(5)),
        kill("n1"),
        wait_until(is_leader(5)),
        sleep(seconds(CLEANING_SECONDS)),
        mark("n3 returns"),
        heal(),
        sleep(seconds(10)),
        mark("what is down is restarted"),
        start(DOWN),
        sleep(seconds(10)),
    ),
    bad=Side(
        on(kafka="4.3.1", kafka_switches=SMALL_FETCHES),
        node_switches=N5_DELETES,
        breaks=("server-exited",),
    ),
    good=Side(
        on(kafka="4.3.1", kafka_switches=SMALL_SNAPSHOTS, reference=SMALL_SNAPSHOTS),
        node_switches=N5_DELETES,
    ),
)

NO_SNAPSHOT = {"end_offset": 3, "epoch": "$epoch"}
"""The log has no snapshot that ends there."""


def fetch_snapshot(epoch: str, error: str, name: str) -> Step:
    """Ask the leader for a snapshot that it does not have, in this epoch."""
    partition = {"partition": 0, "current_leader_epoch": epoch, "snapshot_id": NO_SNAPSHOT, "position": 0}
    topics = [{"name": "__cluster_metadata", "partitions": [partition]}]
    values = {"cluster_id": "$cluster_id", "replica_id": "$other", "max_bytes": 1000, "topics": topics}
    expected = {"error_code": "none", f"{PARTITION}.error_code": error}
    return ask(LEADER, Api.FETCH_SNAPSHOT, 0, values, expected, name=name)


# The partition's records are null in a response with an error, and may not be null in its schema.
EX_10 = Scenario(
    id="EX-10",
    title="The errors of FetchSnapshot cannot be sent",
    question="Does a follower learn that the leader does not have a snapshot, and that its epoch is over?",
    source=KIP_630 / "FetchSnapshot",
    nodes=3,
    story=(
        wait_until(ALL_FOLLOW_LEADER),
        fetch_snapshot("$epoch", "snapshot_not_found", "a snapshot that the leader does not have"),
        fetch_snapshot("$epoch-1", "fenced_leader_epoch", "a snapshot from the leader of an earlier epoch"),
    ),
    bad=Side(on(kafka="4.3.1"), breaks=("unexpected-response",)),
    good=Side(on(reference={})),
)

SCENARIOS = (EX_09, EX_10)
