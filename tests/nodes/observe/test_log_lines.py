"""Log lines of Kafka 3.6.2, 3.9.1 and 4.3.1, and their events."""

from __future__ import annotations

import pytest

from nodes.observe.log_lines import LogEvent, parse_line

NODE_3 = "ReplicaKey(id=3, directoryId=LF5WtW3YqBctg9Jow_mqnw)"
HW_14 = "highWatermark=Optional[LogOffsetMetadata(offset=14, metadata=Optional.empty)]"
ENDPOINTS = "leaderEndpoints=Endpoints(endpoints={ListenerName(CONTROLLER)=10.77.0.3/<unresolved>:9093})"

START_3_6 = "Unattached(epoch=0, voters=[1, 2, 3], electionTimeoutMs=1745)"
VOTED_3_6 = "Voted(epoch=1, votedId=3, voters=[1, 2, 3], electionTimeoutMs=1871)"
FOLLOWER_3_6 = (
    "FollowerState(fetchTimeoutMs=2000, epoch=1, leaderId=3, voters=[1, 2, 3], highWatermark=Optional.empty, "
    "fetchingSnapshot=Optional.empty)"
)
CANDIDATE_3_6 = (
    "CandidateState(localId=1, epoch=2, retries=1, voteStates={1=GRANTED, 2=UNRECORDED, 3=UNRECORDED}, "
    f"{HW_14}, electionTimeoutMs=1741)"
)
LEADER_3_6 = (
    "Leader(localId=3, epoch=1, epochStartOffset=0, highWatermark=Optional.empty, voterStates={1=ReplicaState("
    "nodeId=1, endOffset=Optional.empty, lastFetchTimestamp=-1, lastCaughtUpTimestamp=-1, "
    "hasAcknowledgedLeader=false)})"
)
UNATTACHED_3_9 = (
    "Unattached(epoch=1, votedKey=null, voters=[1, 2, 3], electionTimeoutMs=63, highWatermark=Optional.empty)"
)
VOTED_3_9 = (
    "Unattached(epoch=1, votedKey=ReplicaKey(id=3, directoryId=Optional[969KPymwRjeZQX7pZcEOGg]), voters=[1, 2, 3], "
    "electionTimeoutMs=1543, highWatermark=Optional.empty)"
)
CANDIDATE_3_9 = (
    "CandidateState(localId=1, localDirectoryId=nZmeHYNkEc75TmbPjWCwyw,epoch=2, retries=1, "
    f"voteStates={{1=org.apache.kafka.raft.CandidateState$VoterState@2975c0b6}}, {HW_14}, electionTimeoutMs=1275)"
)
LEADER_3_9 = (
    "Leader(localReplicaKey=ReplicaKey(id=3, directoryId=Optional[969KPymwRjeZQX7pZcEOGg]), epoch=1, "
    "epochStartOffset=0, highWatermark=Optional.empty, voterStates={1=ReplicaState(replicaKey=ReplicaKey(id=1, "
    "directoryId=Optional.empty))})"
)
UNATTACHED_4 = (
    "UnattachedState(epoch=1, leaderId=OptionalInt.empty, votedKey=Optional.empty, voters=[1, 2, 3], "
    "electionTimeoutMs=1170, highWatermark=Optional.empty)"
)
VOTED_4 = (
    f"UnattachedState(epoch=1, leaderId=OptionalInt.empty, votedKey=Optional[{NODE_3}], voters=[1, 2, 3], "
    "electionTimeoutMs=1606, highWatermark=Optional.empty)"
)
FOLLOWER_4 = (
    f"FollowerState(fetchTimeoutMs=2000, epoch=1, leader=3, {ENDPOINTS}, votedKey=Optional[{NODE_3}], "
    f"voters=[1, 2, 3], {HW_14}, fetchingSnapshot=Optional.empty)"
)
PROSPECTIVE_4 = (
    f"ProspectiveState(epoch=1, leaderId=OptionalInt[3], votedKey=Optional[{NODE_3}], "
    "epochElection=EpochElection[voterStates={1=VoterState(replicaKey=ReplicaKey(id=1, directoryId=<undefined>), "
    f"state=GRANTED)}}], electionTimeoutMs=1840, {HW_14})"
)
LEADER_4 = (
    "Leader(localVoterNode=VoterNode(voterKey=ReplicaKey(id=1, directoryId=z29lgWqaFnCzboD3P0tcOA), "
    "listeners=Endpoints(endpoints={ListenerName(CONTROLLER)=10.77.0.1/<unresolved>:9093}), "
    "supportedKRaftVersion=SupportedVersionRange[min_version:0, max_version:1]), epoch=1, epochStartOffset=0, "
    "highWatermark=Optional.empty, voterStates={2=ReplicaState(replicaKey=ReplicaKey(id=2, directoryId=<undefined>))})"
)

