"""The reference quorum as a system under test: KIP-595 and KIP-996, with a switch for each fix."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model import BadInput
from harness.model.quorum_states import KIP_595_RULES, KIP_996_RULES
from harness.model.systems import CONTROLLER_PORT, ClusterSpec, NodeNeeds, NodeSystem, SystemKind
from harness.model.transition_rules import TransitionRules
from harness.systems.kraft import CHECKS, cluster_id, connect, controller_ports, observe_quorum, register_client
from harness.systems.probe import open_probe, why_refused
from nodes.observe.log_batches import QUORUM_LOG
from nodes.reference.properties import is_used, switches
from nodes.reference.system import ReferenceSystem, check_switches

NAME = "reference"
NEWEST_TOOLS = ""
"""The reference quorum has no tools of its own; those of the newest installed Kafka serve it."""

NO_CLIENT_PORT = 0
UNAVAILABLE = {
    "membership": "the reference quorum has no brokers; use --system kafka --layout combined",
    "requests": "the reference quorum has no topics",
    "voters": "the voters of the reference quorum never change; use --system kafka --voters N (KIP-853)",
}


def _node(version: str, switches: Mapping[str, str], cluster: ClusterSpec) -> NodeSystem:
    if version:
        raise BadInput(f"system {NAME}:{version}: the reference system has no versions; expected --system {NAME}")
    check_switches(switches)
    if cluster.layout != "controllers":
        raise BadInput(f"--layout {cluster.layout}: expected controllers, the reference quorum has no brokers")
    if cluster.voters is not None and cluster.voters > cluster.nodes:
        raise BadInput(f"--voters {cluster.voters}: expected at most the number of nodes, {cluster.nodes}")
    if cluster.features:
        raise BadInput(f"--feature {', '.join(cluster.features)}: not supported by the reference system")
    return ReferenceSystem(switches, cluster_id(cluster.seed), cluster.seed, cluster.voters)


def _rules(_version: str, switches: Mapping[str, str]) -> TransitionRules:
    return KIP_595_RULES if switches.get("reference.pre_vote") == "false" else KIP_996_RULES


def _label(_version: str, switches: Mapping[str, str]) -> str:
    return ReferenceSystem(switches, "", 0).label


REFERENCE = SystemKind(
    name=NAME,
    summary="the bundled reference quorum: KIP-595 and KIP-996, every fix a switch",
    node=_node,
    observe=observe_quorum,
    node_needs=NodeNeeds(cores=0.15, memory_mib=80),
    ports=lambda _layout: (CONTROLLER_PORT,),
    label=_label,
    rules=_rules,
    connect=connect,
    clients={"register": register_client("leader"), "set": "leader"},
    checks=CHECKS,
    checks_without_scenario=("liveness", "announcements"),
    accepts=is_used,
    unavailable=lambda _layout, _voters: UNAVAILABLE,
    switches=switches,
    probe=lambda access: open_probe(access, controller_ports(access.cluster), NO_CLIENT_PORT, (), NEWEST_TOOLS),
    refuses=lambda step, _version, _layout: why_refused(step, NEWEST_TOOLS, has_brokers=False),
    metadata_log=QUORUM_LOG,
)
