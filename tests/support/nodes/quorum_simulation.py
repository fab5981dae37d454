"""A simulated quorum for tests of the sans-IO core: virtual time, links that can be cut, disks that survive a crash.

Deterministic: the seed fixes every network delay and every election timeout. The simulation checks invariants as it
runs: one leader per epoch, no transition outside the table, no high watermark that decreases, and equal committed
records on all nodes.
"""

from __future__ import annotations

import heapq
import itertools
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.model.quorum_states import START_STATES, State, TransitionTable
from nodes.reference.core import events
from nodes.reference.core.events import Assignment
from nodes.reference.core.messages import (
    AlterRequest,
    AlterResponse,
    Change,
    DiscoverRequest,
    ReadRequest,
    ReadResponse,
    ReassignRequest,
)
from nodes.reference.core.node import Node
from nodes.reference.core.records.control import assignments_in
from nodes.reference.core.records.snapshots import continuing
from nodes.reference.core.roles.state_machine import table_of
from nodes.reference.core.roles.states import Leader
from nodes.reference.core.settings import NodeSettings
from nodes.wire.batches import length_below

_TRANSITION = re.compile(
    r"Completed transition to (\w+?)(?:State)?\((?:.*?)epoch=(\d+).* from (?:null|(\w+?)(?:State)?\(.*?epoch=(\d+))"
)


MessageRule = Callable[[int, int, Any, bool], int | None]
"""(sender, receiver, request, is_response) → extra delay of the message in milliseconds; None drops it."""


@dataclass
class Operation:
    """A client's request and its response, if there is one yet."""

    invoked_ms: int
    request: Any
    response: Any = None
    completed_ms: int | None = None


@dataclass
class Member:
    """One node with its disk; node is None while the node is down."""

    settings: NodeSettings
    election: events.Election = field(default_factory=events.Election)
    log: bytearray = field(default_factory=bytearray)
    snapshot: events.Snapshot | None = None
    node: Node | None = None
    effects: list[str] = field(default_factory=list)  # names of the effects in order; of messages, their type
    high_watermark: int = -1
    incarnation: int = 0  # counts restarts: responses to an earlier incarnation are not delivered
    halted: str | None = None

    @property
    def is_up(self) -> bool:
        """Whether the node runs."""
        return self.node is not None