TRANSITIONS = {
    # name: target, source, then state, previous, epoch, leader, voted, high watermark
    "3.6 starts": (START_3_6, "null", "Unattached", None, 0, None, None, None),
    "3.6 votes": (VOTED_3_6, START_3_6, "Unattached", "Unattached", 1, None, 3, None),
    "3.6 follows": (FOLLOWER_3_6, VOTED_3_6, "Follower", "Unattached", 1, 3, None, None),
    "3.6 starts an election": (CANDIDATE_3_6, FOLLOWER_3_6, "Candidate", "Follower", 2, None, 1, 14),
    "3.6 leads": (LEADER_3_6, CANDIDATE_3_6, "Leader", "Candidate", 1, 3, None, None),
    "3.9 becomes unattached": (UNATTACHED_3_9, CANDIDATE_3_9, "Unattached", "Candidate", 1, None, None, None),
    "3.9 votes": (VOTED_3_9, UNATTACHED_3_9, "Unattached", "Unattached", 1, None, 3, None),
    "3.9 starts an election": (CANDIDATE_3_9, FOLLOWER_3_6, "Candidate", "Follower", 2, None, 1, 14),
    "3.9 leads": (LEADER_3_9, CANDIDATE_3_9, "Leader", "Candidate", 1, 3, None, None),
    "4 votes": (VOTED_4, UNATTACHED_4, "Unattached", "Unattached", 1, None, 3, None),
    "4 follows": (FOLLOWER_4, VOTED_4, "Follower", "Unattached", 1, 3, 3, 14),
    "4 becomes prospective": (PROSPECTIVE_4, FOLLOWER_4, "Prospective", "Follower", 1, 3, 3, 14),
    "4 follows again": (FOLLOWER_4, PROSPECTIVE_4, "Follower", "Prospective", 1, 3, 3, 14),
    "4 leads": (LEADER_4, PROSPECTIVE_4, "Leader", "Prospective", 1, 1, None, None),
}


def logged(text: str, logger: str = "org.apache.kafka.raft.QuorumState", level: str = "INFO") -> str:
    return f"[2026-11-21 05:38:29,157] {level} [RaftManager id=1] {text} ({logger})"


@pytest.mark.parametrize(
    ("target", "source", "state", "previous", "epoch", "leader", "voted", "high_watermark"),
    TRANSITIONS.values(),
    ids=TRANSITIONS,
)
def test_transition_is_parsed_in_the_format_of_each_release(
    target, source, state, previous, epoch, leader, voted, high_watermark
):
    event = parse_line(logged(f"Completed transition to {target} from {source}"))
    assert event is not None
    assert (event.kind, event.state, event.previous) == ("transition", state, previous)
    assert (event.epoch, event.leader, event.voted, event.high_watermark) == (epoch, leader, voted, high_watermark)


def test_timestamp_of_a_line_is_utc_with_milliseconds():
    event = parse_line(logged(f"Completed transition to {START_3_6} from null"))
    assert event is not None
    assert event.wall_ns == 1_795_239_509_157_000_000


