"""Brokers with one partition, in virtual time: their logs in memory, messages in flight, and a scripted controller.

    simulation = PartitionSimulation(3, truncation="on-fetch")
    simulation.start(1), simulation.start(2)
    simulation.elect(1, isr=(1, 2))           # the metadata has a new leader; brokers learn it by `inform`
    simulation.inform(1), simulation.inform(2)
    simulation.deliver(simulation.flight[0])  # nothing arrives by itself

Contains no assertions about the protocol, and no choices: callers say what is delivered, lost or killed, and when.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions import events, messages
from nodes.reference.core.partitions.broker import Broker
from nodes.reference.core.partitions.log import ReplicaLog
from nodes.reference.core.partitions.memory_log import MemoryLog
from nodes.reference.core.partitions.messages import NO_NODE, Assignment, IsrProposal, IsrResult, TopicPartition
from nodes.reference.core.partitions.settings import PartitionSettings

PARTITION = TopicPartition("t", 0)
CLIENT = 0
"""The sender of clients' requests."""

Watch = Callable[[int, events.Effect], None]


@dataclass
class Member:
    """A broker and its disk; broker is None while it is down."""

    settings: PartitionSettings
    log: MemoryLog = field(default_factory=MemoryLog)
    stored_high_watermark: int = 0
    broker: Broker | None = None
    incarnation: int = 0  # its broker epoch


@dataclass(frozen=True)
class _Logs:
    """A member's disk, as its broker sees it."""

    member: Member

    def open(self, _partition: TopicPartition) -> ReplicaLog:
        """The log."""
        return self.member.log

    def stored_high_watermark(self, _partition: TopicPartition) -> int:
        """The stored high watermark."""
        return self.member.stored_high_watermark


@dataclass(frozen=True, eq=False)
class Message:
    """A request or a response in flight; request_id is the sender's, or the asking one's for a response."""

    sender: int
    receiver: int
    request_id: int
    payload: Any
    is_request: bool


@dataclass(eq=False)
class Call:
    """A client's request and its response; None while there is none."""

    node: int
    request: messages.Request
    response: Any = None


