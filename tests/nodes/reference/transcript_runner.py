"""Plays commands on nodes of the sans-IO core and prints everything that they do.

Nothing happens by itself: time passes and messages arrive only where a command says so. A random draw is the lowest
value: an election timeout is exactly election_timeout_ms (1000), and a node looks for a leader at the first voter.

    nodes 3 observers=1 n2.election_timeout_ms=2000 mutant=NAME   voters 1 to 3, observer 4; settings of all, of one
    nodes 3 discovers=1 voter_addresses=discovered                all look for the others at n1's address (KIP-642)
    disk 1 epoch=5 leader=2 vote=3 log=1x3,5x1                    the node's disk; the log as epoch x records
    start 1 2 · crash 1 · stop 1                                  a crash keeps the disk; stop is a graceful shutdown
    deliver · deliver 1->2 · deliver Vote · deliver *->3          messages and those that follow from them, until quiet
    drop 1->2                                                     messages in flight are lost
    advance 500 · timeout 1                                       time passes; until the timer of node 1's state ends
    send 2->1 Discover n3=host:5                                  node 2 says where n3 listens, and when it started
    send 9->1 Reassign voters=4,5 · send 9->1 Reassign            a client reassigns the voters, or cancels that
    send 2->1 PreVote epoch=5 log=5:4                             a request from outside; its response is printed only
    respond 2->1 epoch=5 leader=3 rejected                        a response to node 1's latest request to node 2,
    respond 2->1 PreVote epoch=5 granted                          or to its latest pre-vote request
    unsupported 2->1 · unsupported 2->1 PreVote                   node 2 does not support node 1's request
    draws highest                                                 every draw from now on is the highest
    state 1                                                       the state, the disk and the log
    quietly COMMAND                                               prints nothing

`log=5:4` is a log that ends at offset 4 with a record of epoch 5. `timer` is in how many ms the state ends by itself.
Contains no assertions; test_transcripts compares the printed text with the files in testdata.
"""

from __future__ import annotations

import fnmatch
import itertools
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core import events, messages
from nodes.reference.core.node import Node
from nodes.reference.core.records.control import assignments_in
from nodes.reference.core.settings import NEVER_MS, NodeSettings
from nodes.wire.batches import Record, encode_batch, heads, length_below
from tests.nodes.reference.transcript_text import named, show_assignment, show_message, show_state

_MESSAGES_MAX = 200
NO_REQUEST = -1
"""The id of a DiscoverRequest, to which the core gives none."""


@dataclass
class Member:
    """A node and its disk; node is None while it is down."""

    settings: NodeSettings
    election: events.Election = field(default_factory=events.Election)
    log: bytearray = field(default_factory=bytearray)
    node: Node | None = None


@dataclass(frozen=True)
class Message:
    """A request or a response in flight; request_id is the requesting node's."""

    sender: int
    receiver: int
    request_id: int
    payload: Any

    @property
    def is_request(self) -> bool:
        """Whether it expects a response."""
        return isinstance(self.payload, messages.Request)

    @property
    def is_abandoned_by_next(self) -> bool:
        """Whether the next request to the same node replaces it; a DiscoverRequest has a connection of its own."""
        return self.is_request and self.request_id != NO_REQUEST

    @property
    def link(self) -> str:
        """E.g. `1->2`."""
        return f"{self.sender}->{self.receiver}"

    def matches(self, patterns: list[str]) -> bool:
        """Whether all patterns, of links (1->*) or of names (Vote), fit."""
        return all(fnmatch.fnmatch(self.link if "->" in each else named(self.payload), each) for each in patterns)


