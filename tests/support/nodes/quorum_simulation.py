"""A simulated quorum for tests of the sans-IO core: virtual time, links that can be cut, disks that survive a crash.

Deterministic: one seed fixes every delay and every election timeout. It checks as it goes what no run may violate: one
leader an epoch, no step outside the transition table, no high watermark that falls, no committed record that differs.
"""

from __future__ import annotations

import heapq
import itertools
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.model.quorum_states import START_STATES, State
from nodes.reference.core import events
from nodes.reference.core.messages import AlterRequest, AlterResponse, Change, ReadRequest, ReadResponse
from nodes.reference.core.node import Node
from nodes.reference.core.roles.states import Leader
from nodes.reference.core.settings import NodeSettings

_STEP = re.compile(
    r"Completed transition to (\w+?)(?:State)?\((?:.*?)epoch=(\d+).* from (?:null|(\w+?)(?:State)?\(.*?epoch=(\d+))"
)


Treat = Callable[[int, int, Any, bool], int | None]
"""(sender, receiver, request, is_response) → how many milliseconds later that message comes; None loses it."""


@dataclass
class Ticket:
    """One client request and, once it came, its response."""

    asked_ms: int
    request: Any
    response: Any = None
    answered_ms: int | None = None


@dataclass
class Member:
    """One node with its disk; node is None while it is down."""

    settings: NodeSettings
    election: events.Election = field(default_factory=events.Election)
    log: bytearray = field(default_factory=bytearray)
    node: Node | None = None
    trace: list[str] = field(default_factory=list)  # what it did, in order, for tests of order
    high_watermark: int = -1
    life: int = 0  # counts restarts: what belongs to an earlier life is not delivered
    halted: str | None = None


