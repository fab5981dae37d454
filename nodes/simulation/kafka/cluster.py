"""A simulated Kafka cluster: nodes.simulation.cluster.SimulatedCluster over a RaftDriver.

    cluster = KafkaCluster(driver, SimulationSpec(seed=7, nodes=3), observe)
    cluster.start(1)
    cluster.advance(5_000)
    cluster.close()

Commands are collected and sent with the next advance, so that an advance is one round trip to the JVM; its reply has
the status of each node that has changed, and the time of the next event, up to which time passes without a round trip.
What needs an answer at once (status and violations after a node was started or ended, digest, intercept, rule_counts)
is a round trip of its own. What nodes report meanwhile is delivered by the next advance.

A driver serves one cluster at a time: the next one ends the one before. A client's request and its answer each take a
random time within delay_ms, like messages between nodes; node 0 in links is the clients.
"""

from __future__ import annotations

import base64
import io
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kio.serial import entity_reader, entity_writer

from harness.model import BadInput, Observation
from harness.model.faults.rpc import RpcRule, RuleCount
from harness.model.hosts import Link
from harness.model.quorum_states import State
from harness.model.systems import BOOTSTRAP_NODES
from nodes.kafka.configuration import SIMULATION_LOG, bootstrap_nodes
from nodes.observe.log_lines import VOTED_UNTIL_3_8, parse_text
from nodes.simulation.cluster import Answer, NodeStatus, Observe, SimulationSpec, Violation
from nodes.simulation.kafka import controller
from nodes.simulation.kafka.driver_process import Command, RaftDriver
from nodes.wire import codec
from nodes.wire.batches import Record, encode_batch

METADATA_LOG = "__cluster_metadata"
MS = 1_000_000
"""Nanoseconds in a millisecond."""
RAFT_REQUESTS = frozenset(
    {codec.DESCRIBE_QUORUM, codec.ADD_RAFT_VOTER, codec.REMOVE_RAFT_VOTER, codec.UPDATE_RAFT_VOTER}
)
"""Requests of clients that the Raft client answers itself."""
SNAPSHOT_SETTINGS = ("metadata.log.max.record.bytes.between.snapshots", "metadata.max.retention.bytes")
"""Of the state machine, not of the Raft client."""
SEGMENT_BYTES = "internal.metadata.log.segment.bytes"
"""Of logs in files; before 4.1, servers call it metadata.log.segment.bytes."""
LOG_KINDS = (MEMORY, FILES) = ("memory", "files")
"""The values of SIMULATION_LOG: the log of Kafka's tests, or that of its servers."""
IN_FILES = {SIMULATION_LOG: FILES}
"""The switch of logs that another release can open."""

EXECUTED = frozenset({"start", "stop", "resume", "lose_unsynced", "lose_disk", "lose_quorum_state"})
"""Commands that change what the JVM reports before time passes."""
NEVER_MS = 1 << 62
_STATES = {state.value: state for state in State} | {VOTED_UNTIL_3_8: State.UNATTACHED}


@dataclass(slots=True)
class _Call:
    """A client's request that has no answer yet; response is set once the node has read its image."""

    node: int
    request: Any
    answer: Answer
    response: Any = None


