"""nodes.simulation.cluster.SimulatedCluster of the reference system's quorum: its core, unchanged, under virtual time.

    cluster = ReferenceCluster(SimulationSpec(seed=7, nodes=3), observe)

What the shell of a node does on real hosts (nodes.reference.server) is done here without processes: a peer is reached
by one connection with one pending request, a request that is abandoned takes its connection with it, a connection to a
node that is down is refused, and one to a node that dies breaks. Brokers are not simulated.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from harness.model import BadInput, Observation
from harness.model.faults.rpc import RpcRule, RuleCount
from harness.model.hosts import Link
from harness.model.quorum_states import OBSERVER, State, TransitionTable
from harness.model.systems import BOOTSTRAP_NODES, CLUSTER_ID, CONTROLLER_PORT_PROPERTY, FORMAT
from nodes.observe.log_lines import LogEvent, parse_text
from nodes.reference import apis
from nodes.reference.core import events
from nodes.reference.core.messages import (
    Advertised,
    AlterRequest,
    DiscoverRequest,
    DiscoverResponse,
    FetchRequest,
    FetchSnapshotRequest,
    ReadRequest,
    ReassignRequest,
    Request,
    Response,
)
from nodes.reference.core.node import Node
from nodes.reference.core.roles.state_machine import table_of
from nodes.reference.core.roles.states import Leader
from nodes.reference.core.settings import NEVER_MS, NodeSettings
from nodes.reference.directory_ids import directory_text
from nodes.reference.dispatch import ToCore, asked
from nodes.reference.properties import INITIAL_CONTROLLERS, ServerConfig, parse, refuse_unused
from nodes.reference.system import SWITCHES, bootstrap_nodes
from nodes.reference.translate import Endpoints, Values
from nodes.simulation.cluster import Answer, NodeStatus, Observe, SimulationSpec, Violation
from nodes.simulation.network import Network
from nodes.simulation.reference.disk import SimulatedDisk, directory_id_of
from nodes.simulation.reference.invariants import Invariants
from nodes.simulation.reference.member import Member
from nodes.simulation.reference.peers import Peers
from nodes.simulation.reference.promises import Promises
from nodes.simulation.reference.state_changes import state_change
from nodes.simulation.timeline import Timeline
from nodes.wire import codec

CLIENT = -1
"""The connection of clients, which the core does not tell apart."""
PORT = 9093
IDLE = (State.UNATTACHED, State.FOLLOWER, State.RESIGNED)
CAMPAIGNING = (State.PROSPECTIVE, State.CANDIDATE)


class ReferenceCluster:
    """The quorum's nodes, 1 to spec.nodes."""

    def __init__(self, spec: SimulationSpec, observe: Observe) -> None:
        """Raises BadInput for a switch that the reference system does not have."""
        self._spec, self._observe = spec, observe
        self._timeline = Timeline()
        self._network = Network(self._timeline, spec.seed, spec.delay_ms)
        self._random = random.Random(f"nodes {spec.seed}")
        self._ids = itertools.count(1)
        self._hash = hashlib.blake2b(digest_size=8)
        self._violations: list[Violation] = []
        self._endpoints: Endpoints = {node: (f"n{node}", PORT) for node in range(1, spec.nodes + 1)}
        self._members: dict[int, Member] = {}
        for node in self._endpoints:
            config = _config(spec, node, {})
            self._members[node] = Member(config, SimulatedDisk(config.settings))
        are_voters_in_log = any(each.config.settings.changes_voters for each in self._members.values())
        self._invariants = Invariants(self._violated, are_voters_in_log)
        self._promises = Promises(self._violated)
        self._peers = Peers(self._timeline, self._network, self._members, self._arrive, self._ids)

    @property
    def now_ms(self) -> int:
        """Virtual time since the beginning."""
        return self._timeline.now_ms

    @property
    def violations(self) -> Sequence[Violation]:
        """The invariants that were broken so far."""
        return self._violations

    def digest(self) -> str:
        """A hash of all messages and transitions so far."""
        return self._hash.hexdigest()

    def advance(self, until_ms: int) -> None:
        """Let time pass until then, or until a report or an answer was delivered."""
        self._timeline.advance(until_ms)

    def log(self, node: int) -> bytes:
        """The record batches of a node's log."""
        return self._members[node].disk.log

    def close(self) -> None:
        """There is nothing to free."""

    def status(self, node: int) -> NodeStatus | None:
        """What a node knows now; None if it does not run or is paused."""
        member = self._members[node]
        core = None if member.is_paused else member.core
        if core is None:
            return None
        state, log = core.state, core.log
        known = state.kind, state.epoch, state.leader_id, state.voted_id
        own = log.last_epoch, core.voters.may_campaign
        if not isinstance(state, Leader):
            voters = dict.fromkeys(core.voters.ids, -1)
            return NodeStatus(*known, log.high_watermark, log.end_offset, voters, False, (), *own)
        description = core.describe()
        return NodeStatus(
            *known,
            description.high_watermark,
            log.end_offset,
            {each.replica_id: each.end_offset for each in description.voters},
            description.high_watermark > state.start_offset,
            tuple(sorted(each.replica_id for each in description.target or ())),
            *own,
        )

    def configure(self, node: int, switches: Mapping[str, str], version: str = "") -> None:
        """From its next start on, a node has these switches besides its own. Raises BadInput for an unknown one."""
        if version:
            raise BadInput(f"change_version n{node} {version}: expected a simulation of Kafka")
        self._members[node].config = _config(self._spec, node, switches)

    def start(self, node: int) -> None:
        """Start a node from what is on its disk."""
        member = self._members[node]
        assert member.core is None, f"n{node} runs"
        settings = member.disk.formatted(member.config.settings)
        member.table = table_of(replace(settings, mutant=None))
        member.incarnation, member.is_paused, member.tick_ms = member.incarnation + 1, False, None
        self._invariants.started(node)
        self._promises.started(node)
        stored = member.disk.load(settings)
        member.core = Node(settings, stored, self._random.randrange, self.now_ms, self._spec.wall_origin_ms)
        self._handle(member, events.Tick())

    def kill(self, node: int) -> None:
        """End a node at once; what is on its disk stays."""
        self._end(self._members[node])

    def stop(self, node: int) -> None:
        """Begin a node's graceful shutdown."""
        member = self._members[node]
        self._arrive(member, events.Stopping())

    def pause(self, node: int) -> None:
        """Stop a node's execution; messages and timers wait."""
        self._members[node].is_paused = True

    def resume(self, node: int) -> None:
        """Go on with a paused node."""
        member = self._members[node]
        member.is_paused = False
        self._promises.resumed(node, self.now_ms)
        while member.waiting and not member.is_paused:
            member.waiting.popleft()()

    def lose_unsynced(self, node: int) -> None:
        """Drop what a stopped node wrote and did not sync; of the log, a random part of it stays."""
        self._members[node].disk.lose_unsynced(self._random.randrange)

    def directory_id(self, node: int) -> uuid.UUID:
        """The id of a node's disk (KIP-853); a new disk has another."""
        return self._members[node].disk.directory_id

    def lose_disk(self, node: int) -> None:
        """Empty the disk of a stopped node."""
        self._members[node].disk.erase()
        self._invariants.lost_disk(node)

    def lose_quorum_state(self, node: int) -> None:
        """Delete what a stopped node stored of elections; its log stays."""
        self._members[node].disk.forget_election()
        self._invariants.lost_disk(node)

    def cut(self, links: Iterable[Link]) -> None:
        """Drop all messages on these directed links, beside those that are cut already."""
        self._network.cut(links)

    def restore(self, links: Iterable[Link] | None = None) -> None:
        """End the cuts of these links, or all."""
        self._network.restore(links)

    def intercept(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace the rules for messages between nodes; returns the final counters of those that were in place."""
        return self._network.replace_rules(rules)

    def rule_counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place."""
        return self._network.rule_counts()

    def call(self, node: int, request: Any, answer: Answer) -> bool:
        """A client's request; answer gets the response, None for an API that is not served. False if it is down."""
        member = self._members[node]
        if member.core is None:
            return False
        incarnation = member.incarnation

        def reply(values: Values | None) -> None:
            def arrive_at_client() -> None:
                self._timeline.interrupt()
                answer(None if values is None else _entity(request, values))

            self._timeline.after(self._network.delay(), arrive_at_client)

        def arrive() -> None:
            core = member.core if member.incarnation == incarnation else None
            to_core = None if core is None else _asked(request, core, member.config.settings, self._endpoints)
            if not isinstance(to_core, tuple):
                reply(to_core)
                return
            converted, values_of = to_core
            request_id, committed_end = next(self._ids), self._invariants.committed_end

            def answered(response: Response | None) -> None:
                self._answers(member, converted, response, committed_end)
                reply(None if response is None else values_of(response))

            member.served[request_id] = answered
            self._arrive(member, events.Arrived(CLIENT, request_id, converted))

        self._timeline.after(self._network.delay(), arrive)
        return True

    def _arrive(self, member: Member, event: events.Event) -> None:
        """Pass an event to a node now, or once it is no longer paused; never if it ends before."""
        if not member.is_paused:
            self._handle(member, event)
            return
        member.waiting.append(lambda: self._handle(member, event))  # _end forgets it

    def _handle(self, member: Member, event: events.Event) -> None:
        """Pass an event to a node that runs, and carry out what follows."""
        core = member.core
        if core is None:
            return
        node, now_ms = member.node_id, self._timeline.now_ms
        self._hash.update(b"%d %d %s;" % (now_ms, node, type(event).__name__.encode()))
        before = core.state
        try:
            effects = core.handle(event, now_ms)
        except AssertionError as defect:  # what the core takes to be impossible
            self._exited(member, f"assertion failed: {defect}")
            return
        for effect in effects:
            self._carry_out(member, core, effect)
            if member.core is not core:
                return
        member.deadline_ms = core.deadline_ms
        if member.deadline_ms <= now_ms:
            self._violated("no-spin", f"it asks for its next turn at {member.deadline_ms} ms", node)
            self._exited(member, "it has work left at once, again and again")
            return
        self._invariants.advanced(node, core)
        match event:
            case events.Arrived(request=FetchRequest() | FetchSnapshotRequest() as request):
                self._promises.fetched(node, request, now_ms)
            case events.Failed(unsupported_version=True):
                self._promises.unsupported(node, before, core.state)
        self._promises.advanced(node, core, member.config.settings, now_ms)
        brokers = _told(event, member.config.settings)
        if brokers:
            self._invariants.told(node, core, brokers)
        self._schedule_tick(member)

    def _schedule_tick(self, member: Member) -> None:
        deadline_ms = member.deadline_ms
        if deadline_ms >= NEVER_MS or (member.tick_ms is not None and member.tick_ms <= deadline_ms):
            return
        member.tick_ms, incarnation = deadline_ms, member.incarnation
        self._timeline.after(deadline_ms - self.now_ms, lambda: self._tick(member, incarnation, deadline_ms))

    def _tick(self, member: Member, incarnation: int, tick_ms: int) -> None:
        if member.incarnation != incarnation or member.tick_ms != tick_ms or member.core is None:
            return
        member.tick_ms = None
        if member.deadline_ms > tick_ms:
            self._schedule_tick(member)
        else:
            self._arrive(member, events.Tick())

    def _carry_out(self, member: Member, core: Node, effect: events.Effect) -> None:
        node = member.node_id
        match effect:  # the most frequent ones first
            case events.Reply(request_id, response):
                member.served.pop(request_id, lambda _: None)(response)
            case events.Send(request=request):
                self._promises.sends(node, request, member.disk.durable_election)
                self._peers.send(member, effect)
            case events.StateChange(is_completed=True):
                self._entered(member, core, effect)
            case events.Note(text):
                self._noted(node, text)
            case events.Discover():
                self._peers.discover(member, effect)
            case events.Halt(failure):
                self._end(member)
                if failure is not None:
                    self._report(node, "process", LogEvent(0, "exited", detail=failure))
            case _:
                self._carry_out_on_disk(member, core, effect)

    def _carry_out_on_disk(self, member: Member, core: Node, effect: events.Effect) -> None:
        node = member.node_id
        match effect:
            case events.PersistElection(election):
                member.disk.persist(election)
                self._invariants.persisted(node, election)
                stored = (election.epoch, election.leader_id, election.voted_id)
                self._report(node, "quorum-state", LogEvent(0, "durable", None, None, *stored))
            case events.AppendLog(data):
                member.disk.append(data)
                self._invariants.wrote(node, core, data)
                self._invariants.appended(node, data)
            case events.TruncateLog(end_offset):
                member.disk.truncate(end_offset)
                self._invariants.truncated(node)
            case events.SaveSnapshot(snapshot):
                self._invariants.saves(node, core, snapshot, member.disk.log)
                member.disk.save(snapshot)
            case events.AdvanceLogStart() | events.RestartLog():
                member.disk.change_start(effect)

    def _noted(self, node: int, text: str) -> None:
        event = parse_text(0, text)
        if event is not None:
            self._report(node, "log", event)

    def _entered(self, member: Member, core: Node, change: events.StateChange) -> None:
        """A node has entered a state; the observers of real nodes read it from the log line."""
        node, event = member.node_id, state_change(change)
        target, epoch = change.entered.kind, change.entered.epoch
        source = None if change.left is None else change.left.kind
        self._hash.update(b"%d %s %d;" % (node, target.value.encode(), epoch))
        self._invariants.entered(node, source, target, epoch, _table(member, core, source))
        if target is State.LEADER:
            self._invariants.leads(node, core.log, epoch)
        elif target in CAMPAIGNING and source in IDLE and _finds_voters(member):
            self._invariants.begins_election(node, core)
        self._report(node, "log", event)

    def _report(self, node: int, source: str, event: LogEvent) -> None:
        self._timeline.interrupt()
        self._observe(
            Observation(
                *(self.now_ms * 1_000_000, node, source, event.kind, event.state, event.previous),
                *(event.epoch, event.leader, event.voted, event.high_watermark, None, event.detail),
            )
        )

    def _answers(self, member: Member, request: Request, response: Response | None, committed_end: int) -> None:
        """A node answers a client's request, which arrived when records below committed_end were committed."""
        node, core = member.node_id, member.core
        if core is None or getattr(response, "error", None) is not ErrorCode.none:
            return
        match request:
            case ReassignRequest(voters):
                self._invariants.acknowledged(node, core, None if voters is None else tuple(sorted(voters)))
            case AlterRequest(changes):
                self._promises.acknowledges(node, core, changes)
            case ReadRequest():
                self._promises.reads(node, core, member.config.settings, committed_end)

    def _violated(self, invariant: str, message: str, node: int) -> None:
        self._timeline.interrupt()
        self._violations.append(Violation(invariant, message, self.now_ms, node))

    def _exited(self, member: Member, reason: str) -> None:
        """A node ends by a defect of its own."""
        self._end(member)
        self._report(member.node_id, "process", LogEvent(0, "exited", detail=reason))

    def _end(self, member: Member) -> None:
        """A node ends, and the connections to it break."""
        if member.core is None:
            return
        member.core, member.is_paused = None, False
        member.waiting.clear()
        member.pending.clear()
        member.connections.clear()
        served, member.served = member.served, {}
        for reply in served.values():
            reply(None)


def _asked(request: Any, node: Node, settings: NodeSettings, endpoints: Endpoints) -> ToCore | Values | None:
    """What to ask of the core, or the values of the response; None for an API or a version that is not served."""
    api_key = int(request.__api_key__)
    is_served = request.__version__ in apis.served(settings).get(api_key, ())
    return asked(api_key, request, node, settings, endpoints) if is_served else None


def _entity(request: Any, values: Values) -> Any:
    """kio's response to a request."""
    return codec.build(int(request.__api_key__), request.__version__, "response", values)


def _finds_voters(member: Member) -> bool:
    return member.config.settings.voter_addresses == "discovered"


def _told(event: events.Event, settings: NodeSettings) -> Sequence[Advertised]:
    """The addresses that a message of this cluster names."""
    match event:
        case events.Arrived(request=DiscoverRequest() as request):
            return request.brokers if request.cluster_id in (None, settings.cluster_id) else ()
        case events.Discovered(response=DiscoverResponse() as response):
            return response.brokers
    return ()


def _table(member: Member, core: Node, source: State | None) -> TransitionTable:
    """The transitions that a node may make, whatever a mutant does.

    A node ends as a voter what it began as a voter, even if it no longer votes.
    """
    is_of_voter = source not in (None, State.UNATTACHED, State.FOLLOWER)
    return OBSERVER if core.table is OBSERVER and not is_of_voter else member.table


def _config(spec: SimulationSpec, node: int, switches: Mapping[str, str]) -> ServerConfig:
    """A node's configuration, as on real hosts. Raises BadInput for an unknown switch."""
    given = {**spec.switches.get(node, {}), **switches}
    refuse_unused(SWITCHES, given)
    for name in (CONTROLLER_PORT_PROPERTY, FORMAT):
        if name in given:
            raise BadInput(f"{name}={given[name]}: simulated nodes do not differ in it")
    numbers = range(1, spec.nodes + 1)
    named = bootstrap_nodes(given, numbers)
    given.pop(BOOTSTRAP_NODES, None)
    properties = {
        "node.id": str(node),
        "cluster.id": given.pop(CLUSTER_ID, spec.cluster_id),
        "controller.quorum.voters": ",".join(f"{each}@n{each}:{PORT}" for each in numbers[: spec.voters]),
        "controller.quorum.bootstrap.servers": ",".join(f"n{each}:{PORT}" for each in named),
        "listeners": f"CONTROLLER://n{node}:{PORT}",
        "log.dirs": f"n{node}",
        **({INITIAL_CONTROLLERS: _initial_controllers(spec)} if node in _first_voters(spec) else {}),
        **given,
    }
    return parse(SWITCHES, "".join(f"{name}={value}\n" for name, value in properties.items()))


def _first_voters(spec: SimulationSpec) -> Sequence[int]:
    return range(1, (spec.voters or spec.nodes) + 1)


def _initial_controllers(spec: SimulationSpec) -> str:
    """The first voters, as a node is formatted for them where voters change one at a time (KIP-853)."""
    return ",".join(f"{node}@n{node}:{PORT}:{directory_text(directory_id_of(node))}" for node in _first_voters(spec))