class Simulation:
    """Voters 1..size, then observers; now_ms is virtual. of_node gives switches of single nodes, by id."""

    def __init__(
        self, seed: int = 0, size: int = 3, observers: int = 0, start: Iterable[int] | None = None, **switches: Any
    ) -> None:
        self._random = random.Random(seed)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order, self._ids = itertools.count(), itertools.count(1)
        self._cuts: set[tuple[int, int]] = set()
        self._connections: dict[tuple[int, int], int] = {}
        self._under_way: dict[tuple[int, int], int] = {}
        self._replies: dict[tuple[int, int], Callable[[Any], None]] = {}
        self.treat: Treat = lambda _sender, _receiver, _request, _is_response: 0
        self.now_ms = 0
        self.leaders: dict[int, set[int]] = {}  # by epoch, who ever led it
        self.steps: list[tuple[int, State | None, State, int, int]] = []  # node, from, to, epoch before and after
        self.committed: list[bytes] = []
        self.violations: list[str] = []
        voters = tuple(range(1, size + 1))
        own = switches.pop("of_node", {})
        everyone = range(1, size + observers + 1)
        self.members = {
            node: Member(NodeSettings(node, voters, "test", **(switches | own.get(node, {})))) for node in everyone
        }
        for node in everyone if start is None else start:
            self.restart(node)

    def restart(self, node_id: int) -> None:
        """Start a node from what its disk holds."""
        member = self.members[node_id]
        stored = events.Stored(member.election, bytes(member.log))
        member.life, member.high_watermark = member.life + 1, -1
        member.node = Node(member.settings, stored, self._random.randrange, self.now_ms)
        self._hand(node_id, events.Tick())

    def crash(self, node_id: int) -> None:
        """Kill a node; what was durable stays."""
        self.members[node_id].node = None

    def lose_disk(self, node_id: int) -> None:
        """Put a new disk into a node that is down."""
        member = self.members[node_id]
        assert member.node is None, f"node {node_id} runs"
        member.election, member.log = events.Election(), bytearray()

    def stop(self, node_id: int) -> None:
        """Ask a node to end gracefully."""
        self._hand(node_id, events.Stopping())

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Drop everything between the two of each pair, both ways."""
        self._cuts |= {pair for a, b in pairs for pair in ((a, b), (b, a))}

    def cut_one_way(self, sender: int, receiver: int) -> None:
        """Drop what one sends to the other."""
        self._cuts.add((sender, receiver))

    def isolate(self, node_id: int) -> None:
        """Cut a node off from all others."""
        self.cut(*((node_id, other) for other in self.members if other != node_id))

    def heal(self) -> None:
        """Let everything through again."""
        self._cuts.clear()

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        self.run_until(lambda: False, duration_ms, expected=False)

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000, expected: bool = True) -> None:
        """Let time pass until the condition holds; it must within the limit."""
        end_ms = self.now_ms + limit_ms
        while not condition():
            if not self._queue or self._queue[0][0] > end_ms:
                self.now_ms = end_ms
                assert not expected, f"not within {limit_ms} ms: {self.describe()}"
                return
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()

    def leader(self) -> int | None:
        """The live leader of the highest epoch, if there is one."""
        leading = {
            m.node.state.epoch: i for i, m in self.members.items() if m.node and isinstance(m.node.state, Leader)
        }
        return leading[max(leading)] if leading else None

    def elect(self) -> int:
        """Run until a leader has committed a record of its epoch, and say who."""
        self.run_until(lambda: self.leader() is not None and self._commits(self.leader()))
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

    def write(self, node_id: int, key: str, value: str) -> Ticket:
        """A client's write, at a node it reaches at once."""
        return self.ask(node_id, AlterRequest((Change(key, "metrics", value),)))

    def read(self, node_id: int, key: str) -> Ticket:
        """A client's read."""
        return self.ask(node_id, ReadRequest((key,)))

    def ask(self, node_id: int, request: Any) -> Ticket:
        """Any client's request."""
        ticket = Ticket(self.now_ms, request)

        def answer(response: Any) -> None:
            ticket.response, ticket.answered_ms = response, self.now_ms

        request_id = next(self._ids)
        self._replies[(node_id, request_id)] = answer
        self._hand(node_id, events.Arrived(-1, request_id, request))
        return ticket

    def describe(self) -> str:
        """Every node's state, for messages."""
        return f"at {self.now_ms} ms: " + ", ".join(
            f"{node_id}: {type(m.node.state).__name__}({m.node.state.epoch})" if m.node else f"{node_id}: down"
            for node_id, m in self.members.items()
        )

    def _commits(self, node_id: int | None) -> bool:
        member = self.members[node_id or 0]
        state = member.node.state if member.node else None
        return isinstance(state, Leader) and member.node.log.high_watermark > state.start_offset

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), action))

    def _hand(self, node_id: int, event: Any) -> None:
        member = self.members[node_id]
        if member.node is None:
            return
        for effect in member.node.handle(event, self.now_ms):
            self._carry_out(node_id, member, effect)
            if member.node is None:
                return
        assert member.node.deadline_ms > self.now_ms, f"node {node_id} is busy for ever: {self.describe()}"
        self._watch(node_id, member)
        life, delay_ms = member.life, max(0, member.node.deadline_ms - self.now_ms)
        if delay_ms < 10**9:
            self._later(
                delay_ms,
                lambda: self._hand(node_id, events.Tick()) if member.life == life and self._due(member) else None,
            )

    def _due(self, member: Member) -> bool:
        return member.node is not None and member.node.deadline_ms <= self.now_ms

    def _carry_out(self, node_id: int, member: Member, effect: Any) -> None:
        member.trace.append(type(effect).__name__ if not hasattr(effect, "request") else type(effect.request).__name__)
        match effect:
            case events.PersistElection(election):
                member.election = election
            case events.AppendLog(data):
                member.log += data
            case events.TruncateLog(end_bytes):
                del member.log[end_bytes:]
            case events.Send(peer, request_id, request):
                self._send(node_id, peer, request_id, request)
            case events.Reply(request_id, response):
                self._replies.pop((node_id, request_id), lambda _: None)(response)
            case events.Halt(failure):
                member.halted, member.node = failure or "gracefully", None
            case events.Note(text):
                self._note(node_id, member, text)

    def _delivers(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._cuts

    def _send(self, sender: int, receiver: int, request_id: int, request: Any) -> None:
        """One request on the link's connection; a request still under way is given up with its connection."""
        link = (sender, receiver)
        if link in self._under_way:
            self._connections[link] = next(self._ids)
        connection = self._connections.setdefault(link, next(self._ids))
        self._under_way[link] = request_id
        life, served_id = self.members[sender].life, next(self._ids)

        def come_back(response: Any) -> None:
            if self._delivers(receiver, sender) and self._under_way.get(link) == request_id:
                del self._under_way[link]
                if self.members[sender].life == life:
                    self._hand(sender, events.Answered(receiver, request_id, response))

        def refuse() -> None:
            if self._under_way.get(link) == request_id and self.members[sender].life == life:
                del self._under_way[link]
                self._hand(sender, events.Failed(receiver, request_id, unsupported_version=True))

        if getattr(request, "pre_vote", False) and not self.members[receiver].settings.pre_vote:
            self._later(1, refuse)  # as the sender's ApiVersions tell it
            return

        def arrive() -> None:
            if self._delivers(sender, receiver) and self.members[receiver].node is not None:
                self._replies[(receiver, served_id)] = lambda response: self._travel(
                    self.treat(receiver, sender, request, True), lambda: come_back(response)
                )
                self._hand(receiver, events.Arrived(connection, served_id, request))

        self._travel(self.treat(sender, receiver, request, False), arrive)

    def _travel(self, extra_ms: int | None, arrive: Callable[[], None]) -> None:
        delay_ms = self._random.randint(1, 5)
        if extra_ms is not None:
            self._later(delay_ms + extra_ms, arrive)

    def _note(self, node_id: int, member: Member, text: str) -> None:
        step = _STEP.match(text)
        if step is None:
            return
        after, epoch, before, epoch_before = State(step[1]), int(step[2]), step[3] and State(step[3]), int(step[4] or 0)
        self.steps.append((node_id, before, after, epoch_before, epoch))
        table = member.node.table
        legal = after in START_STATES if before is None else table.allows(before, after, epoch_before, epoch)
        if not legal:
            self.violations.append(f"node {node_id}: a step outside {table.name}: {text}")
        if after is State.LEADER:
            self.leaders.setdefault(epoch, set()).add(node_id)
            if len(self.leaders[epoch]) > 1:
                self.violations.append(f"two leaders in epoch {epoch}: {sorted(self.leaders[epoch])}")

    def _watch(self, node_id: int, member: Member) -> None:
        """What must hold after each event of a node."""
        assert member.node is not None
        log = member.node.log
        if log.high_watermark < member.high_watermark:
            self.violations.append(f"node {node_id}: the high watermark fell to {log.high_watermark}")
        if log.high_watermark > max(member.high_watermark, 0):
            self._compare_committed(node_id, member)
        member.high_watermark = log.high_watermark

    def _compare_committed(self, node_id: int, member: Member) -> None:
        log = member.node.log
        position = max(member.high_watermark, 0)
        while position < log.high_watermark:
            batch = log.read(position, 1)
            while len(self.committed) <= position:
                self.committed.append(batch)
            if self.committed[position] not in (batch, b""):
                self.violations.append(f"node {node_id}: committed records differ at offset {position}")
            end = position + int.from_bytes(batch[23:27], "big") + 1
            self.committed += [b""] * (end - len(self.committed))
            position = end


def value_of(ticket: Ticket, key: str) -> str | None:
    """What a read returned; None for a register never written."""
    assert isinstance(ticket.response, ReadResponse)
    assert ticket.response.values is not None, ticket.response
    return ticket.response.values[key].get("metrics")


def is_ok(ticket: Ticket) -> bool:
    """Whether the request was answered without an error."""
    return isinstance(ticket.response, AlterResponse | ReadResponse) and ticket.response.error == 0