class KafkaCluster:
    """nodes.simulation.cluster.SimulatedCluster of a release's Raft client."""

    def __init__(self, driver: RaftDriver, spec: SimulationSpec, observe: Observe, idle_interval_ms: int = 0) -> None:
        """Nodes with empty disks. idle_interval_ms is how often leaders write a record of their own, 0 for never.

        The cluster that the driver served before is closed.

        Raises BadInput for a specification that the release cannot have.
        """
        specification = specified(driver, spec)
        self._driver, self._spec, self._observe = driver, spec, observe
        self._now_ms = 0
        self._next_ms = 0
        self._sent_ms = 0
        self._digest: str | None = None
        self._violations: list[Violation] = []
        self._statuses: dict[int, NodeStatus | None] = {}
        self._running: set[int] = set()
        self._lost_disks: dict[int, int] = {}
        self._commands: list[Command] = []
        self._reports: list[Sequence[Any]] = []
        self._writes = controller.Writes()
        self._calls: dict[int, _Call] = {}
        self._call_count = 0
        driver.end_cluster()
        self._send(["open", {**specification, "idle": idle_interval_ms}])
        driver.end_cluster = self.close

    @property
    def now_ms(self) -> int:
        """Virtual time since the beginning."""
        return self._now_ms

    @property
    def violations(self) -> Sequence[Violation]:
        """The invariants of driver/Invariants.java that were broken so far."""
        self._flush()
        return tuple(self._violations)

    def digest(self) -> str:
        """A hash of all messages, reports and commands so far."""
        return self._send(["digest"]) if self._digest is None else self._digest

    def advance(self, until_ms: int) -> None:
        """Let time pass until then, or until a report or an answer was delivered."""
        if not self._reports and not self._commands and until_ms < self._next_ms:
            self._now_ms = max(self._now_ms, until_ms)
        elif not self._reports:
            self._send(["advance", until_ms])
        reports, self._reports = self._reports, []
        for report in reports:
            self._deliver(*report)

    def status(self, node: int) -> NodeStatus | None:
        """What a node knows now; None if it does not run or is paused."""
        self._flush()
        return self._statuses.get(node)

    def directory_id(self, node: int) -> uuid.UUID:
        """The id of a node's disk (KIP-853); a new disk has another."""
        return directory_id_of(node, self._lost_disks.get(node, 0))

    def start(self, node: int) -> None:
        """Start a node from what is on its disk."""
        assert node not in self._running, f"node {node} runs"
        self._running.add(node)
        self._writes.restart(node)
        self._commands.append(["start", node])

    def kill(self, node: int) -> None:
        """End a node at once. Its disk keeps what was written, as after SIGKILL."""
        self._running.discard(node)
        self._statuses[node] = None
        self._commands.append(["kill", node])

    def stop(self, node: int) -> None:
        """Begin a node's graceful shutdown; status is None once it has ended."""
        self._commands.append(["stop", node])

    def pause(self, node: int) -> None:
        """Stop a node's execution; messages and timers wait."""
        self._statuses[node] = None
        self._commands.append(["pause", node])

    def resume(self, node: int) -> None:
        """Go on with a paused node."""
        self._commands.append(["resume", node])

    def lose_unsynced(self, node: int) -> None:
        """Drop what a stopped node wrote and did not sync, as after a power failure."""
        assert node not in self._running, f"node {node} runs"
        self._commands.append(["lose_unsynced", node])

    def lose_disk(self, node: int) -> None:
        """Empty the disk of a stopped node; with dynamic voters it is then an observer with another directory id."""
        assert node not in self._running, f"node {node} runs"
        self._lost_disks[node] = self._lost_disks.get(node, 0) + 1
        self._commands.append(["lose_disk", node])

    def lose_quorum_state(self, node: int) -> None:
        """Delete what a stopped node stored of elections; its log stays."""
        assert node not in self._running, f"node {node} runs"
        self._commands.append(["lose_quorum_state", node])

    def cut(self, links: Iterable[Link]) -> None:
        """Drop all messages on these directed links, beside those that are cut already."""
        self._commands.append(["cut", [list(link) for link in links]])

    def restore(self, links: Iterable[Link] | None = None) -> None:
        """End the cuts of these links, or all."""
        self._commands.append(["restore", None if links is None else [list(link) for link in links]])

    def intercept(self, rules: Sequence[RpcRule]) -> Mapping[str, RuleCount]:
        """Replace the rules for messages between nodes; returns the final counters of those that were in place.

        Raises BadInput for rules with the same name, and for roles instead of node numbers.
        """
        _check_rules(rules)
        return _counts(self._send(["intercept", [_rule(rule) for rule in rules]]))

    def rule_counts(self) -> Mapping[str, RuleCount]:
        """The counters of the rules in place."""
        return _counts(self._send(["rule_counts"]))

    def call(self, node: int, request: Any, answer: Answer) -> bool:
        """A client's request to a node, a kio entity; answer gets the response. False if the node does not listen.

        Raises BadInput for a request that a simulated node does not serve.
        """
        if node not in self._running:
            return False
        number = self._call_count
        command = self._command(number, node, request)
        self._call_count += 1
        self._calls[number] = _Call(node, request, answer)
        self._commands.append(command)
        return True

    def configure(self, node: int, switches: Mapping[str, str], version: str = "") -> None:
        """From its next start on, a node that does not run has these switches besides its own, and this release.

        Without a version it has the release that it began with. Raises BadInput for what it cannot have.
        """
        assert node not in self._running, f"node {node} runs"
        self._commands.append(["change", node, *changed_node(self._driver, self._spec, node, switches, version)])

    def log(self, node: int) -> bytes:
        """The record batches of a node's log; MockLog has no times, so their records have that of the beginning."""
        return b"".join(
            encode_batch(_records(rows), offset, epoch, self._spec.wall_origin_ms, is_control)
            for offset, epoch, is_control, rows in self._send(["log", node])
        )

    def close(self) -> None:
        """End the simulation; the driver can serve another."""
        if self._digest is None:
            self._digest = self._driver.exchange([*self._commands, ["digest"], ["close"]])["result"]
        self._commands.clear()
        self._calls.clear()

    # ------------------------------------------------------------ the driver

    def _command(self, number: int, node: int, request: Any) -> Command:
        key, version = request.__api_key__, request.__version__
        if key == codec.INCREMENTAL_ALTER_CONFIGS:
            return ["write", number, node, self._writes.begin(request)]
        if key in (codec.DESCRIBE_CONFIGS, codec.API_VERSIONS):
            return ["read", number, node]
        if key not in RAFT_REQUESTS or version not in self._driver.versions.get(key, ()):
            name = codec.api_names().get(key, key)
            raise BadInput(f"a simulated node of Kafka {self._driver.version}: {name} version {version} is not served")
        return ["request", number, node, *request_arguments(request)]

    def _flush(self) -> None:
        if any(command[0] in EXECUTED for command in self._commands):
            self._send()

    def _send(self, *commands: Command) -> Any:
        """Send the collected commands and these; returns the result of the last."""
        waiting, self._commands = self._commands, []
        if self._sent_ms < self._now_ms:
            waiting.insert(0, ["advance", self._now_ms])
        reply = self._driver.exchange([*waiting, *commands])
        self._now_ms = self._sent_ms = reply["now"]
        self._next_ms = reply.get("next", NEVER_MS)
        for node, row in reply.get("status", {}).items():
            self._statuses[int(node)] = None if row is None else status_of(*row)
        for report in reply["reports"]:
            self._receive(report)
        return reply.get("result")

    def _receive(self, report: Sequence[Any]) -> None:
        """Take in what changes state here at once; the rest is delivered by advance."""
        kind, *values = report
        if kind == "commit":
            self._writes.apply(*values)
        elif kind == "load":
            self._writes.load(*values)
        elif kind == "arrive":
            call = self._calls[values[0]]
            call.response = self._read(call)
        elif kind == "violation":
            time_ms, node, invariant, message = values
            self._violations.append(Violation(invariant, message, time_ms, node))
        else:
            if kind in ("exited", "stopped"):
                self._running.discard(values[1])
            if kind != "stopped":
                self._reports.append(report)

    def _read(self, call: _Call) -> Any:
        if call.request.__api_key__ == codec.API_VERSIONS:
            return controller.supported_apis(call.request, self._driver.versions)
        return self._writes.read(call.node, call.request)

    # ------------------------------------------------------------ reports

    def _deliver(self, kind: str, *values: Any) -> None:
        if kind == "log":
            self._log(*values)
        elif kind == "exited":
            self._exited(*values)
        else:
            assert kind == "answer", kind
            self._answer(*values)

    def _log(self, time_ms: int, node: int, text: str) -> None:
        event = parse_text(time_ms * MS, text)
        if event is None:
            return
        self._observe(
            Observation(
                *(event.wall_ns, node, "log", event.kind, event.state, event.previous, event.epoch),
                leader=event.leader,
                voted=event.voted,
                high_watermark=event.high_watermark,
                detail=event.detail,
            )
        )

    def _exited(self, time_ms: int, node: int, detail: str) -> None:
        self._observe(Observation(time_ms * MS, node, "process", "exited", detail=detail))

    def _answer(self, number: int, result: str, value: str | None = None) -> None:
        call = self._calls.pop(number)
        call.answer(_response(call, result, value))