class Simulation:
    """Voters 1..size, then observers; now_ms is virtual. per_node holds switches of single nodes, by id."""

    def __init__(
        self, seed: int = 0, size: int = 3, observers: int = 0, started: Iterable[int] | None = None, **switches: Any
    ) -> None:
        self._random = random.Random(seed)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order, self._ids = itertools.count(), itertools.count(1)
        self._cuts: set[tuple[int, int]] = set()
        self._connections: dict[tuple[int, int], int] = {}
        self._pending: dict[tuple[int, int], int] = {}
        self._reply_handlers: dict[tuple[int, int], Callable[[Any], None]] = {}
        self.message_rule: MessageRule = lambda _sender, _receiver, _request, _is_response: 0
        self.now_ms = 0
        self.leaders: dict[int, set[int]] = {}  # by epoch, every node that ever led it
        self.transitions: list[tuple[int, State | None, State, int, int]] = []  # node, from, to, epoch before, after
        self.committed: list[bytes] = []
        self.violations: list[str] = []
        voters = tuple(range(1, size + 1))
        per_node = switches.pop("per_node", {})
        nodes = range(1, size + observers + 1)
        self.members = {
            node: Member(NodeSettings(node, voters, "test", **(switches | per_node.get(node, {})))) for node in nodes
        }
        for node in nodes if started is None else started:
            self.restart(node)

    def restart(self, node_id: int) -> None:
        """Start a node from the contents of its disk."""
        member = self.members[node_id]
        log = bytes(member.log)
        if member.snapshot is not None:
            log = continuing(log, member.snapshot.id)
            member.log[:] = log
        stored = events.Stored(member.election, log, member.snapshot)
        member.incarnation, member.high_watermark = member.incarnation + 1, -1
        member.node = Node(member.settings, stored, self._random.randrange, self.now_ms)
        self._handle(node_id, events.Tick())

    def crash(self, node_id: int) -> None:
        """Kill a node; durable state survives."""
        self.members[node_id].node = None

    def lose_disk(self, node_id: int) -> None:
        """Replace the disk of a node that is down by an empty one."""
        member = self.members[node_id]
        assert member.node is None, f"node {node_id} is running"
        member.election, member.log, member.snapshot = events.Election(), bytearray(), None

    def stop(self, node_id: int) -> None:
        """Shut a node down gracefully."""
        self._handle(node_id, events.Stopping())

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Drop all messages between the two nodes of each pair, in both directions."""
        self._cuts |= {pair for a, b in pairs for pair in ((a, b), (b, a))}

    def reconnect(self, *pairs: tuple[int, int]) -> None:
        """Remove the cuts between the two nodes of each pair, in both directions."""
        self._cuts -= {pair for a, b in pairs for pair in ((a, b), (b, a))}

    def cut_one_way(self, sender: int, receiver: int) -> None:
        """Drop all messages from sender to receiver."""
        self._cuts.add((sender, receiver))

    def isolate(self, node_id: int) -> None:
        """Cut a node off from all others."""
        self.cut(*((node_id, other) for other in self.members if other != node_id))

    def heal(self) -> None:
        """Remove all cuts."""
        self._cuts.clear()

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + duration_ms
        while self._run_next(end_ms):
            pass

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        """Let time pass until the condition holds; fails if it does not within the limit."""
        end_ms = self.now_ms + limit_ms
        while not condition():
            assert self._run_next(end_ms), f"not within {limit_ms} ms: {self.describe()}"

    def leader(self) -> int | None:
        """The live leader of the highest epoch, if there is one."""
        leaders = {
            m.node.state.epoch: i for i, m in self.members.items() if m.node and isinstance(m.node.state, Leader)
        }
        return leaders[max(leaders)] if leaders else None

    def elect(self) -> int:
        """Run until a leader has committed a record of its epoch, and return the leader."""
        self.run_until(self._leader_has_committed)
        leader = self.leader()
        assert leader is not None
        return leader

    def node(self, node_id: int) -> Node:
        """A live node's core."""
        node = self.members[node_id].node
        assert node is not None, f"node {node_id} is down"
        return node

    def epochs(self) -> dict[int, int]:
        """Every live node's epoch."""
        return {node_id: m.node.state.epoch for node_id, m in self.members.items() if m.node}

    def write(self, node_id: int, key: str, value: str) -> Operation:
        """A client's write; the request reaches the node without delay."""
        return self.invoke(node_id, AlterRequest((Change(key, "metrics", value),)))

    def read(self, node_id: int, key: str) -> Operation:
        """A client's read."""
        return self.invoke(node_id, ReadRequest((key,)))

    def reassign(self, node_id: int, *voters: int) -> Operation:
        """A client's request that these nodes become the voters; without nodes, that the reassignment is cancelled."""
        return self.invoke(node_id, ReassignRequest(voters or None, 5_000))

    def assignments(self, node_id: int) -> list[Assignment]:
        """The voter assignments in the log of a live node."""
        return [assignment for _, assignment in assignments_in(self.node(node_id).log.read_from(0))]

    def invoke(self, node_id: int, request: Any) -> Operation:
        """Any client's request."""
        operation = Operation(self.now_ms, request)

        def complete(response: Any) -> None:
            operation.response, operation.completed_ms = response, self.now_ms

        request_id = next(self._ids)
        self._reply_handlers[(node_id, request_id)] = complete
        self._handle(node_id, events.Arrived(-1, request_id, request))
        return operation

    def describe(self) -> str:
        """Every node's state, for messages."""
        return f"at {self.now_ms} ms: " + ", ".join(
            f"{node_id}: {type(m.node.state).__name__}({m.node.state.epoch})" if m.node else f"{node_id}: down"
            for node_id, m in self.members.items()
        )

    def _run_next(self, end_ms: int) -> bool:
        """Run the next action that is due before end_ms; returns whether there was one."""
        if not self._queue or self._queue[0][0] > end_ms:
            self.now_ms = end_ms
            return False
        self.now_ms, _, action = heapq.heappop(self._queue)
        action()
        return True

    def _leader_has_committed(self) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        node = self.node(leader)
        return isinstance(node.state, Leader) and node.log.high_watermark > node.state.start_offset

    def _schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), action))

    def _handle(self, node_id: int, event: events.Event) -> None:
        member = self.members[node_id]
        if member.node is None:
            return
        for effect in member.node.handle(event, self.now_ms):
            self._carry_out(node_id, member, effect)
            if not member.is_up:
                return
        assert member.node.deadline_ms > self.now_ms, f"node {node_id} has work left: {self.describe()}"
        self._check_high_watermark(node_id, member, member.node)
        incarnation, delay_ms = member.incarnation, max(0, member.node.deadline_ms - self.now_ms)
        if delay_ms < 10**9:
            self._schedule(delay_ms, lambda: self._tick(node_id, member, incarnation))

    def _tick(self, node_id: int, member: Member, incarnation: int) -> None:
        is_due = member.node is not None and member.node.deadline_ms <= self.now_ms
        if is_due and member.incarnation == incarnation:
            self._handle(node_id, events.Tick())

    def _carry_out(self, node_id: int, member: Member, effect: events.Effect) -> None:
        carrier = effect.request if isinstance(effect, events.Send) else effect
        member.effects.append(type(carrier).__name__)
        match effect:
            case events.PersistElection(election):
                member.election = election
            case events.AppendLog() | events.TruncateLog() | events.AdvanceLogStart() | events.RestartLog():
                member.log[:] = changed(bytes(member.log), effect)
            case events.SaveSnapshot(snapshot):
                member.snapshot = snapshot
            case events.Send(peer, request_id, request, is_after_abandoned):
                if is_after_abandoned:
                    self._connections.pop((node_id, peer), None)
                self._send(node_id, peer, request_id, request)
            case events.Discover(contact, request):
                self._discover(node_id, contact, request)
            case events.Reply(request_id, response):
                self._reply_handlers.pop((node_id, request_id), lambda _: None)(response)
            case events.Halt(failure):
                member.halted, member.node = failure or "gracefully", None
            case events.StateChange(is_completed=True):
                self._record_transition(node_id, effect.note.text)

    def _is_connected(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._cuts

    def _send(self, sender: int, receiver: int, request_id: int, request: Any) -> None:
        """One request on the link's connection; a pending request is abandoned together with its connection."""
        link = (sender, receiver)
        if link in self._pending:
            self._connections[link] = next(self._ids)
        connection = self._connections.setdefault(link, next(self._ids))
        self._pending[link] = request_id
        incarnation, served_id = self.members[sender].incarnation, next(self._ids)

        def complete(event: events.Event) -> None:
            if self._pending.get(link) == request_id:
                del self._pending[link]
                if self.members[sender].incarnation == incarnation:
                    self._handle(sender, event)

        def deliver_response(response: Any) -> None:
            if self._is_connected(receiver, sender):
                complete(events.Answered(receiver, request_id, response))

        def deliver_request() -> None:
            if self._is_connected(sender, receiver) and self.members[receiver].node is not None:
                self._reply_handlers[(receiver, served_id)] = lambda response: self._transmit(
                    self.message_rule(receiver, sender, request, True), lambda: deliver_response(response)
                )
                self._handle(receiver, events.Arrived(connection, served_id, request))

        if getattr(request, "pre_vote", False) and not self.members[receiver].settings.pre_vote:
            # The sender knows from the receiver's ApiVersions that it does not support the request.
            self._schedule(1, lambda: complete(events.Failed(receiver, request_id, unsupported_version=True)))
            return
        self._transmit(self.message_rule(sender, receiver, request, False), deliver_request)

    def _discover(self, sender: int, contact: events.Contact, request: DiscoverRequest) -> None:
        """A request to an address; that of node 2 is n2, on any port. Without a response it times out."""
        incarnation, served_id = self.members[sender].incarnation, next(self._ids)
        receiver = next((node for node in self.members if contact[0] == f"n{node}"), None)
        is_ended = False

        def complete(response: Any) -> None:
            nonlocal is_ended
            if not is_ended and self.members[sender].incarnation == incarnation:
                self._handle(sender, events.Discovered(response))
            is_ended = True

        def deliver_response(node: int, response: Any) -> None:
            if self._is_connected(node, sender):
                complete(response)

        def deliver_request(node: int) -> None:
            if self._is_connected(sender, node) and self.members[node].node is not None:
                self._reply_handlers[(node, served_id)] = lambda response: self._transmit(
                    self.message_rule(node, sender, request, True), lambda: deliver_response(node, response)
                )
                self._handle(node, events.Arrived(-1, served_id, request))

        self._schedule(self.members[sender].settings.request_timeout_ms, lambda: complete(None))
        if receiver is not None:
            self._transmit(self.message_rule(sender, receiver, request, False), lambda: deliver_request(receiver))

    def _transmit(self, extra_ms: int | None, deliver: Callable[[], None]) -> None:
        delay_ms = self._random.randint(1, 5)
        if extra_ms is not None:
            self._schedule(delay_ms + extra_ms, deliver)

    def _record_transition(self, node_id: int, text: str) -> None:
        match = _TRANSITION.match(text)
        if match is None:
            return
        target, epoch = State(match[1]), int(match[2])
        source, epoch_before = State(match[3]) if match[3] else None, int(match[4] or 0)
        self.transitions.append((node_id, source, target, epoch_before, epoch))
        table = self._table(node_id, source)
        is_legal = target in START_STATES if source is None else table.allows(source, target, epoch_before, epoch)
        if not is_legal:
            self.violations.append(f"node {node_id}: a transition outside {table.name}: {text}")
        if target is State.LEADER:
            self.leaders.setdefault(epoch, set()).add(node_id)
            if len(self.leaders[epoch]) > 1:
                self.violations.append(f"two leaders in epoch {epoch}: {sorted(self.leaders[epoch])}")

    def _table(self, node_id: int, source: State | None) -> TransitionTable:
        """A node that no longer votes ends by the voters' table what it began as a voter."""
        is_of_voter = source not in (None, State.UNATTACHED, State.FOLLOWER)
        return table_of(self.members[node_id].settings) if is_of_voter else self.node(node_id).table

    def _check_high_watermark(self, node_id: int, member: Member, node: Node) -> None:
        """It never decreases, and all nodes have the same records below it."""
        high_watermark = node.log.high_watermark
        if high_watermark < member.high_watermark:
            self.violations.append(f"node {node_id}: the high watermark decreased to {high_watermark}")
        position = max(member.high_watermark, node.log.start.end_offset)  # a snapshot covers what is before
        self.committed += [b""] * (position - len(self.committed))
        while position < high_watermark:
            batch = node.log.read(position, 1)
            while len(self.committed) <= position:
                self.committed.append(batch)
            if self.committed[position] not in (batch, b""):
                self.violations.append(f"node {node_id}: committed records differ at offset {position}")
            end = position + int.from_bytes(batch[23:27], "big") + 1
            self.committed += [b""] * (end - len(self.committed))
            position = end
        member.high_watermark = high_watermark


def value_of(operation: Operation, key: str) -> str | None:
    """The value that a read returned; None for a register never written."""
    assert isinstance(operation.response, ReadResponse)
    assert operation.response.values is not None, operation.response
    return operation.response.values[key].get("metrics")


def is_ok(operation: Operation) -> bool:
    """Whether the response is one without an error."""
    return isinstance(operation.response, AlterResponse | ReadResponse) and operation.response.error == 0


def changed(
    log: bytes, effect: events.AppendLog | events.TruncateLog | events.AdvanceLogStart | events.RestartLog
) -> bytes:
    """The log after an effect that changes it."""
    match effect:
        case events.AppendLog(data):
            return log + data
        case events.TruncateLog(end_offset):
            return log[: length_below(log, end_offset)]
        case events.AdvanceLogStart(start_offset):
            return log[length_below(log, start_offset) :]
        case events.RestartLog():
            return b""
