"""A node's properties file: Kafka's keys, and the switches of the reference quorum with the prefix `reference.`.

Contains the parser only. Kafka keys that the reference does not use are ignored, as Kafka ignores unknown keys; an
unknown `reference.` key is an error. Raises BadInput with one line that names the file and the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from harness.model import BadInput
from harness.model.suggestions import did_you_mean
from harness.model.systems import BOOTSTRAP_NODES, CLUSTER_ID, CONTROLLER_PORT_PROPERTY, FORMAT, Switch
from nodes.reference.brokers import properties as of_brokers
from nodes.reference.brokers.properties import BrokerConfig, Endpoint, controller_settings
from nodes.reference.core.controller.configs import why_invalid
from nodes.reference.core.controller.mutants import MUTANTS as CONTROLLER_MUTANTS
from nodes.reference.core.controller.settings import STRATEGIES, STRATEGY, TOPIC_DEFAULTS, ControllerSettings
from nodes.reference.core.groups.settings import GroupSettings
from nodes.reference.core.messages import ReplicaKey, VoterNode
from nodes.reference.core.mutants import MUTANTS
from nodes.reference.core.partitions.mutants import MUTANTS as PARTITION_MUTANTS
from nodes.reference.core.partitions.settings import PartitionSettings
from nodes.reference.core.records.image import ResourceType
from nodes.reference.core.settings import (
    CANDIDATE_BACKOFFS,
    CONFIGURED_VOTERS,
    COUNTED,
    FETCH_TIMEOUT_MS,
    LEADERS_WITHOUT_MAJORITY,
    NON_VOTER_VOTES,
    PROMOTIONS,
    PROSPECTIVE_FOLLOWS,
    READ_MODES,
    READINGS,
    VOTER_ADDRESSES,
    VOTER_CHANGES,
    NodeSettings,
)
from nodes.reference.directory_ids import directory_uuid

CONTROLLER = "CONTROLLER"
"""The name of the listener for the other nodes of the quorum."""

BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"
"""Where a node begins to look for the others (KIP-642, KIP-853)."""

INITIAL_CONTROLLERS = "reference.initial_controllers"
"""The voters that a node is formatted with, as Kafka's storage tool has them in --initial-controllers (KIP-853)."""

OWN_PROPERTIES = (CLUSTER_ID, CONTROLLER_PORT_PROPERTY, BOOTSTRAP_NODES, FORMAT)
"""Properties from which splitbrain makes those of the node; the node itself does not read them."""

USERS = "NAME:PASSWORD,…"

DEFAULT_CLUSTER_ID = "c3BsaXRicmFpbnF1b3J1bQ"