def _response(call: _Call, result: str, value: str | None) -> Any:
    """The response to a call by the driver's result; None if the connection broke."""
    if result == "ok":
        return controller.written(call.request)
    if result == "not-controller":
        return controller.not_controller(call.request, None if value is None else int(value))
    if result == "read":
        return call.response
    if result == "response":
        assert value is not None
        entity = codec.message_type(call.request.__api_key__, call.request.__version__, "response")
        response, _ = entity_reader(entity)(base64.b64decode(value), 0)
        return response
    assert result == "none", result
    return None


def status_of(
    state: str,
    epoch: int,
    leader: int,
    voted: int,
    high_watermark: int,
    log_end_offset: int,
    has_committed: bool,
    last_epoch: int,
    is_voter: bool,
    voters: Mapping[str, int],
) -> NodeStatus:
    """A node's status, of what the driver sends, in its order."""
    return NodeStatus(
        _STATES[state],
        epoch,
        None if leader < 0 else leader,
        None if voted < 0 else voted,
        high_watermark,
        log_end_offset,
        {int(voter): end for voter, end in voters.items()},
        has_committed,
        last_epoch=last_epoch,
        may_campaign=is_voter,
    )


def directory_id_of(node: int, lost_disks: int = 0) -> uuid.UUID:
    """The id of a node's disk, by the number of disks that it has lost, as driver/release/SimulatedNode.java has it."""
    return uuid.UUID(int=(((1 << 40) + node) << 64) + (1 << 40) + lost_disks)