class Transcript:
    """The nodes, the messages in flight, and the time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._members: dict[int, Member] = {}
        self._flight: list[Message] = []
        self._sent_requests: list[Message] = []
        self._draws_highest = False
        self._served: dict[int, Message] = {}  # by the id that the serving node knows: the request
        self._connections: dict[tuple[int, int], int] = {}
        self._ids = itertools.count(1)
        self._lines: list[str] = []

    def run(self, block: str) -> str:
        """Carry out the commands, one a line, and return what they printed."""
        self._lines = []
        for line in filter(None, map(str.strip, block.splitlines())):
            verb, *words = line.split()
            getattr(self, f"_{verb}")(*words)
        return "".join(f"{line}\n" for line in self._lines) or "(nothing)\n"

    def _say(self, line: str) -> None:
        self._lines.append(line)

    def _quietly(self, verb: str, *words: str) -> None:
        before = len(self._lines)
        getattr(self, f"_{verb}")(*words)
        del self._lines[before:]

    def _nodes(self, size: str, *words: str) -> None:
        given = _values(words)
        voters = tuple(range(1, int(size) + 1))
        common = {
            key: value for key, value in given.items() if "." not in key and key not in ("observers", "discovers")
        }
        if "discovers" in given:
            named = str(given["discovers"]).split(",")
            common["bootstrap_servers"] = tuple(map(_address, map(int, named)))
        for node in range(1, int(size) + given.get("observers", 0) + 1):
            own = {key.split(".")[1]: value for key, value in given.items() if key.startswith(f"n{node}.")}
            switches = {"max_idle_interval_ms": 0, "advertised": _address(node)} | common | own
            self._members[node] = Member(NodeSettings(node, voters, "test", **switches))

    def _disk(self, node: str, *words: str) -> None:
        given, member = _values(words), self._members[int(node)]
        member.election = events.Election(given.get("epoch", 0), given.get("leader"), given.get("vote"))
        offset = 0
        for part in filter(None, str(given.get("log", "")).split(",")):
            epoch, count = map(int, part.split("x"))
            member.log += encode_batch([Record(None, b"")] * count, offset, epoch, 0)
            offset += count

    def _start(self, *nodes: str) -> None:
        for node in map(int, nodes):
            member = self._members[node]
            stored = events.Stored(member.election, bytes(member.log))
            member.node = Node(member.settings, stored, self._draw, self.now_ms)
            self._say(f"n{node} starts at {self.now_ms} ms")
            self._handle(node, events.Tick(), is_new=True)

    def _crash(self, node: str) -> None:
        self._members[int(node)].node = None
        self._flight = [each for each in self._flight if int(node) not in (each.sender, each.receiver)]

    def _stop(self, node: str) -> None:
        self._say(f"n{node} is asked to stop")
        self._handle(int(node), events.Stopping())

    def _deliver(self, *patterns: str) -> None:
        for _ in range(_MESSAGES_MAX):
            message = next((each for each in self._flight if each.matches([*patterns])), None)
            if message is None:
                return
            self._flight.remove(message)
            self._arrive(message)
        raise AssertionError(f"more than {_MESSAGES_MAX} messages; the last was {message}")

    def _drop(self, *patterns: str) -> None:
        for message in [each for each in self._flight if each.matches([*patterns])]:
            self._flight.remove(message)
            self._say(f"n{message.sender}→n{message.receiver} {show_message(message.payload)} is lost")

    def _advance(self, duration_ms: str) -> None:
        end_ms = self.now_ms + int(duration_ms)
        while due := self._next_due(end_ms):
            node, self.now_ms = due
            self._say(f"{self.now_ms} ms: n{node}")
            self._handle(node, events.Tick())
        self.now_ms = end_ms

    def _timeout(self, node: str) -> None:
        deadline_ms = self._node(int(node)).state.deadline_ms
        assert deadline_ms < NEVER_MS, f"n{node} has no timer"
        self._advance(str(deadline_ms - self.now_ms))

    def _send(self, link: str, name: str, *words: str) -> None:
        sender, receiver = map(int, link.split("->"))
        request = _request(name, sender, receiver, _values(words))
        self._say(f"n{sender}→n{receiver} {show_message(request)}")
        self._handle(receiver, events.Arrived(-sender, next(self._ids), request))

    def _respond(self, link: str, *words: str) -> None:
        sender, receiver = map(int, link.split("->"))
        asked = self._asked(receiver, sender, words)
        self._arrive(Message(sender, receiver, asked.request_id, _response(asked.payload, words)))

    def _unsupported(self, link: str, *words: str) -> None:
        sender, receiver = map(int, link.split("->"))
        asked = self._asked(receiver, sender, words)
        self._say(f"n{sender} does not support {named(asked.payload)} of n{receiver}")
        self._handle(receiver, events.Failed(sender, asked.request_id, unsupported_version=True))

    def _asked(self, requester: int, peer: int, words: tuple[str, ...]) -> Message:
        """The latest request to the peer, of the given name if there is one; it is no longer in flight."""
        names = {word for word in words if word[0].isupper()}
        asked = next(
            each
            for each in reversed(self._sent_requests)
            if (each.sender, each.receiver) == (requester, peer) and names <= {named(each.payload)}
        )
        self._flight = [each for each in self._flight if each is not asked]
        return asked

    def _draws(self, which: str) -> None:
        self._draws_highest = which == "highest"

    def _draw(self, low: int, high: int) -> int:
        return high - 1 if self._draws_highest else low

    def _state(self, *nodes: str) -> None:
        for node in map(int, nodes):
            member, core = self._members[node], self._node(node)
            stored = member.election
            self._say(f"n{node} is {show_state(core.state, self.now_ms)}")
            self._say(f"  disk: {_election(stored)}")
            self._say(f"  log={core.log.last_epoch}:{core.log.end_offset} high watermark={core.log.high_watermark}")
            if core.voters.last.offset >= 0:
                durable = "-" if stored.assignment is None else show_assignment(stored.assignment)
                self._say(f"  {show_assignment(core.voters.last.assignment)} durable: {durable}")

    def _node(self, node: int) -> Node:
        core = self._members[node].node
        assert core is not None, f"n{node} is down"
        return core

    def _next_due(self, end_ms: int) -> tuple[int, int] | None:
        due = [(m.node.deadline_ms, node) for node, m in self._members.items() if m.node is not None]
        earliest_ms, node = min(due)
        return (node, earliest_ms) if earliest_ms <= end_ms else None

    def _arrive(self, message: Message) -> None:
        self._say(f"n{message.sender}→n{message.receiver} {show_message(message.payload)}")
        member = self._members[message.receiver]
        if member.node is None:
            self._say(f"  n{message.receiver} is down")
            if isinstance(message.payload, messages.DiscoverRequest):
                self._handle(message.sender, events.Discovered(None))
        elif message.is_request:
            served_id = next(self._ids)
            self._served[served_id] = message
            connection = self._connections.get((message.sender, message.receiver), -message.sender)
            self._handle(message.receiver, events.Arrived(connection, served_id, message.payload))
        elif isinstance(message.payload, messages.DiscoverResponse):
            self._handle(message.receiver, events.Discovered(message.payload))
        else:
            self._handle(message.receiver, events.Answered(message.sender, message.request_id, message.payload))

    def _handle(self, node: int, event: events.Event, is_new: bool = False) -> None:
        core = self._node(node)
        state, watermark, lines = core.state, core.log.high_watermark, len(self._lines)
        for effect in core.handle(event, self.now_ms):
            self._carry_out(node, effect)
        if core.state != state or is_new:
            self._say(f"  n{node} is {show_state(core.state, self.now_ms)}")
        if core.log.high_watermark != watermark:
            self._say(f"  n{node} high watermark={core.log.high_watermark}")
        if len(self._lines) == lines:
            self._say(f"  n{node} does nothing")

    def _carry_out(self, node: int, effect: events.Effect) -> None:
        member = self._members[node]
        match effect:
            case events.PersistElection(election):
                member.election = election
                self._say(f"  n{node} writes {_election(election)}")
            case events.AppendLog(data):
                member.log += data
                ends = ", ".join(f"{head.leader_epoch}:{head.last_offset + 1}" for head in heads(data))
                assigned = "".join(f" {show_assignment(each)}" for _, each in assignments_in(data))
                self._say(f"  n{node} appends up to log={ends}{assigned}")
            case events.TruncateLog(end_offset):
                del member.log[length_below(bytes(member.log), end_offset) :]
                self._say(f"  n{node} truncates to {self._node(node).log.end_offset}")
            case events.Send(peer, request_id, request):
                self._sent(Message(node, peer, request_id, request))
            case events.Discover((host, _), request):
                message = Message(node, int(host.removeprefix("n")), NO_REQUEST, request)
                self._flight.append(message)
                self._say(f"  n{node} sends {host} {show_message(request)}")
            case events.Located(found, (host, _)):
                self._say(f"  n{node} finds n{found} at {host}")
            case events.Reply(request_id, response):
                self._replied(node, request_id, response)
            case events.Halt(failure):
                member.node = None
                self._say(f"  n{node} halts{f': {failure}' if failure else ''}")
            case events.StateChange(is_completed=True):
                self._say(f"  n{node} {_transition(effect.note.text)}")

    def _sent(self, message: Message) -> None:
        """A request in flight to the same node is abandoned together with its connection."""
        link = message.sender, message.receiver
        abandoned = [
            each for each in self._flight if (each.sender, each.receiver) == link and each.is_abandoned_by_next
        ]
        if link not in self._connections or abandoned:
            self._connections[link] = next(self._ids)
        self._flight = [*(each for each in self._flight if each not in abandoned), message]
        self._sent_requests.append(message)
        self._say(f"  n{message.sender} sends n{message.receiver} {show_message(message.payload)}")

    def _replied(self, node: int, request_id: int, response: messages.Response) -> None:
        request = self._served.pop(request_id, None)
        if request is not None:
            self._flight.append(Message(node, request.sender, request.request_id, response))
        self._say(f"  n{node} replies {show_message(response)}")


def _address(node: int) -> events.Contact:
    return f"n{node}", 9093


def _values(words: tuple[str, ...]) -> dict[str, Any]:
    """`a=1 b=x c` as {"a": 1, "b": "x", "c": True}."""
    pairs = (word.partition("=") for word in words)
    return {key: _value(value) if separator else True for key, separator, value in pairs}


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def _election(stored: events.Election) -> str:
    leader, vote = ("-" if each is None else each for each in (stored.leader_id, stored.voted_id))
    return f"epoch={stored.epoch} leader={leader} vote={vote}"


def _transition(text: str) -> str:
    """`starts as X` or `X → Y` from the log line of a transition."""
    target, source = text.removeprefix("Completed transition to ").rsplit(" from ", 1)
    after, before = (each.partition("(")[0].removesuffix("State") for each in (target, source))
    return f"starts as {after}" if before == "null" else f"{before} → {after}"


def _request(name: str, sender: int, receiver: int, given: dict[str, Any]) -> messages.Request:
    epoch, last_epoch, end_offset = given.get("epoch", 0), *map(int, given.get("log", "0:0").split(":"))
    match name:
        case "Vote" | "PreVote":
            return messages.VoteRequest("test", receiver, sender, epoch, last_epoch, end_offset, name == "PreVote")
        case "BeginQuorumEpoch":
            return messages.BeginQuorumEpochRequest("test", given.get("leader", sender), epoch)
        case "EndQuorumEpoch":
            successors = tuple(map(int, str(given["successors"]).split(",")))
            return messages.EndQuorumEpochRequest("test", given.get("leader", sender), epoch, successors)
        case "Fetch":
            return messages.FetchRequest("test", sender, epoch, end_offset, last_epoch, 500, 1_000_000)
        case "DescribeQuorum":
            return messages.DescribeQuorumRequest()
        case "Discover":
            told = [(key, str(value).split(":")) for key, value in given.items() if key.startswith("n")]
            known = tuple(messages.Advertised(int(key[1:]), host, 9093, int(boot_ms)) for key, (host, boot_ms) in told)
            return messages.DiscoverRequest("test", known, messages.NO_NODE, epoch)
        case "Nominate":
            return messages.NominateRequest("test", sender, epoch)
        case "Reassign":
            voters = given.get("voters")
            ids = None if voters is None else tuple(map(int, str(voters).split(",")))
            return messages.ReassignRequest(ids, given.get("within", 5000))
    raise AssertionError(f"{name}: expected the name of a request")


def _response(request: messages.Request, words: tuple[str, ...]) -> messages.Response:
    given = _values(words)
    error = ErrorCode[given.get("error", "none")]
    leader, epoch = given.get("leader", messages.NO_NODE), given["epoch"]
    match request:
        case messages.VoteRequest():
            return messages.VoteResponse(error, leader, epoch, given.get("granted", False))
        case messages.FetchRequest():
            return messages.FetchResponse(error, leader, epoch, given.get("hw", -1))
    return messages.EpochResponse(error, leader, epoch)