_KAFKA_KEYS = {
    "controller.quorum.fetch.timeout.ms": "fetch_timeout_ms",
    "controller.quorum.election.timeout.ms": "election_timeout_ms",
    "controller.quorum.election.backoff.max.ms": "election_backoff_max_ms",
    "controller.quorum.request.timeout.ms": "request_timeout_ms",
    "controller.quorum.retry.backoff.ms": "retry_backoff_ms",
    "controller.quorum.append.linger.ms": "append_linger_ms",
    "metadata.max.idle.interval.ms": "max_idle_interval_ms",
    "metadata.log.segment.bytes": "segment_bytes",
    "metadata.log.segment.ms": "segment_ms",
    "metadata.log.max.snapshot.interval.ms": "snapshot_interval_ms",
    "metadata.log.max.record.bytes.between.snapshots": "snapshot_bytes",
    "metadata.max.retention.bytes": "retention_bytes",
    "controller.quorum.fetch.max.bytes": "fetch_max_bytes",
    "controller.quorum.fetch.snapshot.max.bytes": "fetch_snapshot_max_bytes",
}
_SWITCHES = {
    "pre_vote": "nodes ask for pre-votes before they start an election (KIP-996)",
    "check_quorum": "a leader without fetches from a majority resigns (KIP-595, KAFKA-15489)",
    "follower_denies_pre_vote": "a follower that hears from a leader rejects pre-votes (KIP-996)",
    "new_disk_votes": "a voter that lost its disk votes before it has caught up",
    "deny_votes_within_fetch_timeout": "a node that hears from its leader rejects standard votes (KIP-996, rejected)",
    "end_quorum_grants": "a follower that received EndQuorumEpoch grants pre-votes (KAFKA-20895)",
    "not_leader_names_leader": "the error response to DescribeQuorum names the leader (KIP-595)",
    "removed_voters_campaign": "a voter that is being removed starts elections until that is committed",
    "starts_as_prospective": "a voter that restarts with a vote for itself asks for pre-votes first",
}
_CHOICES = {
    "read_mode": READ_MODES,
    "mutant": (*MUTANTS, *CONTROLLER_MUTANTS, *PARTITION_MUTANTS),
    "check_quorum_counts": COUNTED,
    "candidate_backoff": CANDIDATE_BACKOFFS,
    "configured_voters": CONFIGURED_VOTERS,
    "prospective_follows": PROSPECTIVE_FOLLOWS,
    "leader_without_majority": LEADERS_WITHOUT_MAJORITY,
    "non_voter_votes": NON_VOTER_VOTES,
    "promotion": PROMOTIONS,
    "voter_addresses": VOTER_ADDRESSES,
    "voter_changes": VOTER_CHANGES,
}
SWITCH_NAMES = (*_SWITCHES, *_CHOICES, *of_brokers.SWITCHES, "reading", "read_lease_ms", "seed")
_CHOICE_MEANINGS = {
    "read_mode": "how the leader answers reads of registers",
    "mutant": "a planted bug; none by default",
    "check_quorum_counts": "what the leader counts as a live follower",
    "candidate_backoff": "what a rejected Candidate waits for: the rest of its timeout, or as in KIP-996",
    "prospective_follows": "which messages of its epoch return a Prospective to its leader (KIP-996: any response)",
    "configured_voters": "when the configured voters count if the log names none: at once, without a quorum, or never",
    "leader_without_majority": "what a leader does that no majority fetches from; new-election needs pre_vote=false",
    "non_voter_votes": "what a voter does with the vote request of a node that does not vote, as far as its log says",
    "promotion": "which new voter a reassignment adds first (KIP-642)",
    "voter_addresses": "where the addresses of voters come from: the configuration, or discovery (KIP-642)",
    "voter_changes": "how the voters change: not at all, by KIP-642's reassignment, or one at a time as in Kafka",
}
_READING = f"sets {', '.join(READINGS['kip'])}, unless given"
_RENAMED = {
    "prospective_follows_known_leader": ("prospective_follows", {"true": "any-response", "false": "unknown-leader"}),
}
"""Switches of earlier releases, which stored plans name: the current switch, and its value for each old one."""
_PREFIX = "reference."


def switches() -> Iterator[Switch]:
    """The properties that change how a node behaves, with their defaults."""
    defaults = {each.name: each.default for each in fields(NodeSettings)}
    for key, field_name in _KAFKA_KEYS.items():
        yield Switch(key, "milliseconds" if key.endswith(".ms") else "bytes", str(defaults[field_name]), "as in Kafka")
    for name, meaning in _SWITCHES.items():
        yield Switch(f"{_PREFIX}{name}", "true, false", str(defaults[name]).lower(), meaning)
    for name, values in _CHOICES.items():
        default = "" if defaults[name] is None else str(defaults[name])
        yield Switch(f"{_PREFIX}{name}", ", ".join(values), default, _CHOICE_MEANINGS[name])
    yield Switch(f"{_PREFIX}reading", ", ".join(READINGS), "kip", _READING)
    yield from _switches_of_brokers()
    lease = "three quarters of the fetch timeout"
    yield Switch(f"{_PREFIX}read_lease_ms", "milliseconds", lease, "how long a lease for reads lasts")
    yield Switch(CLUSTER_ID, "a cluster id", "", "the node's own, if not the cluster's")
    yield Switch(CONTROLLER_PORT_PROPERTY, "a port", "9093", "where the node listens for the others of the quorum")
    yield Switch(BOOTSTRAP_NODES, "node numbers", "", "where the node begins to look for the others; all by default")
    yield Switch(FORMAT, "standalone", "", "the node founds a quorum of its own (voter_changes=kip-853)")


def _switches_of_brokers() -> Iterator[Switch]:
    """The properties of the controller of brokers, of brokers, and of their partitions."""
    for name, key in of_brokers.KAFKA_KEYS.items():
        yield Switch(name, "a number", str(_default(key)), "as in Kafka")
    yield Switch(of_brokers.ROLES, "controller, broker, or both", "", "the node's own, with --layout combined")
    for name, default in TOPIC_DEFAULTS.items():
        values = ", ".join(STRATEGIES) if name == STRATEGY else "as in Kafka"
        yield Switch(name, values, default, "of topics that have none of their own")
    for name, key in of_brokers.SWITCHES.items():
        values = USERS if key.is_users else ", ".join(key.values) or "true, false"
        default = _default(key)
        yield Switch(f"{_PREFIX}{name}", values, str(default) if key.values else str(default).lower(), key.meaning)