def request_arguments(request: Any) -> Sequence[Any]:
    """A request that the Raft client answers itself, as the driver reads it: API key, version, and bytes in base64."""
    body = io.BytesIO()
    entity_writer(type(request))(body, request)
    return [request.__api_key__, request.__version__, base64.b64encode(body.getvalue()).decode()]


def specified(driver: RaftDriver, spec: SimulationSpec) -> Mapping[str, Any]:
    """The specification as the driver reads it. Raises BadInput for one that the release cannot have."""
    releases = _releases(driver, spec)
    _check(driver, spec, releases)
    return {
        "seed": spec.seed,
        "nodes": spec.nodes,
        "voters": spec.voters,
        "delay": list(spec.delay_ms),
        "origin": spec.wall_origin_ms,
        "settings": {str(node): dict(properties) for node, properties in spec.switches.items()},
        "releases": {str(node): release for node, release in releases.items()},
        "directory": None if driver.log_directory is None else str(driver.log_directory),
    }


def changed_node(
    driver: RaftDriver, spec: SimulationSpec, node: int, switches: Mapping[str, str], version: str
) -> tuple[int, Mapping[str, str]]:
    """A node's release and properties, as the driver reads them, after a change; version is "" for its first release.

    Raises BadInput for what the node cannot have.
    """
    own = spec.switches.get(node, {})
    known = [str(release) for release in driver.releases]
    wanted = version or spec.versions.get(node, known[0])
    if wanted not in known:
        raise BadInput(
            f"change_version n{node} kafka:{wanted}: expected a release that the run names: {', '.join(known)}"
        )
    if switches.get(SIMULATION_LOG, own.get(SIMULATION_LOG)) != own.get(SIMULATION_LOG):
        raise BadInput(f"configure n{node} {SIMULATION_LOG}: expected a property that can change")
    properties = {**own, **switches}
    place = known.index(wanted)
    _check_properties(driver, spec, place, properties)
    return place, properties


