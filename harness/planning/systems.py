"""From a system's name to its recipe: `reference`, `kafka:3.9.1`; and the names that users may write for them."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Mapping

from harness.model import BadInput
from harness.model.quorum_states import TableName
from harness.model.story import CHANGE_VERSION
from harness.model.systems import System
from harness.planning.plan import Plan
from harness.planning.story_steps import StoryStep
from nodes.kafka.artifacts import Library
from nodes.kafka.configuration import Layout
from nodes.kafka.system import KafkaSystem
from nodes.kafka.system import label as kafka_label
from nodes.kafka.versions import KafkaVersion
from nodes.mixed import MixedSystem, label
from nodes.reference.system import ReferenceSystem, check_switches

REFERENCE = "reference"
KAFKA = "kafka"
EXPECTED = "expected reference, kafka or kafka:VERSION"


Switches = Mapping[str, str]


def is_kafka(system: str) -> bool:
    """Whether a name means real Kafka. Raises BadInput for a name that means nothing."""
    family, _, version = system.partition(":")
    if family not in (REFERENCE, KAFKA) or (family == REFERENCE and version):
        raise BadInput(f"system {system!r}: {EXPECTED}")
    return family == KAFKA


def has_features(system: str) -> bool:
    """Whether a settled system has features, each with a level (KIP-1022)."""
    return is_kafka(system) and _version(system).has_features


def is_switch(name: str) -> bool:
    """Whether a property is one of the reference's own, which Kafka does not know."""
    return name.startswith(f"{REFERENCE}.")


async def settle(system: str, default_version: str, report: Callable[[str], None]) -> tuple[str, dict[str, str]]:
    """The system's full name, with its artifacts here, and what to note of versions.

    `kafka` alone means default_version. Raises BadInput for an unknown system or version.
    """
    if not is_kafka(system):
        return REFERENCE, {}
    wanted = system.partition(":")[2] or default_version
    release = await Library.default(report).resolve(wanted)
    return f"{KAFKA}:{release.version}", {"kafka": str(release.version), "kafka_chosen": release.why}


def build(plan: Plan) -> System:
    """The recipe for a plan's settled system. Raises BadInput for a switch that the system does not know."""
    seats = _seats(plan)
    versions = {_version(system) for system, _ in seats.values() if is_kafka(system)}
    systems = {node: _recipe(plan, system, switches, versions) for node, (system, switches) in seats.items()}
    first, *others = systems.values()
    return first if all(other == first for other in others) else MixedSystem(systems)


def node_system(plan: Plan, node: int, switches: Switches, system: str | None) -> System:
    """A node's recipe with these switches besides its own, or of another system. Raises BadInput, as build does."""
    seats = _seats(plan)
    own, own_switches = seats[node]
    versions = {_version(each) for each, _ in seats.values() if is_kafka(each)}
    return _recipe(plan, system or own, {**own_switches, **switches}, versions)


def versions_in(story: Iterable[StoryStep]) -> list[str]:
    """The systems that a story's changes of version name."""
    return [step.value["system"] for step in story if step.f == CHANGE_VERSION]


def name_of(plan: Plan) -> str:
    """What a plan's system is called; no artifacts are needed for it."""
    return label({node: _name(plan, system, switches) for node, (system, switches) in _seats(plan).items()})


def tables_of(plan: Plan) -> dict[int, TableName]:
    """The transition table that each node follows; no artifacts are needed for it."""
    if versions_in(plan.story):
        return dict.fromkeys(_seats(plan), "either")
    return {node: _table(plan, system, switches) for node, (system, switches) in _seats(plan).items()}


def _seats(plan: Plan) -> dict[int, tuple[str, Switches]]:
    """Each node's system by name, and its switches."""
    return {
        node: (plan.node_systems.get(node, plan.system), {**plan.switches, **plan.node_switches.get(node, {})})
        for node in range(1, plan.nodes + 1)
    }


def _recipe(plan: Plan, system: str, switches: Switches, versions: set[KafkaVersion]) -> System:
    if not is_kafka(system):
        check_switches(switches)
        if plan.layout != "controllers":
            raise BadInput(f"layout {plan.layout}: expected controllers, the reference quorum has no brokers yet")
        if plan.voters is not None:
            raise BadInput(f"voters {plan.voters}: expected none with the reference quorum, its voters never change")
        if plan.features:
            raise BadInput(f"features {', '.join(plan.features)}: expected none with the reference quorum")
        return _reference(plan, switches)
    version, oldest = _version(system), min(versions)
    release = next((release for release in Library.default().installed() if release.version == version), None)
    if release is None:
        raise BadInput(f"Kafka {version}: not on this machine; splitbrain kafka install {version}")
    if plan.features and not version.has_features:
        raise BadInput(f"features with Kafka {version}: expected 4.0 or later, which is formatted with them (KIP-1022)")
    return KafkaSystem(
        release,
        Layout(plan.layout),
        _cluster_id(plan.seed),
        overrides=switches,
        features=plan.features,
        metadata_release=oldest if oldest < version else None,
        initial_voters=_first_voters(plan, version),
    )


def _first_voters(plan: Plan, version: KafkaVersion) -> dict[int, str] | None:
    """The first nodes, with a directory id each, where a plan says how many vote at first: in a dynamic quorum."""
    if plan.voters is None:
        return None
    if plan.voters > plan.nodes:
        raise BadInput(f"voters {plan.voters}: expected at most as many as nodes, {plan.nodes}")
    if not version.has_dynamic_quorum:
        raise BadInput(f"voters {plan.voters}: expected Kafka 3.9 or later, whose voters can change (KIP-853)")
    return {node: _uuid(f"directory {plan.seed} {node}") for node in range(1, plan.voters + 1)}


def _reference(plan: Plan, switches: Switches) -> ReferenceSystem:
    return ReferenceSystem(switches, _cluster_id(plan.seed), plan.seed)


def _version(system: str) -> KafkaVersion:
    return KafkaVersion.parse(system.partition(":")[2])


def _name(plan: Plan, system: str, switches: Switches) -> str:
    return kafka_label(_version(system), switches) if is_kafka(system) else _reference(plan, switches).label


def _table(plan: Plan, system: str, switches: Switches) -> TableName:
    return _version(system).transition_table if is_kafka(system) else _reference(plan, switches).table


def _cluster_id(seed: int) -> str:
    return _uuid(f"cluster {seed}")


def _uuid(seed: str) -> str:
    """Sixteen bytes in Kafka's base64, from the seed; never with a dash first, which its tools take for a flag."""
    raw = random.Random(seed).randbytes(16)
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")