def _default(key: of_brokers.Key) -> Any:
    if key.is_users:
        return ""
    return next(each.default for each in fields(key.settings) if each.name == key.field)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The core's settings, and the shell's: the addresses to listen on, the voters' addresses, the log directory.

    listen is the controller's listener, None for a node that is only a broker; broker is None for a controller alone.
    """

    settings: NodeSettings
    listen: Endpoint | None
    voters: Mapping[int, Endpoint]
    directory: Path
    seed: int
    broker: BrokerConfig | None = None


class _Properties:
    """The file's properties, with errors that name the file and the key."""

    def __init__(self, path: Path, values: dict[str, str]) -> None:
        self._path, self.values = path, values

    def error(self, key: str, expected: str) -> BadInput:
        return BadInput(f"{self._path}: {key}: expected {expected}, got {self.values.get(key, 'nothing')!r}")

    def unknown(self, key: str, expected: str) -> BadInput:
        return BadInput(f"{self._path}: {key}: expected {expected}")

    def get(self, key: str, expected: str, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(self.values[key])
        except (KeyError, ValueError) as error:
            raise self.error(key, expected) from error

    def milliseconds(self, key: str) -> int:
        value = self.get(key, "milliseconds", int)
        if value < 0:
            raise self.error(key, "milliseconds")
        return int(value)


def load(path: Path) -> ServerConfig:
    """Read a node's properties file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise BadInput(f"{path}: cannot read the file: {error.strerror}") from error
    return parse(path, text)


def is_used(key: str) -> bool:
    """Whether a property changes anything: it is a switch, or a Kafka key that is used here."""
    return key.startswith(_PREFIX) or key in _KAFKA_KEYS or key in OWN_PROPERTIES or of_brokers.is_used(key)


def refuse_unused(place: Path, keys: Iterable[str]) -> None:
    """Raise BadInput for a key that changes nothing: one that is neither a switch nor a Kafka key that is used here."""
    names = [f"{_PREFIX}{name}" for name in SWITCH_NAMES]
    for key in keys:
        if not is_used(key):
            known = [*_KAFKA_KEYS, *of_brokers.KAFKA_KEYS, of_brokers.ROLES, *TOPIC_DEFAULTS]
            hint = did_you_mean(key, known) or did_you_mean(f"{_PREFIX}{key}", names)
            raise BadInput(f"{place}: {key}: expected {_PREFIX}NAME, or one of {', '.join(known)}{hint}")


def parse(path: Path, text: str) -> ServerConfig:
    """The configuration in the text of a properties file; path is used in messages only."""
    properties = _Properties(path, dict(_pairs(path, text)))
    voters = properties.get("controller.quorum.voters", "id@host:port,…", _voters)
    node_id = properties.get("node.id", "a number", int)
    listeners = properties.get("listeners", "NAME://host:port,…", _listeners)
    properties.values.setdefault("process.roles", "controller")
    roles = properties.get("process.roles", "controller, broker, or broker,controller", _roles)
    key = "metadata.log.dir" if "metadata.log.dir" in properties.values else "log.dirs"
    directory = Path(properties.get(key, "a directory", str).split(",")[0])
    given = dict(_reading(properties)) | _kafka_fields(properties) | _reference_fields(properties)
    seed = given.pop("seed", node_id)
    given |= _initial_voters(properties)
    is_discovered = given.get("voter_addresses") == "discovered"
    addresses = {} if is_discovered else voters
    endpoints = {voter: f"{host}:{port}" for voter, (host, port) in addresses.items()}
    cluster_id = properties.values.get("cluster.id", DEFAULT_CLUSTER_ID)
    given.setdefault("read_lease_ms", given.get("fetch_timeout_ms", FETCH_TIMEOUT_MS) * 3 // 4)
    if given.get("leader_without_majority") == "new-election" and given.get("pre_vote", True):
        raise properties.unknown(f"{_PREFIX}leader_without_majority", f"{_PREFIX}pre_vote=false with new-election")
    _refuse_without_voter_changes(properties, given)
    mutant = given.pop("mutant", None)
    given |= {"mutant": mutant} if mutant in MUTANTS else {}
    _check_topic_defaults(properties)
    of_controller = _fields(properties, ControllerSettings, mutant if mutant in CONTROLLER_MUTANTS else None)
    controller = controller_settings(cluster_id, properties.values, of_controller)
    given |= _discovery(properties, listeners, given)
    settings = NodeSettings(node_id, tuple(sorted(voters)), cluster_id, endpoints, controller=controller, **given)
    of_partitions = _fields(properties, PartitionSettings, mutant if mutant in PARTITION_MUTANTS else None)
    partitions = PartitionSettings(node_id, **of_partitions)
    broker = _broker(properties, listeners, partitions) if "broker" in roles else None
    return ServerConfig(
        settings, _controller_listener(properties, listeners, roles), addresses, directory, seed, broker
    )


def _refuse_without_voter_changes(properties: _Properties, given: Mapping[str, Any]) -> None:
    """Raise BadInput for a way to find the voters that only a quorum that is reassigned has."""
    if given.get("voter_changes") == "kip-642":
        return
    for name, default in (("voter_addresses", "configured"), ("configured_voters", "at-once")):
        value = given.get(name, default)
        if value != default:
            raise properties.unknown(f"{_PREFIX}{name}", f"{_PREFIX}voter_changes=kip-642 with {value}")


def _discovery(properties: _Properties, listeners: Mapping[str, Endpoint], given: Mapping[str, Any]) -> dict[str, Any]:
    """Where to look for other nodes, and where this one listens, on a quorum whose voters change."""
    if given.get("voter_changes", "none") == "none":
        return {}
    key, values = "advertised.listeners", properties.values
    advertised = properties.get(key, "NAME://host:port,…", _listeners) if key in values else listeners
    key, servers = BOOTSTRAP_SERVERS, ()
    if key in values:
        servers = properties.get(key, "host:port,…", _endpoints)
    return {"bootstrap_servers": servers, "advertised": advertised.get(CONTROLLER)}


def _initial_voters(properties: _Properties) -> dict[str, tuple[VoterNode, ...]]:
    """The voters that the node is formatted with, where they change one at a time (KIP-853)."""
    if INITIAL_CONTROLLERS not in properties.values:
        return {}
    voters = properties.get(INITIAL_CONTROLLERS, "id@host:port:directory-id,…", _voter_nodes)
    return {"initial_voters": voters}


def _controller_listener(
    properties: _Properties, listeners: Mapping[str, Endpoint], roles: frozenset[str]
) -> Endpoint | None:
    if "controller" not in roles:
        return None
    if CONTROLLER not in listeners:
        raise properties.error("listeners", f"{CONTROLLER}://host:port for a controller")
    return listeners[CONTROLLER]


def _broker(properties: _Properties, listeners: Mapping[str, Endpoint], partitions: PartitionSettings) -> BrokerConfig:
    of_clients = {name: endpoint for name, endpoint in listeners.items() if name != CONTROLLER}
    if not of_clients:
        raise properties.error("listeners", "a listener for clients, e.g. PLAINTEXT://host:port, for a broker")
    key = "advertised.listeners"
    others = properties.get(key, "NAME://host:port,…", _listeners) if key in properties.values else {}
    advertised = {name: others.get(name, own) for name, own in of_clients.items()}
    groups = GroupSettings(**_fields(properties, GroupSettings))
    return BrokerConfig(partitions, groups, of_clients, advertised, **_fields(properties, BrokerConfig))


def _fields(properties: _Properties, settings: of_brokers.Settings, mutant: str | None = None) -> dict[str, Any]:
    """The fields of these settings that the properties give."""
    values = properties.values
    numbers = {
        key.field: properties.get(name, f"a number of at least {key.least}", partial(_at_least, key.least))
        for name, key in of_brokers.KAFKA_KEYS.items()
        if key.settings is settings and name in values
    }
    switches = {
        key.field: _switch(properties, f"{_PREFIX}{name}")
        for name, key in of_brokers.SWITCHES.items()
        if key.settings is settings and f"{_PREFIX}{name}" in values
    }
    return numbers | switches | ({} if mutant is None else {"mutant": mutant})


def _check_topic_defaults(properties: _Properties) -> None:
    for name in TOPIC_DEFAULTS.keys() & properties.values.keys():
        reason = why_invalid(ResourceType.TOPIC, name, properties.values[name])
        if reason is not None:
            raise properties.unknown(name, reason.rpartition("expected ")[2])


def _pairs(path: Path, text: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith(("#", "!")):
            key, separator, value = stripped.partition("=")
            if not separator:
                raise BadInput(f"{path}: line {number}: expected key=value, got {stripped!r}")
            pairs.append((key.strip(), value.strip()))
    return pairs


def _kafka_fields(properties: _Properties) -> dict[str, Any]:
    return {
        field: properties.milliseconds(key) if key.endswith(".ms") else properties.get(key, "bytes, 1 or more", _size)
        for key, field in _KAFKA_KEYS.items()
        if key in properties.values
    }


def _size(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def _reading(properties: _Properties) -> Mapping[str, Any]:
    """The switches that reference.reading sets."""
    key = f"{_PREFIX}reading"
    if key not in properties.values:
        return {}
    chosen: Mapping[str, Any] = properties.get(key, f"one of {', '.join(READINGS)}", READINGS.__getitem__)
    return chosen


def _reference_fields(properties: _Properties) -> dict[str, Any]:
    names = [key.removeprefix(_PREFIX) for key in properties.values if key.startswith(_PREFIX)]
    elsewhere = {"reading", "initial_controllers", *of_brokers.SWITCHES}
    return dict(_field(properties, name) for name in names if name not in elsewhere)


def _field(properties: _Properties, name: str) -> tuple[str, Any]:
    """The field and its value for a switch; a switch of an earlier release is translated."""
    key = f"{_PREFIX}{name}"
    if name not in _RENAMED:
        return name, _switch(properties, key)
    field_name, values = _RENAMED[name]
    return field_name, properties.get(key, f"one of {', '.join(values)}", values.__getitem__)


def _switch(properties: _Properties, key: str) -> Any:
    name = key.removeprefix(_PREFIX)
    of_broker = of_brokers.SWITCHES.get(name)
    if of_broker is not None and of_broker.is_users:
        return properties.get(key, USERS, _users)
    if name in _SWITCHES or (of_broker is not None and not of_broker.values):
        return properties.get(key, "true or false", _boolean)
    if name == "read_lease_ms":
        return properties.milliseconds(key)
    if name == "seed":
        return properties.get(key, "a number", int)
    choices = _CHOICES.get(name) if of_broker is None else of_broker.values
    if choices is None:
        known = f"one of the switches {', '.join(SWITCH_NAMES)}"
        raise properties.unknown(key, f"{known}{did_you_mean(name, SWITCH_NAMES)}")
    return properties.get(key, f"one of {', '.join(choices)}", lambda value: _choice(choices, value))


def _choice(choices: tuple[str, ...], value: str) -> str:
    if value not in choices:
        raise ValueError(value)
    return value


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _voters(text: str) -> dict[int, tuple[str, int]]:
    voters = {}
    for entry in text.split(","):
        node_id, _, endpoint = entry.partition("@")
        voters[int(node_id)] = _endpoint(endpoint)
    return voters


def _voter_nodes(text: str) -> tuple[VoterNode, ...]:
    nodes = []
    for entry in text.split(","):
        address, _, directory_id = entry.rpartition(":")
        ((node_id, (host, port)),) = _voters(address).items()
        nodes.append(VoterNode(ReplicaKey(node_id, directory_uuid(directory_id)), host, port))
    return tuple(nodes)


def _endpoints(text: str) -> tuple[Endpoint, ...]:
    return tuple(map(_endpoint, text.split(",")))


def _listeners(text: str) -> dict[str, Endpoint]:
    named = (entry.strip().split("://", 1) for entry in text.split(","))
    return {name: _endpoint(address) for name, address in named}


def _roles(text: str) -> frozenset[str]:
    roles = frozenset(name.strip() for name in text.split(","))
    if not roles <= {"broker", "controller"}:
        raise ValueError(text)
    return roles


def _users(text: str) -> dict[str, str]:
    users = dict(entry.split(":") for entry in text.split(","))
    if not all(users) or not all(users.values()):
        raise ValueError(text)
    return users


def _at_least(least: int, text: str) -> int:
    number = int(text)
    if number < least:
        raise ValueError(text)
    return number


def _endpoint(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator:
        raise ValueError(text)
    return host, int(port)