NOTES = (
    "Transitioning to Prospective state due to fetch timeout",
    "Insufficient remaining votes to become leader (rejected by [2, 3]). We will backoff before retrying",
    "High watermark set to Optional[LogOffsetMetadata(offset=1, metadata=Optional.empty)] for the first time",
    "Vote request VoteRequestData(clusterId='9QAAAAAAAAAAAAAAAAAAAA', topics=[]) with epoch 1 is granted",
)


@pytest.mark.parametrize("text", NOTES, ids=lambda text: text[:24])
def test_lines_about_elections_are_kept_as_notes_without_their_logger(text):
    event = parse_line(logged(text, "org.apache.kafka.raft.KafkaRaftClient"))
    assert event == LogEvent(1_795_239_509_157_000_000, "note", detail=text)


IRRELEVANT_LINES = {
    "an attempt": logged(f"Attempting durable transition to {LEADER_4} from {PROSPECTIVE_4}"),
    "an unknown state": logged("Completed transition to Retired(epoch=4) from null"),
    "another component": "[2026-11-21 05:38:29,157] INFO Starting controller (kafka.server.ControllerServer)",
    "a stack trace": "\tat org.apache.kafka.raft.KafkaRaftClient.poll(KafkaRaftClient.java:3400)",
    "half a line": "[2026-11-21 05:38:29,157] INFO [RaftManager id=1] Completed transition to Follo",
    "an empty line": "",
}


@pytest.mark.parametrize("line", IRRELEVANT_LINES.values(), ids=IRRELEVANT_LINES)
def test_other_lines_have_no_event(line):
    assert parse_line(line) is None


FETCHER = "[ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0]"
CLASS = "(kafka.server.ReplicaFetcherThread)"
ELECTED = "3 successfully elected as the controller. Epoch incremented to 7 and epoch zk version is now 7"
BROKER_LINES = {
    "a controller's election": (
        f"INFO [Controller id=3] {ELECTED} (kafka.controller.KafkaController)",
        ("note", 7, 3, ELECTED),
    ),
    "a record that cannot be appended": (
        f"ERROR {FETCHER} Unexpected error occurred while processing data for partition t-0 at offset 16 {CLASS}",
        ("fetch-failed", None, None, '{"topic": "t", "partition": 0, "offset": 16}'),
    ),
    "a truncation": (
        f"INFO {FETCHER} Truncating partition a-b-1 with TruncationState(offset=1, completed=true) due to … {CLASS}",
        ("note", None, None, "Truncating partition a-b-1 with TruncationState(offset=1, completed=true) due to …"),
    ),
    "the rule of KIP-101": (
        f"WARN {FETCHER} Leader or replica is on protocol version where leader epoch is not considered in the "
        f"OffsetsForLeaderEpoch response. The leader's offset 21 will be used for truncation in t-0. {CLASS}",
        ("note", None, None, "Leader or replica is on protocol version where leader epoch is not considered in the "
         "OffsetsForLeaderEpoch response. The leader's offset 21 will be used for truncation in t-0."),
    ),
    "a fetcher that has stopped": (
        f"WARN {FETCHER} Partition t-0 marked as failed {CLASS}",
        ("note", None, None, "Partition t-0 marked as failed"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "event"), BROKER_LINES.values(), ids=BROKER_LINES)
def test_lines_of_brokers_are_events(line: str, event: tuple) -> None:
    parsed = parse_line(f"[2026-11-22 08:36:02,351] {line}")
    assert parsed is not None
    assert (parsed.kind, parsed.epoch, parsed.leader, parsed.detail) == event
    assert parsed.wall_ns == 1_795_336_562_351_000_000


@pytest.mark.parametrize(
    "text",
    [
        "INFO {} Truncating partition __consumer_offsets-3 with TruncationState(offset=0, completed=true) due to …",
        "ERROR {} Unexpected error occurred while processing data for partition __consumer_offsets-3 at offset 5",
        "WARN {} Partition __consumer_offsets-3 marked as failed",
        "INFO {} Starting",
    ],
)
def test_lines_about_internal_topics_are_no_events(text: str) -> None:
    assert parse_line(f"[2026-11-22 08:36:02,351] {text.format(FETCHER)} {CLASS}") is None
