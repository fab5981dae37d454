"""Parses the log lines of Kafka's Raft client, of every release from 3.3 on, and of the reference quorum.

Pure functions. The format of states depends on the release (`leaderId=3`, `leader=3`, `leaderId=OptionalInt[3]`;
`votedId=3`, `votedKey=ReplicaKey(id=3, …)`, `votedKey=Optional[ReplicaKey(id=3, …)]`); a field that a line does not
have is None.

    parse_line("[…] INFO [RaftManager id=1] Completed transition to FollowerState(…epoch=2, leaderId=3…) from …")

Two kinds of brokers' lines are parsed too: a controller's election where ZooKeeper elects it, and what a fetcher of a
user's partition reports, its truncations and the record that it cannot append.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from harness.model.quorum_states import State
from harness.model.records.observation import Kind

_LINE = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [A-Z]+ \[[A-Za-z]+ (?:id|nodeId)=\d+\] (.*)$")
_FETCHER_LINE = re.compile(
    r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [A-Z]+ \[ReplicaFetcher replicaId=\d+, leaderId=\d+[^]]*\] (.*)$"
)
_TRANSITION = re.compile(r"^Completed transition to (?P<target>.*) from (?P<source>null|[A-Z][A-Za-z]*\(.*)$")
_STATE = re.compile(r"^([A-Z][a-z]+)(?:State)?\(")
_EPOCH = re.compile(r"\bepoch=(\d+)")
_LEADER = re.compile(r"\bleader(?:Id)?=(?:OptionalInt\[)?(\d+)")
_VOTED = re.compile(r"\bvoted(?:Id=|Key=(?:Optional\[)?ReplicaKey\(id=)(\d+)")
_LOCAL = re.compile(r"\blocal\w*=(?:\w+\(\w+=)*(\d+)")
_HIGH_WATERMARK = re.compile(r"\bhighWatermark=Optional\[LogOffsetMetadata\(offset=(\d+)")
_CONTROLLER_ELECTED = re.compile(r"^(\d+) successfully elected as the controller\. Epoch incremented to (\d+) ")
_FETCH_FAILED = re.compile(
    r"^Unexpected error occurred while processing data for partition (\S+)-(\d+) at offset (\d+)"
)
_STATES = {state.value: state for state in State}
_LOGGER = re.compile(r" \([a-z][\w.]*\.[A-Z]\w*\)$")

TRANSITION = "Completed transition to "
"""The beginning of a line that reports a transition."""

NOTES = (
    "Transitioning to Prospective state due to fetch timeout",
    "Did not receive fetch request from the majority",
    "Vote request",
    "Truncated to offset",
    "High watermark set to",
    "Prospective received unsupported version error",
    "Insufficient remaining votes",
    "Election was not granted",
    "Received endQuorumEpoch",
    "Encountered fatal fault",
)
"""The beginnings of lines that are kept as notes."""

FETCHER_NOTES = re.compile(
    r"^(Truncating partition (?!__)|Leader or replica is on protocol version .* in (?!__)"
    r"|Partition (?!__)\S+ marked as failed)"
)
"""The beginnings of a fetcher's lines that are kept as notes, of users' partitions only."""

FETCH_FAILED: Final = "fetch-failed"

VOTED_UNTIL_3_8 = "Voted"
"""The name, up to 3.8, of an Unattached state with a vote."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """The event in a log line; wall_ns is the line's timestamp in nanoseconds since the Unix epoch (UTC)."""

    wall_ns: int
    kind: Kind
    state: str | None = None
    previous: str | None = None
    epoch: int | None = None
    leader: int | None = None
    voted: int | None = None
    high_watermark: int | None = None
    detail: str | None = None


def parse_line(line: str) -> LogEvent | None:
    """The event in a line; None for a line that is not relevant."""
    fetcher = _FETCHER_LINE.match(line)
    if fetcher:
        return _of_fetcher(_wall_ns(fetcher.group(1)), _LOGGER.sub("", fetcher.group(2)))
    match = _LINE.match(line)
    if not match:
        return None
    return parse_text(_wall_ns(match.group(1)), _LOGGER.sub("", match.group(2)))


def parse_text(wall_ns: int, text: str) -> LogEvent | None:
    """The event in the text of a line, without its time stamp and logger; None if it is not relevant."""
    if text.startswith(TRANSITION):
        transition = _TRANSITION.match(text)
        return _transition(wall_ns, transition.group("target"), transition.group("source")) if transition else None
    if text.startswith(NOTES):
        return LogEvent(wall_ns, "note", detail=text[:500])
    elected = _CONTROLLER_ELECTED.match(text)
    if elected:
        leader, epoch = map(int, elected.groups())
        return LogEvent(wall_ns, "note", epoch=epoch, leader=leader, detail=text[:500])
    return None


def _of_fetcher(wall_ns: int, text: str) -> LogEvent | None:
    """A fetcher's event: what it could not append, or a note."""
    failed = _FETCH_FAILED.match(text)
    if failed and not failed.group(1).startswith("__"):
        where = {"topic": failed.group(1), "partition": int(failed.group(2)), "offset": int(failed.group(3))}
        return LogEvent(wall_ns, FETCH_FAILED, detail=json.dumps(where))
    return LogEvent(wall_ns, "note", detail=text[:500]) if FETCHER_NOTES.match(text) else None


def _transition(wall_ns: int, target: str, source: str) -> LogEvent | None:
    state = _state(target)
    if state is None:
        return None
    local = _number(_LOCAL, target)
    return LogEvent(
        wall_ns,
        "transition",
        state.value,
        previous.value if (previous := _state(source)) else None,
        _number(_EPOCH, target),
        local if state in (State.LEADER, State.RESIGNED) else _number(_LEADER, target),
        local if state is State.CANDIDATE else _number(_VOTED, target),
        _number(_HIGH_WATERMARK, target),
    )


def _state(text: str) -> State | None:
    match = _STATE.match(text)
    name = match.group(1) if match else ""
    if name == VOTED_UNTIL_3_8:
        return State.UNATTACHED
    return _STATES.get(name)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match.group(1)) if match else None


def _wall_ns(stamp: str) -> int:
    time = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return int(time.timestamp() * 1000) * 1_000_000