class PartitionSimulation:
    """The brokers 1 to n, each a replica of one partition; the first leader epoch comes with the first election.

    switches are PartitionSettings of all brokers, the topic's min_isr, and per_node: switches of single brokers.
    """

    def __init__(self, brokers: int, watch: Watch = lambda _node, _effect: None, **switches: Any) -> None:
        self.now_ms = 0
        self.min_isr, per_node = switches.pop("min_isr", 1), switches.pop("per_node", {})
        nodes = tuple(range(1, brokers + 1))
        self.members = {node: Member(PartitionSettings(node, **(switches | per_node.get(node, {})))) for node in nodes}
        self.metadata = Assignment(PARTITION, NO_NODE, -1, nodes, nodes, 0, min_isr=self.min_isr)
        self.flight: list[Message] = []
        self.proposals: list[tuple[int, int, messages.IsrRequest]] = []  # sender, request id, request
        self._watch = watch
        self._ids = itertools.count(1)
        self._served: dict[int, Message | Call] = {}

    def broker(self, node: int) -> Broker:
        """A broker that is up."""
        broker = self.members[node].broker
        assert broker is not None, f"n{node} is down"
        return broker

    @property
    def up(self) -> list[int]:
        """The brokers that are up."""
        return [node for node, member in self.members.items() if member.broker is not None]

    def high_watermark(self, node: int) -> int:
        """A broker's high watermark; what is stored while it is down or does not know the partition."""
        member = self.members[node]
        replica = member.broker.replicas.get(PARTITION) if member.broker else None
        return replica.high_watermark if replica else member.stored_high_watermark

    def start(self, node: int) -> None:
        """A broker starts with what is on its disk, and registers."""
        member = self.members[node]
        member.incarnation += 1
        member.broker = Broker(member.settings, _Logs(member), self.now_ms)
        self.handle(node, events.Registered(member.incarnation))

    def crash(self, node: int, loses_tail: bool = False) -> None:
        """A broker is killed; its disk stays, or loses what was not flushed."""
        member = self.members[node]
        member.broker = None
        if loses_tail:
            member.log.crash()
        self.proposals = [each for each in self.proposals if each[0] != node]
        self._close_connections(node)

    def _close_connections(self, node: int) -> None:
        """What others asked this broker fails, and what it asked is forgotten."""
        waiting = [each for each in self._served.values() if isinstance(each, Message)]
        ended = [each for each in (*self.flight, *waiting) if node in (each.sender, each.receiver)]
        self.flight = [each for each in self.flight if each not in ended]
        self._served = {key: each for key, each in self._served.items() if each not in ended}
        for message in ended:
            self._fail(message)

    def elect(self, leader: int, isr: tuple[int, ...] | None = None) -> None:
        """The controller elects a leader (NO_NODE: none), and may change the ISR."""
        before = self.metadata
        self.metadata = replace(
            before,
            leader=leader,
            leader_epoch=before.leader_epoch + 1,
            isr=before.isr if isr is None else isr,
            partition_epoch=before.partition_epoch + 1,
        )

    def set_isr(self, isr: tuple[int, ...]) -> None:
        """The controller changes the ISR."""
        self.metadata = replace(self.metadata, isr=isr, partition_epoch=self.metadata.partition_epoch + 1)

    def inform(self, node: int) -> None:
        """A broker learns the metadata."""
        self.handle(node, events.Assign((self.metadata,)))

    def ask(self, node: int, request: messages.Request) -> Call:
        """A client's request arrives at a broker."""
        call, request_id = Call(node, request), next(self._ids)
        self._served[request_id] = call
        self.handle(node, events.Arrived(request_id, request))
        return call

    def deliver(self, message: Message) -> None:
        """A message in flight arrives; one to a broker that is down fails at its sender."""
        self.flight.remove(message)
        if self.members[message.receiver].broker is None:
            self._fail(message)
        elif message.is_request:
            request_id = next(self._ids)
            self._served[request_id] = message
            self.handle(message.receiver, events.Arrived(request_id, message.payload))
        else:
            self.handle(message.receiver, events.Answered(message.sender, message.request_id, message.payload))

    def lose(self, message: Message) -> None:
        """A message in flight is lost, and the connection with it."""
        self.flight.remove(message)
        self._fail(message)

    def _fail(self, message: Message) -> None:
        asking, peer = (message.sender, message.receiver) if message.is_request else (message.receiver, message.sender)
        if self.members[asking].broker is not None:
            self.handle(asking, events.Failed(peer, message.request_id))

    def decide(self, may_join: Callable[[int, int], bool] = lambda _node, _broker_epoch: True) -> None:
        """The controller decides on the oldest request of a leader, and answers. may_join(broker, broker epoch)."""
        node, request_id, request = self.proposals.pop(0)
        results = tuple(self._decide(node, each, may_join) for each in request.proposals)
        self.handle(node, events.ControllerAnswered(request_id, messages.IsrResponse(ErrorCode.none, results)))

    def decide_silently(self, may_join: Callable[[int, int], bool] = lambda _node, _broker_epoch: True) -> None:
        """The controller decides, and its response is lost."""
        node, request_id, request = self.proposals.pop(0)
        for each in request.proposals:
            self._decide(node, each, may_join)
        self.handle(node, events.ControllerAnswered(request_id, None))

    def _decide(self, node: int, proposal: IsrProposal, may_join: Callable[[int, int], bool]) -> IsrResult:
        now = self.metadata
        error = ErrorCode.none
        if proposal.leader_epoch != now.leader_epoch or node != now.leader:
            error = ErrorCode.fenced_leader_epoch
        elif proposal.partition_epoch != now.partition_epoch:
            error = ErrorCode.invalid_update_version
        elif not all(each in now.isr or may_join(each, epoch) for each, epoch in proposal.isr):
            error = ErrorCode.ineligible_replica
        if error is not ErrorCode.none:
            return IsrResult(PARTITION, error)
        self.set_isr(tuple(each for each, _ in proposal.isr))
        now = self.metadata
        return IsrResult(PARTITION, error, now.leader, now.leader_epoch, now.partition_epoch, now.isr)

    def next_due(self) -> tuple[int, int] | None:
        """The broker whose deadline is next, and when; None if no broker is up."""
        due = [(self.broker(node).deadline_ms, node) for node in self.up]
        return min(due, default=None)

    def advance(self, duration_ms: int) -> None:
        """Time passes; brokers do what is due, and nothing is delivered."""
        end_ms = self.now_ms + duration_ms
        while (due := self.next_due()) is not None and due[0] <= end_ms:
            self.now_ms = max(self.now_ms, due[0])
            self.handle(due[1], events.Tick())
        self.now_ms = end_ms

    def handle(self, node: int, event: events.Event) -> None:
        """A broker handles an event."""
        for effect in self.broker(node).handle(event, self.now_ms):
            self._carry_out(node, effect)
            self._watch(node, effect)

    def _carry_out(self, node: int, effect: events.Effect) -> None:
        match effect:
            case events.Send(peer, request_id, request):
                self.flight.append(Message(node, peer, request_id, request, is_request=True))
            case events.Reply(request_id, response):
                self._reply(node, request_id, response)
            case events.AskController(request_id, request):
                self.proposals.append((node, request_id, request))
            case events.StoreHighWatermarks(high_watermarks):
                self.members[node].stored_high_watermark = high_watermarks[PARTITION]

    def _reply(self, node: int, request_id: int, response: messages.Response) -> None:
        asked = self._served.pop(request_id, None)
        if isinstance(asked, Call):
            asked.response = response
        elif asked is not None:
            self.flight.append(Message(node, asked.sender, asked.request_id, response, is_request=False))