def has_files(spec: SimulationSpec) -> bool:
    """Whether a node has its log in files."""
    return any(properties.get(SIMULATION_LOG) == FILES for properties in spec.switches.values())


def _releases(driver: RaftDriver, spec: SimulationSpec) -> Mapping[int, int]:
    """The places of the releases that nodes run, of those that do not run the first."""
    known = [str(release) for release in driver.releases]
    return {node: known.index(version) for node, version in spec.versions.items()}


def _check(driver: RaftDriver, spec: SimulationSpec, releases: Mapping[int, int]) -> None:
    if spec.voters is not None and not driver.has_dynamic_quorum:
        raise BadInput(f"voters: expected none with Kafka {driver.version}, whose voters are static (KIP-853)")
    if spec.voters is not None and not 0 < spec.voters <= spec.nodes:
        raise BadInput(f"voters: expected 1 to {spec.nodes}, the number of nodes, found {spec.voters}")
    logs = [spec.switches.get(node, {}).get(SIMULATION_LOG) for node in range(1, spec.nodes + 1)]
    if spec.later_versions and set(logs) != {FILES}:
        later = ", ".join(spec.later_versions)
        reason = "another release cannot open a log in memory"
        raise BadInput(f"change_version {later}: expected --switch {SIMULATION_LOG}={FILES}: {reason}")
    for node, properties in spec.switches.items():
        _check_properties(driver, spec, releases.get(node, 0), properties)


def _check_properties(driver: RaftDriver, spec: SimulationSpec, release: int, properties: Mapping[str, str]) -> None:
    if (kind := properties.get(SIMULATION_LOG, MEMORY)) not in LOG_KINDS:
        raise BadInput(f"{SIMULATION_LOG}={kind}: expected {' or '.join(LOG_KINDS)}")
    of_log = (SIMULATION_LOG, SEGMENT_BYTES) if kind == FILES else (SIMULATION_LOG,)
    known = (*driver.settings(release), *SNAPSHOT_SETTINGS, BOOTSTRAP_NODES, *of_log)
    for name in properties:
        if name not in known:
            version = driver.releases[release]
            raise BadInput(f"--switch {name}: a simulation of Kafka {version} has only {', '.join(known)}")
    if BOOTSTRAP_NODES in properties and spec.voters is None:
        raise BadInput(f"{BOOTSTRAP_NODES}={properties[BOOTSTRAP_NODES]}: expected none in a static quorum")
    bootstrap_nodes(properties, dict.fromkeys(range(1, spec.nodes + 1), 0))


def _check_rules(rules: Sequence[RpcRule]) -> None:
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise BadInput(f"RPC rules: expected unique names, got {', '.join(names)}")
    for rule in rules:
        roles = [node for node in (*rule.match.sources, *rule.match.targets) if not isinstance(node, int)]
        if roles:
            raise BadInput(f"RPC rule {rule.name!r}: expected node numbers, got {', '.join(roles)}")


def _rule(rule: RpcRule) -> Mapping[str, Any]:
    """A rule as driver/Rules.java reads it. The only partition between nodes is that of the metadata log."""
    written = rule.to_json()
    match = dict(written["match"])
    if match.pop("topic", METADATA_LOG) != METADATA_LOG or match.pop("partition", 0) != 0:
        match["sources"] = [-1]
    return {"name": rule.name, **match, **written["action"]}


def _counts(found: Mapping[str, Sequence[int]]) -> Mapping[str, RuleCount]:
    return {name: RuleCount(*counts) for name, counts in found.items()}


def _records(rows: Iterable[tuple[str | None, str | None]]) -> list[Record]:
    """Records of keys and values in base64."""
    return [Record(*(None if part is None else base64.b64decode(part) for part in row)) for row in rows]
