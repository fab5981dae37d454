"""From a system's name to its recipe: `reference`, `kafka:3.9.1`; and the names that users may write for them."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

from harness.model import BadInput
from harness.model.quorum_states import TableName
from harness.model.systems import System
from harness.plan import Plan
from nodes.kafka.artifacts import Library
from nodes.kafka.configuration import Layout
from nodes.kafka.system import KafkaSystem
from nodes.kafka.versions import KafkaVersion
from nodes.reference.system import ReferenceSystem, check_switches

REFERENCE = "reference"
KAFKA = "kafka"
EXPECTED = "expected reference, kafka or kafka:VERSION"


def is_kafka(system: str) -> bool:
    """Whether a name means real Kafka. Raises BadInput for a name that means nothing."""
    family, _, version = system.partition(":")
    if family not in (REFERENCE, KAFKA) or (family == REFERENCE and version):
        raise BadInput(f"system {system!r}: {EXPECTED}")
    return family == KAFKA


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
    cluster_id = _cluster_id(plan.seed)
    if not is_kafka(plan.system):
        check_switches(plan.switches)
        if plan.layout != "controllers":
            raise BadInput(f"layout {plan.layout}: expected controllers, the reference quorum has no brokers yet")
        return ReferenceSystem(plan.switches, cluster_id, plan.seed)
    version = KafkaVersion.parse(plan.system.partition(":")[2])
    release = next((release for release in Library.default().installed() if release.version == version), None)
    if release is None:
        raise BadInput(f"Kafka {version}: not on this machine; splitbrain kafka install {version}")
    return KafkaSystem(release, Layout(plan.layout), cluster_id, plan.switches)


def name_and_table(plan: Plan) -> tuple[str, TableName]:
    """What a plan's system is called, and the transition table it follows: all that judging needs, artifacts or not."""
    if not is_kafka(plan.system):
        reference = ReferenceSystem(plan.switches, _cluster_id(plan.seed), plan.seed)
        return reference.label, reference.table
    return plan.system, KafkaVersion.parse(plan.system.partition(":")[2]).transition_table


def _cluster_id(seed: int) -> str:
    """Sixteen bytes in Kafka's base64, from the seed; never with a dash first, which its tools take for a flag."""
    raw = random.Random(f"cluster {seed}").randbytes(16)
    return base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode().rstrip("=")
